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
from translation import BEAMS, Lines, Program, lines_of, n_same, programs_of, translations_of

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
    texts, references_of_texts = (lines_of(path, n_lines=0)[:n_lines] for path in (lines, references))
    translator = Translator.load(model, "cpu")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        programs = programs_of(processes, translator, Path(folder))
        rows = [scored(programs, texts, references_of_texts, beam) for beam in with_progress(BEAMS, "BLEU")]
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
        picture=Picture(x="search", y=list(programs), label="BLEU"),
    )
    publish(table, out, quick)


def scored(programs: dict[str, Program], texts: Lines, references: Lines, beam: int) -> Row:
    """Translate by every program, and return a row of the table."""
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    translations = {name: translations_of(program, batches, beam) for name, program in programs.items()}
    bleu = {name: evaluate(lines, references).scores[0].value for name, lines in translations.items()}
    in_float32, in_int8 = translations["regard"], translations["regard int8"]
    comparison = evaluate(in_int8, references, against=in_float32).scores[0].comparison
    assert comparison is not None
    return {
        "search": f"beam {beam}" if beam > 1 else "greedy",
        **bleu,
        "±": comparison.other_interval,
        "regard int8 - regard": bleu["regard int8"] - bleu["regard"],
        "p": comparison.p_value,
        "same": n_same(in_float32, in_int8),
    }


if __name__ == "__main__":
    typer.run(main)
