"""Test for all model types of transformers whether regard records their attention exactly.

For each type a small random model is run in a new process with limits of time and memory; see `trial.py`.
"""

import json
import multiprocessing
import os
import resource
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from trial import Trial, try_type
from verdict import EXACT, NO_ATTENTION, NO_WEIGHTS, NOT_TRIED, PARTLY, REFUSED, WRONG

SECONDS, MEMORY = 90, 8 << 30
"""The limits for each type: CPU time, and bytes of address space (PyTorch itself takes about 2 GiB)."""

MEANINGS = {
    EXACT: "Every pattern equals the weights that the model returns, in every run.",
    PARTLY: "Some patterns are missing; the remark names where. `watched.unseen` lists these modules, and `install` "
    "leaves the model's own tensors in their place. The patterns that are there are exact.",
    REFUSED: "`regard.install` raises an error: the model computes its attention without the attention interface of "
    "transformers, or does more in it than regard reproduces. Use `regard.watching`.",
    NO_WEIGHTS: "The model runs with `regard.install`, but has no attention weights among its outputs.",
    NO_ATTENTION: "The model computes no attention with a softmax: convolutions, state-space models, linear attention.",
    WRONG: "A pattern differs from the weights of the model, or is missing although nothing says so.",
    NOT_TRIED: "The command could not build or run the model; the remark says why.",
}

INTRODUCTION = """\
# All model types of transformers

This page says for each model type of transformers whether [`regard.watching`](any-model.md) and
[`regard.install`](hugging-face.md) see its attention exactly. The command below wrote it, with transformers
{transformers} and PyTorch {torch}.

    {command}

The command builds a small random model of each type, with two or more layers, and runs it on a batch of two inputs.
Models that read text get 40 tokens: without padding, with padding on the right and with padding on the left. The
reference is the model itself: with `attn_implementation="eager"` and `output_attentions=True` it returns its weights.
The command compares them with

- the patterns of `regard.watching`, around a model with its default attention and around one with eager attention;
- the patterns in the outputs after `regard.install`.

Weights are equal if they differ by less than 0.0001, for all queries that are not padding. The outputs of a watched
model must be the same bits as without regard, and the contexts recomputed from the patterns must be those that the
model computed. Where a model returns no weights, the contexts are the only check, and the remark says so.

Models that write text also write four tokens with `generate`, after two texts without padding and with padding on the
left. The patterns of `regard.watching` are then compared with the weights that `generate` returns with eager attention.
A model whose `generate` fails on such texts without regard is compared in its forward pass alone.

Models that read text and images or sound are often tried with text alone; their parts for images and sound are types
of their own in the table. A type that is only a part of another type's model is tried inside of that model, and its
verdict is about that part; the remark names the model. Some types need packages that transformers itself does not;
these were installed: {packages}.

"""

VERDICTS = "## The verdicts\n"
"""The heading between the introduction and the two tables."""


def main(
    types: Annotated[str | None, typer.Option(help="Model types, separated by commas; default: all.")] = None,
    write: Annotated[
        Path | None, typer.Option(help="The page to write; with --types, only their rows and the counts change.")
    ] = None,
    details: Annotated[
        Path | None, typer.Option(help="A file of JSON lines for all measurements; types in it are not run again.")
    ] = None,
    processes: Annotated[int, typer.Option(help="The number of types that are run at the same time.")] = 1,
) -> None:
    """Try model types of transformers, and print or write a page with the verdicts.

    \b
    Examples
      python -m benchmarks.model_types --types bert,falcon,mamba
      python -m benchmarks.model_types --write docs/model-types.md
      python -m benchmarks.model_types --types bert --write docs/model-types.md
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    names = sorted(CONFIG_MAPPING_NAMES) if types is None else types.split(",")
    if unknown := [name for name in names if name not in CONFIG_MAPPING_NAMES]:
        raise typer.BadParameter(f"transformers has no model type {', '.join(unknown)}.")
    trial_of = {trial.type: trial for trial in read_trials(details)}
    for trial in try_types([name for name in names if name not in trial_of], processes):
        trial_of[trial.type] = trial
        if details is not None:
            with details.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(trial), default=str) + "\n")
    trials = [trial_of[name] for name in names]
    if types is not None and write is not None and write.exists():
        page = updated_page(write, trials)
    else:
        page = page_of(trials)
    if write is None:
        print(page)
    else:
        write.write_text(page, encoding="utf-8")
    if wrong := [trial.type for trial in trials if WRONG in (trial.watching, trial.install)]:
        print(f"wrong: {', '.join(wrong)}", file=sys.stderr)
        raise typer.Exit(1)


def read_trials(details: Path | None) -> list[Trial]:
    if details is None or not details.exists():
        return []
    return [Trial(**json.loads(line)) for line in details.read_text(encoding="utf-8").splitlines()]


def try_types(names: Sequence[str], processes: int = 1) -> Iterator[Trial]:
    """Test model types, each in a new process."""
    import_once()
    console = Console(stderr=True)
    with ThreadPoolExecutor(processes) as pool:
        trials = (future.result() for future in as_completed([pool.submit(in_child, name) for name in names]))
        with_bar = track(trials, "model types", len(names), console=console, transient=True)
        yield from with_bar if console.is_terminal else trials


def import_once() -> None:
    """Import the modules that all child processes need, before the first child is forked."""
    import transformers.models.auto.modeling_auto
    import transformers.models.bert.modeling_bert  # with all that models have in common

    import regard

    _ = regard.install, regard.watching  # which are imported when they are named first
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)


def in_child(name: str) -> Trial:
    """Test a model type in a child process with limits of time and memory."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send_trial, args=(name, sender))
    child.start()
    sender.close()
    try:
        return Trial(**json.loads(receiver.recv_bytes()))
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGXCPU:
            return Trial(name, remark=f"it takes more than {SECONDS} seconds of the processor")
        return Trial(name, remark=f"its process ends, for instance for want of memory ({MEMORY >> 30} GiB)")
    finally:
        child.kill()
        child.join()
        receiver.close()


def send_trial(name: str, sender: Connection) -> None:
    """Test a model type in the child process, and send the trial to the parent process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    with Path(os.devnull).open("w") as silence:
        sys.stdout = sys.stderr = silence
        try:
            trial = try_type(name)
        except Exception as error:
            trial = Trial(name, remark=f"{type(error).__name__}: {error}")
        sender.send_bytes(json.dumps(asdict(trial), default=str).encode())


def page_of(trials: Sequence[Trial]) -> str:
    import transformers

    command = "python -m benchmarks.model_types --write docs/model-types.md"
    introduction = INTRODUCTION.format(
        transformers=transformers.__version__,
        torch=torch.__version__.split("+")[0],
        command=command,
        packages=packages(),
    )
    return with_tables(introduction + VERDICTS, trials)


def with_tables(introduction: str, trials: Sequence[Trial]) -> str:
    return "\n".join([introduction, verdicts(trials), "", "## The types", "", rows(trials), ""])


def updated_page(path: Path, trials: Sequence[Trial]) -> str:
    """Return the page at `path` with the rows of `trials` in place of its own, and with new counts."""
    import transformers

    introduction, tables = path.read_text(encoding="utf-8").split(VERDICTS)
    if transformers.__version__ not in introduction:
        raise typer.BadParameter(f"{path} is of another version of transformers; try all types, without --types.")
    _, _, rows_of_types = tables.split("|---|---|---|---|\n")  # the second table has the types
    trial_of = dict[str, Trial]()
    for line in rows_of_types.splitlines():
        name, watching, install, remark = (cell.strip() for cell in line.split("|")[1:-1])
        trial_of[name] = Trial(name, watching, install, remark)
    trial_of |= {trial.type: trial for trial in trials}
    return with_tables(introduction + VERDICTS, [trial_of[name] for name in sorted(trial_of)])


def packages() -> str:
    """Return the versions of the packages that some models of transformers need."""
    installed = [name for name in ("timm", "torchvision", "torchaudio", "scipy") if find_spec(name)]
    return ", ".join(f"{name} {version(name).split('+')[0]}" for name in installed) or "none of them"


def verdicts(trials: Sequence[Trial]) -> str:
    watching, install = Counter(trial.watching for trial in trials), Counter(trial.install for trial in trials)
    lines = [
        f"| {verdict} | {watching[verdict]} | {install[verdict]} | {meaning} |" for verdict, meaning in MEANINGS.items()
    ]
    total = f"| all | {len(trials)} | {len(trials)} | |"
    return "\n".join(["| verdict | watching | install | meaning |", "|---|---|---|---|", *lines, total])


def rows(trials: Sequence[Trial]) -> str:
    lines = [f"| {trial.type} | {trial.watching} | {trial.install} | {cell(trial.remark)} |" for trial in trials]
    return "\n".join(["| type | watching | install | remark |", "|---|---|---|---|", *lines])


def cell(text: str, max_letters: int = 200) -> str:
    """Return a text as a cell of a Markdown table: one line of at most `max_letters` letters, with | and < replaced.

    >>> cell("a|b\\nc <d>")
    'a/b c &lt;d&gt;'
    """
    line = " ".join(text.split()).replace("|", "/").replace("<", "&lt;").replace(">", "&gt;")
    return line if len(line) <= max_letters else line[: max_letters - 1].rsplit(" ", 1)[0] + " …"


if __name__ == "__main__":
    typer.run(main)
