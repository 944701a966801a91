"""Measure the word alignments of a Korean-English translator against 100 alignments that were made by hand.

The pairs are in kor.txt of manythings.org/anki, which does not come with regard. A line of tatoeba_alignment.tsv has a
hash of the two texts, the sure word pairs and the possible word pairs, such as 0-1: the index of a Korean and of an
English word, divided at white space. One annotator made the alignments; nobody else has checked them. The error is a
measure for new text only if the translator was not trained on these pairs.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import torch
import typer

from regard.evaluation.alignment_error import ReferenceAlignment, alignment_error_rate
from regard.translation.alignment_choice import measured_rules
from regard.translation.translator import Translator

ALIGNMENTS = Path(__file__).with_name("tatoeba_alignment.tsv")

Pair = tuple[str, str]


def main(
    translator: Annotated[Path, typer.Argument(help="The folder of a translator from Korean to English.")],
    pairs: Annotated[Path, typer.Argument(help="kor.txt: English, a tab, Korean, a tab, the source.")],
) -> None:
    """Print the alignment error rate of every alignment rule of a translator.

    \b
    Example
      python benchmarks/hand_alignment.py ko-en kor.txt
    """
    torch.set_num_threads(1)
    loaded, right = Translator.load(translator, "cpu"), aligned_pairs(pairs)
    scored = loaded.score([korean for korean, _ in right], [english for _, english in right])
    chosen = alignment_error_rate(zip((one.pairs for one in loaded.align(scored)), right.values(), strict=True))
    print(f"{len(right)} pairs; the rule of the translator, {loaded.alignment_rule}: AER {100 * chosen:.1f}")
    for rule in measured_rules(loaded.model, scored, loaded.device):
        error = alignment_error_rate(
            zip((one.pairs for one in loaded.align(scored, rule)), right.values(), strict=True)
        )
        print(f"AER {100 * error:.1f}  {rule}")


def aligned_pairs(path: Path) -> dict[Pair, ReferenceAlignment]:
    """Return the reference alignments of the pairs in kor.txt, by (Korean text, English text)."""
    texts = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        english, korean = line.split("\t")[:2]
        texts[hash_of(korean, english)] = korean, english
    found = {}
    for line in ALIGNMENTS.read_text(encoding="utf-8").splitlines():
        name, sure, possible = line.split("\t")
        if name in texts:
            found[texts[name]] = ReferenceAlignment(sure=word_pairs(sure), possible=word_pairs(possible))
    return found


def hash_of(korean: str, english: str) -> str:
    """Return what stands for a sentence pair in tatoeba_alignment.tsv."""
    return blake2b(f"{korean}\t{english}".encode(), digest_size=8).hexdigest()


def word_pairs(text: str) -> frozenset[tuple[int, int]]:
    """Parse word pairs such as "0-0 1-2".

    >>> sorted(word_pairs("0-0 1-2"))
    [(0, 0), (1, 2)]
    """
    return frozenset((int(source), int(target)) for source, _, target in (pair.partition("-") for pair in text.split()))


if __name__ == "__main__":
    typer.run(main)
