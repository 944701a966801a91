"""How well translators of Multi30k translate its test set of 2016, beside published figures and by their own metrics.

The data is not regard's to give: put train, val and test_2016_flickr, one file a language, into a folder, and train

    regard train train.de train.en --dev-source val.de --dev-target val.en --out de-en
    regard train train.de train.en --dev-source val.de --dev-target val.en --out de-en-recurrent --kind recurrent

Other metrics need two more libraries: pip install spacy sacremoses
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import sacrebleu
import typer
from machine import machine, processor
from options import RESULTS, Out
from picture import Picture
from table import Row, Table, Value, command_of, finish, watched
from torch import nn

from regard.training.log import read_log
from regard.translation.evaluate import evaluate
from regard.translation.translator import Translator

TEST = "test_2016_flickr"

Words = Callable[[str], list[str]]
"""Finds the words of a text."""

PUBLISHED = {
    ("de", "en", "Transformer"): ("spaCy", 36.5),
    ("de", "en", "Recurrent"): ("spaCy", 28.3),
    ("en", "de", "Transformer"): ("Moses", 41.02),
}
"""Of pytorch-seq2seq's notebooks (spaCy's words, lower-cased, no smoothing) and of Revisit-MMT's Transformer-tiny."""


def main(
    data: Annotated[Path, typer.Argument(help=f"The folder with {TEST}.de and {TEST}.en.")],
    translators: Annotated[list[Path], typer.Argument(help="Translators' folders, named as de-en or de-en-recurrent.")],
    out: Out = None,
) -> None:
    """Translate Multi30k's test set by beam search and measure the translations.

    \b
    Example
      python benchmarks/multi30k.py multi30k de-en en-de de-en-recurrent
    """
    new = {row["translator"]: row for row in (measured(data, folder) for folder in watched(translators, "multi30k"))}
    rows = list((earlier(out or RESULTS) | new).values())
    table = Table(
        name="multi30k",
        title="Multi30k, test set of 2016 (Flickr)",
        about=(
            "`regard train` on the 29,000 pairs with no option but the dev set (and --kind), translations by beam "
            "search of 5. BLEU, chrF2 and TER are sacreBLEU's on the raw lines, with the signatures below; own metric "
            "is that of the published figure: BLEU of lower-cased lines in spaCy's or Moses' words. hours: of "
            "training on one thread beside other work, pauses included. A row is made anew when its folder is given, "
            "and kept otherwise.\n\n" + signatures()
        ),
        command=command_of(__file__),
        machine=machine("sacrebleu", "spacy", "sacremoses"),
        rows=rows,
        picture=Picture(x="translator", y=["own metric", "published"], label="BLEU"),
    )
    finish(table, out, quick=False)


def earlier(results: Path) -> dict[Value, Row]:
    """The rows that the table has already, by translator: one is hours of training, and kept until it is made anew."""
    path = results / "multi30k.json"
    return {row["translator"]: row for row in Table.read(path).rows} if path.exists() else {}


def measured(data: Path, folder: Path) -> Row:
    """The row of a translator."""
    translator = Translator.load(folder)
    source, target = folder.resolve().name.split("-")[:2]
    lines, references = (data.joinpath(f"{TEST}.{side}").read_text("utf-8").splitlines() for side in (source, target))
    found = [one.text for one in translator.translate(lines)]
    scores = {score.name: score.value for score in evaluate(found, references).scores}
    kind = type(translator.model).__name__
    how, published = PUBLISHED.get((source, target, kind), ("Moses", None))
    steps = [entry for entry in read_log(folder / "log.jsonl") if "elapsed_seconds" in entry]
    best = [entry for entry in read_log(folder / "log.jsonl") if entry.get("is_best")]
    assert isinstance(translator.model, nn.Module)
    return {
        "translator": f"{source}-{target} {kind}",
        "parameters": f"{sum(parameter.numel() for parameter in translator.model.parameters()) / 1e6:.1f} M",
        "steps": steps[-1]["step"],
        "best step": best[-1]["step"],
        "hours": steps[-1]["elapsed_seconds"] / 3600,
        "on": processor(),
        **{name: scores[name] for name in ("BLEU", "chrF2", "TER")},
        "words": how,
        "own metric": of_words(found, references, words_of(how, target)),
        "published": published,
    }


def words_of(how: str, language: str) -> Words:
    """spaCy's rules for a language, or Moses' script."""
    if how == "spaCy":
        import spacy

        rules = spacy.blank(language)
        return lambda text: [word.text for word in rules(text)]
    from sacremoses import MosesTokenizer  # type: ignore[import-untyped]

    tokenizer = MosesTokenizer(language)
    return lambda text: tokenizer.tokenize(text, escape=False)


def of_words(found: Sequence[str], references: Sequence[str], words: Words) -> float:
    """BLEU of lower-cased lines by the words that somebody else finds in them, without smoothing."""
    theirs, ours = ([" ".join(words(line.lower())) for line in side] for side in (found, references))
    return float(sacrebleu.corpus_bleu(theirs, [ours], tokenize="none", smooth_method="none", force=True).score)


def signatures() -> str:
    """What exactly sacreBLEU computes."""
    return "; ".join(f"`{score.signature}`" for score in evaluate(["a b c d"], ["a b c d"]).scores) + "."


if __name__ == "__main__":
    typer.run(main)
