"""Measure the word alignments of a Korean-English translator against 100 alignments that were made by hand.

The pairs are in kor.txt of manythings.org/anki, which does not come with regard. A line of tatoeba_alignment.tsv has a
hash of the two texts, the sure word pairs and the possible word pairs, such as 0-1: the index of a Korean and of an
English word, divided at white space. One annotator made the alignments; nobody else has checked them. The error is a
measure for new text only if the translator was not trained on these pairs.
"""

import subprocess
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from string import punctuation
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
import typer

from regard.evaluation.alignment_error import Pairs, ReferenceAlignment, alignment_error_rate
from regard.text.vocabulary import Vocabulary
from regard.translation.alignment_choice import measured_rules
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.translator import Translator

ALIGNMENTS = Path(__file__).with_name("tatoeba_alignment.tsv")

Pair = tuple[str, str]


def main(
    translator: Annotated[Path, typer.Argument(help="The folder of a translator from Korean to English.")],
    pairs: Annotated[Path, typer.Argument(help="kor.txt: English, a tab, Korean, a tab, the source.")],
    eflomal: Annotated[
        bool, typer.Option("--eflomal", help="Measure also eflomal, trained on all pairs (pip install eflomal).")
    ] = False,
) -> None:
    """Print the alignment error rate of every alignment rule of a translator.

    \b
    Example
      python benchmarks/hand_alignment.py ko-en kor.txt --eflomal
    """
    torch.set_num_threads(1)
    loaded, references = Translator.load(translator, "cpu"), aligned_pairs(pairs)
    scored = loaded.score([korean for korean, _ in references], [english for _, english in references])

    def print_error(name: str, alignments: Sequence[Pairs]) -> None:
        print(f"AER {100 * alignment_error_rate(zip(alignments, references.values(), strict=True)):.1f}  {name}")

    print(f"{len(references)} pairs")
    print_error(f"the rule of the translator: {loaded.alignment_rule}", [one.pairs for one in loaded.align(scored)])
    for rule in (*measured_rules(loaded.model, scored, loaded.device), AlignmentRule(by="erasure")):
        print_error(str(rule), [one.pairs for one in loaded.align(scored, rule)])
    if eflomal:
        other_pairs = [pair for pair in dict.fromkeys(pairs_of(pairs)) if pair not in references]
        for name, alignments in eflomal_alignments(loaded, [*references, *other_pairs]).items():
            print_error(name, alignments[: len(references)])


def pairs_of(path: Path) -> list[Pair]:
    """Return the pairs in kor.txt as (Korean text, English text)."""
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [(korean, english) for english, korean, *_ in lines]


def aligned_pairs(path: Path) -> dict[Pair, ReferenceAlignment]:
    """Return the reference alignments of the pairs in kor.txt, by (Korean text, English text)."""
    pair_of_hash = {hash_of(*pair): pair for pair in pairs_of(path)}
    references = {}
    for line in ALIGNMENTS.read_text(encoding="utf-8").splitlines():
        digest, sure, possible = line.split("\t")
        if digest in pair_of_hash:
            pair = pair_of_hash[digest]
            references[pair] = ReferenceAlignment(sure=word_pairs(sure), possible=word_pairs(possible))
    return references


def hash_of(korean: str, english: str) -> str:
    """Return what stands for a sentence pair in tatoeba_alignment.tsv."""
    return blake2b(f"{korean}\t{english}".encode(), digest_size=8).hexdigest()


def word_pairs(text: str) -> frozenset[tuple[int, int]]:
    """Parse word pairs such as "0-0 1-2".

    >>> sorted(word_pairs("0-0 1-2"))
    [(0, 0), (1, 2)]
    """
    pairs = (pair.split("-") for pair in text.split())
    return frozenset((int(source), int(target)) for source, target in pairs)


# Alignments by a statistical word aligner


def eflomal_alignments(translator: Translator, pairs: Sequence[Pair]) -> dict[str, Sequence[Pairs]]:
    """Align the words of sentence pairs by eflomal, which learns from these pairs alone.

    eflomal aligns pieces of words: those of the translator's vocabularies, in lower case and without punctuation.

    Source: Östling & Tiedemann 2016, "Efficient word alignment with Markov chain Monte Carlo".
    """
    sources = [pieces_with_words(translator.source_vocabulary, source) for source, _ in pairs]
    targets = [pieces_with_words(translator.target_vocabulary, target) for _, target in pairs]

    def read_word_pairs(path: Path) -> list[set[tuple[int, int]]]:
        """Read a file with pairs of pieces; return the pairs of the words that these pieces are parts of."""
        lines = path.read_text().splitlines()
        return [
            {(source[i][1], target[j][1]) for i, j in word_pairs(line)}
            for line, source, target in zip(lines, sources, targets, strict=True)
        ]

    with TemporaryDirectory() as folder:
        files = {option: Path(folder) / option for option in ("-s", "-t", "-f", "-r")}
        for option, texts in (("-s", sources), ("-t", targets)):
            lines = (" ".join(piece for piece, _ in text) for text in texts)
            files[option].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        subprocess.run(["eflomal-align", *chain(*((name, str(path)) for name, path in files.items()))], check=True)
        forward, reverse = read_word_pairs(files["-f"]), read_word_pairs(files["-r"])
    both = [pairs & reverse_pairs for pairs, reverse_pairs in zip(forward, reverse, strict=True)]
    return {"eflomal, forward": forward, "eflomal, reverse": reverse, "eflomal, forward and reverse": both}


def pieces_with_words(vocabulary: Vocabulary, text: str) -> list[tuple[str, int]]:
    """Return the subword pieces of a text, each with the index of its word."""
    words = (word.strip(punctuation) or word for word in text.lower().split())
    return [(piece, index) for index, word in enumerate(words) for piece in vocabulary.surfaces(word)]


if __name__ == "__main__":
    typer.run(main)
