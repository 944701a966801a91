"""Measure translators trained on public corpora, and compare their scores with published scores in the same metrics.

The corpora do not come with regard. Put a corpus into a folder of its name, one file for each language, and train

    cd multi30k
    regard train train.de train.en --dev-source val.de --dev-target val.en --out de-en
    regard train train.de train.en --dev-source val.de --dev-target val.en --out de-en-recurrent --kind recurrent

The metrics of the published scores need two more libraries: pip install spacy sacremoses

multi30k-lc is Multi30k as the published en-de Transformer read it: punctuation normalized and words separated by
sacremoses (MosesPunctNormalizer, MosesTokenizer without escapes), then lower-cased. The translator was trained by two
commands, of which the first was stopped at step 7,980:

    cd multi30k-lc
    torchrun --nproc-per-node 2 $(which regard) train train.en train.de --dev-source val.en --dev-target val.de \\
        --out en-de-first --config ../benchmarks/multi30k-lc.toml
    torchrun --nproc-per-node 2 $(which regard) train train.en train.de --dev-source val.en --dev-target val.de \\
        --out en-de --from en-de-first --config ../benchmarks/multi30k-lc-again.toml
"""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import sacrebleu
import typer
from machine import machine, processor
from options import RESULTS, Out
from picture import Picture
from table import Row, Table, Value, command_of, publish, with_progress
from torch import nn

from regard.evaluation.evaluate import bleu_tokenizer, evaluate
from regard.training.store.training_log import read_log
from regard.translation.translator import Translator

Tokenize = Callable[[str], list[str]]

PUBLISHED: Mapping[tuple[str, str], tuple[str, float | None]] = {
    ("multi30k", "de-en Transformer"): ("spaCy", 36.5),
    ("multi30k", "de-en Recurrent"): ("spaCy", 28.3),
    ("multi30k", "en-de Transformer"): ("Moses", 41.02),
    ("multi30k", "en-de Recurrent"): ("Moses", None),
    ("multi30k-lc", "en-de Transformer"): ("space", 41.02),
}
"""The tokenizer and the published BLEU, by corpus and translator: of pytorch-seq2seq's notebooks (spaCy, lower-cased,
no smoothing) and of Revisit-MMT's Transformer-tiny; None = no BLEU is published for that kind of model."""


def main(
    data: Annotated[Path, typer.Argument(help="The folder of the corpus, named as the corpus.")],
    translators: Annotated[
        list[Path], typer.Argument(help="Folders of translators, named like de-en or de-en-recurrent.")
    ],
    test: Annotated[str, typer.Option(help="Name of the test files, without the language.")] = "test",
    out: Out = None,
) -> None:
    """Translate a corpus's test set by beam search and measure the translations.

    \b
    Example
      python benchmarks/translators.py multi30k multi30k/de-en multi30k/de-en-recurrent --test test_2016_flickr
    """
    rows = [measured(data.resolve().name, data / test, folder) for folder in with_progress(translators, "translators")]
    table = Table(
        name="translators",
        title="Translators of other people's text",
        about=(
            "Translators trained by `regard train` with its default settings, but for fewer steps (steps: those made, "
            "of those planned) or 4,000 pieces in some rows, and dropout 0.3 of the recurrent de-en and en-ja "
            "translators. multi30k-lc is Multi30k tokenized and lower-cased before training, like the text of the "
            "published model, with the settings in multi30k-lc.toml and then in multi30k-lc-again.toml; its parameters "
            "are the mean of its last ten evaluations, as the published ones are the mean of the last ten checkpoints, "
            "and all its figures are of tokenized, lower-cased lines. kept step: the evaluation whose parameters the "
            "translator has. Beam of 5. pieces: the size of the target vocabulary. BLEU, chrF2 and TER are sacreBLEU's "
            "scores of the unchanged lines, with the signatures below; BLEU counts the words of the tokenizer 13a, or "
            "characters in languages without spaces. own metric: BLEU as the published figure was computed, of "
            "lower-cased lines divided into words by spaCy or Moses. hours: the training time on one thread "
            "(multi30k-lc: two processes of one thread each) beside other work, pauses included. Only the rows of the "
            f"folders that are given are measured anew.\n\n{signatures()}"
        ),
        command=command_of(__file__),
        machine=machine("sacrebleu", "spacy", "sacremoses"),
        rows=list((earlier(out or RESULTS) | {key(row): row for row in rows}).values()),
        picture=Picture(x="translator", y=["BLEU", "own metric", "published"], label="BLEU"),
    )
    publish(table, out, quick=False)


def earlier(results: Path) -> dict[tuple[Value, Value], Row]:
    """Return the rows of the table in the folder `results`; they took hours of training, and stay in the table."""
    path = results / "translators.json"
    return {key(row): row for row in Table.read(path).rows} if path.exists() else {}


def key(row: Row) -> tuple[Value, Value]:
    return row["corpus"], row["translator"]


def measured(corpus: str, test: Path, folder: Path) -> Row:
    translator = Translator.load(folder)
    assert isinstance(translator.model, nn.Module)
    source, target = folder.resolve().name.split("-")[:2]
    lines, references = (Path(f"{test}.{side}").read_text("utf-8").splitlines() for side in (source, target))
    translations = [translation.text for translation in translator.translate(lines)]
    words = bleu_tokenizer(references)
    scores = {score.name: score.value for score in evaluate(translations, references, tokenize=words).scores}
    name = f"{source}-{target} {type(translator.model).__name__}"
    tokenizer, published = PUBLISHED.get((corpus, name), (None, None))
    own_bleu = None if tokenizer is None else words_bleu(translations, references, tokenizer_named(tokenizer, target))
    trainings = list(trainings_of(folder))
    steps, planned, seconds = (sum(numbers) for numbers in zip(*trainings, strict=True))
    return {
        "corpus": corpus,
        "translator": name,
        "pieces": len(translator.target_vocabulary),
        "parameters": f"{sum(parameter.numel() for parameter in translator.model.parameters()) / 1e6:.1f} M",
        "steps": f"{steps:,} of {planned:,}",
        "kept step": json.loads((folder / "translator.json").read_text("utf-8"))["extra"]["dev"]["step"],
        "hours": seconds / 3600,
        "on": processor(),
        "words": words,
        **{metric: scores[metric] for metric in ("BLEU", "chrF2", "TER")},
        "own metric": own_bleu,
        "published": published,
    }


def trainings_of(folder: Path) -> Iterator[tuple[int, int, float]]:
    """Yield (steps taken, steps planned, seconds) of a training, and then of the training that it started from."""
    last = [entry for entry in read_log(folder / "log.jsonl") if "elapsed_seconds" in entry][-1]
    config = tomllib.loads((folder / "config.toml").read_text("utf-8"))
    yield last["step"], config["training"]["max_steps"], last["elapsed_seconds"]
    if "start_from" in config["model"]:
        yield from trainings_of(Path(config["model"]["start_from"]))


def tokenizer_named(name: str, language: str) -> Tokenize:
    """Return a tokenizer by its name: spaCy's rules for a language, the Moses script, or division at spaces."""
    if name == "space":
        return str.split
    if name == "spaCy":
        import spacy  # type: ignore[import-not-found]

        rules = spacy.blank(language)
        return lambda text: [word.text for word in rules(text)]
    from sacremoses import MosesTokenizer  # type: ignore[import-not-found]

    tokenizer = MosesTokenizer(language)
    return lambda text: tokenizer.tokenize(text, escape=False)


def words_bleu(translations: Sequence[str], references: Sequence[str], tokenize: Tokenize) -> float:
    """Return BLEU of lower-cased lines, without smoothing, over the words of a tokenizer."""
    hypotheses = [" ".join(tokenize(line.lower())) for line in translations]
    right = [" ".join(tokenize(line.lower())) for line in references]
    return float(sacrebleu.corpus_bleu(hypotheses, [right], tokenize="none", smooth_method="none", force=True).score)


def signatures() -> str:
    """Return sacreBLEU's signatures for BLEU over words and over characters, and for the other metrics."""
    scores = (score for words in ("13a", "char") for score in evaluate(["a b c d"], ["a b c d"], tokenize=words).scores)
    return "; ".join(dict.fromkeys(f"{score.name} `{score.signature}`" for score in scores)) + "."


if __name__ == "__main__":
    typer.run(main)
