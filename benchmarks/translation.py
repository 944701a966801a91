"""Time the translation of the same lines with the same parameters: regard, transformers' generate, and CTranslate2."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import torch
import typer
from by_ctranslate2 import MOST_PIECES, load_ctranslate2, translate_by_ctranslate2
from machine import machine
from measure import Spread, ratio, take_turns
from options import Out, Quick, Seconds, Threads
from picture import Picture
from sentences import sentences
from table import Row, Table, command_of, publish, with_progress

from regard.export import export
from regard.training.settings.train_config import Evaluation, Model, TrainConfig, Training
from regard.training.train import train
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy
from regard.translation.translator import Translator

BATCHES = 1, 16, 64
BEAMS = 5, 1
LINES, PAIRS, STEPS, DEV_PAIRS = 200, 6_000, 800, 5

ONE_IN = 10
"""If a batch is one line, only one in this many lines is translated."""

TranslatorFolder = Annotated[
    Path | None, typer.Option(help="A translator's folder.", show_default="a small one, trained here")
]
LinesFile = Annotated[
    Path | None, typer.Option(help="A file of lines to translate.", show_default=f"{LINES} number names")
]

Preset = Annotated[
    str | None,
    typer.Option(help="Size of the translator trained here; base takes half an hour.", show_default="chosen by train"),
]

Lines = Sequence[str]
Program = Callable[[Lines, int], list[str]]
"""A function of a batch of lines and a beam size (1 = greedy search) to translations."""


def main(
    model: TranslatorFolder = None,
    lines: LinesFile = None,
    preset: Preset = None,
    batch: Annotated[list[int] | None, typer.Option(help="Lines in a batch; may be given several times.")] = None,
    seconds: Seconds = 60,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Compare the speed of translating with transformers' generate and with CTranslate2.

    \b
    Example
      python benchmarks/translation.py --model en-de --lines test.en --batch 32
      python benchmarks/translation.py --preset base --batch 1
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    n_lines, pairs, steps = LINES, PAIRS, STEPS
    if quick:
        batch, seconds, n_lines, pairs, steps = batch or [2], min(seconds, 0.2), 2, 300, 5
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        translator = Translator.load(model or trained(Path(folder), pairs, steps, preset), "cpu")
        texts = lines_of(lines, n_lines)
        texts.sort(key=lambda text: -len(translator.source_vocabulary.encode(text)))
        programs = programs_of(processes, translator, Path(folder))
        cases = list(product(BEAMS, batch or BATCHES))
        rows = [
            measured(programs, translator, texts, beam, size, seconds)
            for beam, size in with_progress(cases, "translation")
        ]
    n_parameters = sum(parameter.numel() for parameter in translator.model.parameters())  # type: ignore[attr-defined]
    label = model.name if model else preset
    table = Table(
        name=f"translation-{label}" if label else "translation",
        title=f"Translating, in tokens a second{f', {label}' if label else ''}",
        about=(
            f"Target pieces a second for {len(texts)} lines (1 in {ONE_IN} of them where a batch is one line). A "
            f"Transformer of {n_parameters / 1e6:.1f} M parameters with {len(translator.target_vocabulary):,} target "
            "pieces translates, in float32: run by regard, by `generate` of transformers, and by CTranslate2, with the "
            "same parameters and the same batches of lines of similar length. regard int8 and CTranslate2 int8 compute "
            "with 8-bit integers as weights; CT2_VERBOSE=1 logs which library CTranslate2 uses. "
            "same: how many lines regard and `generate` translate identically. "
            "Goal: 3 times the speed of `generate` with a beam of 5."
        ),
        command=command_of(__file__),
        machine=machine("transformers", "ctranslate2"),
        rows=rows,
        picture=Picture(x="search", each=["lines a batch"], y=list(programs), label="target pieces a second"),
    )
    publish(table, out, quick)


def measured(
    programs: Mapping[str, Program], translator: Translator, texts: Lines, beam: int, size: int, seconds: float
) -> Row:
    texts = texts[::ONE_IN] if size == 1 else texts
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    runs = {name: partial(translations_of, program, batches, beam) for name, program in programs.items()}
    translations = {name: run() for name, run in runs.items()}
    elapsed = take_turns(runs, seconds)
    speeds = {}
    for name, lines in translations.items():
        n_pieces = sum(len(translator.target_vocabulary.encode(line)) + 1 for line in lines)
        speeds[name] = Spread.of([n_pieces / run_seconds for run_seconds in elapsed[name]]).median
    return {
        "search": f"beam {beam}" if beam > 1 else "greedy",
        "lines a batch": size,
        **speeds,
        "regard / generate": ratio(elapsed["generate"], elapsed["regard"]),
        "regard int8 / regard": ratio(elapsed["regard"], elapsed["regard int8"]),
        "CTranslate2 / regard": ratio(elapsed["regard"], elapsed["CTranslate2"]),
        "same": n_same(translations["regard"], translations["generate"]),
    }


def translations_of(program: Program, batches: Sequence[Lines], beam: int) -> list[str]:
    return [text for batch in batches for text in program(batch, beam)]


def n_same(lines: Lines, others: Lines) -> str:
    """Return how many lines are the same, such as "3 of 4"."""
    return f"{sum(line == other for line, other in zip(lines, others, strict=True))} of {len(lines)}"


def lines_of(file: Path | None, n_lines: int) -> list[str]:
    """Return the lines of a file, or number names that the translator was not trained on."""
    if file is not None:
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [source for source, _ in sentences("en", "de", train=PAIRS, test=n_lines)[1]]


def trained(folder: Path, pairs: int, steps: int, preset: str | None = None) -> Path:
    """Train a translator of number names, a small one for a minute or two; return its folder."""
    sides = folder / "train.en", folder / "train.de"
    for side, texts in zip(sides, zip(*sentences("en", "de", train=pairs)[0], strict=True), strict=True):
        side.write_text("\n".join(texts) + "\n", encoding="utf-8")
    config = TrainConfig(
        model=Model(preset=preset),
        training=Training(max_steps=steps),
        evaluation=Evaluation(every_steps=steps, pairs=DEV_PAIRS),
    )
    return train(*sides, folder / "translator", config, device="cpu").folder


def programs_of(processes: ExitStack, translator: Translator, folder: Path) -> dict[str, Program]:
    """Return the programs to compare, all with the parameters of `translator`."""
    saved = translator.save(folder / "saved")
    for to in ("huggingface", "ctranslate2"):
        export(saved, to, folder / to)
    return {
        "regard": by_regard(translator),
        "regard int8": by_regard(Translator.load(saved, "cpu", int8=True)),
        "generate": by_transformers(folder / "huggingface"),
        "CTranslate2": by_ctranslate2(processes, folder / "ctranslate2", "float32"),
        "CTranslate2 int8": by_ctranslate2(processes, folder / "ctranslate2", "int8"),
    }


def by_regard(translator: Translator) -> Program:
    """Return a program that translates as `regard translate` does."""

    def translate(lines: Lines, beam: int) -> list[str]:
        search = Beam(beam) if beam > 1 else Greedy()
        budget = MOST_PIECES * len(lines)
        return [one.text for one in translator.translate(lines, search=search, batch_tokens=budget)]

    return translate


def by_transformers(folder: Path) -> Program:
    """Return a program that translates by `generate` of the model exported to transformers."""
    from regard.export.huggingface import LoadedExport
    from regard.tracing.model_loading import quiet_transformers

    export = LoadedExport(folder)

    @torch.inference_mode()
    def translate(lines: Lines, beam: int) -> list[str]:
        with quiet_transformers(progress=False):
            sources = export.tokenizer(list(lines), return_tensors="pt", padding=True)
            tokens = export.model.generate(**sources, num_beams=beam, do_sample=False, max_length=MOST_PIECES)
            return list(export.tokenizer.batch_decode(tokens, skip_special_tokens=True))

    return translate


def by_ctranslate2(processes: ExitStack, folder: Path, kind: str) -> Program:
    """Return a program that translates with CTranslate2, with as many threads as PyTorch has.

    CTranslate2 runs in another process: CTranslate2 and PyTorch both use GNU's OpenMP, which puts threads to sleep
    between operations if a process has more threads than cores, and then both libraries are half as fast.
    """
    process = processes.enter_context(
        ProcessPoolExecutor(
            max_workers=1,
            mp_context=get_context("spawn"),
            initializer=load_ctranslate2,
            initargs=(str(folder), kind, torch.get_num_threads()),
        )
    )
    return lambda lines, beam: process.submit(translate_by_ctranslate2, lines, beam).result()


if __name__ == "__main__":
    typer.run(main)
