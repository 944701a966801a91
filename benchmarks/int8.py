"""BLEU of the same lines translated in float32 and with 8-bit integers as weights, by regard and by CTranslate2."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import torch
import typer
from machine import machine
from options import Out, Quick
from picture import Picture
from table import Row, Table, command_of, publish, with_progress
from translation import BEAMS, Lines, Way, lines_of, ways_of

from regard.evaluation.evaluate import evaluate
from regard.translation.translator import Translator

BATCH, QUICK_LINES = 64, 2


def main(
    model: Annotated[Path, typer.Argument(help="A translator's folder.")],
    lines: Annotated[Path, typer.Argument(help="A file of lines to translate.")],
    references: Annotated[Path, typer.Argument(help="Their translations by people, line by line.")],
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Compare BLEU in float32 with BLEU with 8-bit integers; other work on the machine does not matter.

    \b
    Example
      python benchmarks/int8.py en-de test.en test.de
    """
    torch.set_num_threads(1)
    n_lines = QUICK_LINES if quick else None
    texts, right = (lines_of(path, 0)[:n_lines] for path in (lines, references))
    translator = Translator.load(model, "cpu")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        ways = ways_of(processes, translator, Path(folder))
        rows = [scored(ways, texts, right, beam) for beam in with_progress(BEAMS, "BLEU")]
    table = Table(
        name=f"translation-int8-{translator.name}",
        title=f"Translating with 8-bit integers, {translator.name}",
        about=(
            f"BLEU of {len(texts):,} lines: the programs of the tables of speed, with the same parameters. ±: half the "
            "width of the 95 % confidence interval of regard's BLEU by bootstrap resampling of the lines. p: how "
            "probable so large a difference between regard and regard int8 is by chance. same: how many lines regard "
            "int8 translates as regard in float32."
        ),
        command=command_of(__file__),
        machine=machine("sacrebleu", "transformers", "ctranslate2"),
        rows=rows,
        picture=Picture(x="search", y=list(ways), label="BLEU"),
    )
    publish(table, out, quick)


def scored(ways: dict[str, Way], texts: Lines, references: Lines, beam: int) -> Row:
    """Translate by every program, and return a row of the table."""
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    found = {name: [text for batch in batches for text in way(batch, beam)] for name, way in ways.items()}
    bleu = {name: evaluate(lines, references).scores[0].value for name, lines in found.items()}
    comparison = evaluate(found["regard int8"], references, against=found["regard"]).scores[0].comparison
    assert comparison is not None
    return {
        "search": f"beam {beam}" if beam > 1 else "greedy",
        **bleu,
        "±": comparison.other_interval,
        "regard int8 - regard": bleu["regard int8"] - bleu["regard"],
        "p": comparison.p_value,
        "same": f"{sum(a == b for a, b in zip(found['regard'], found['regard int8'], strict=True))} of {len(texts)}",
    }


if __name__ == "__main__":
    typer.run(main)
