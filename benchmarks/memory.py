"""Measure the memory for statistics of attention: by regard, and with the whole weight matrix in memory.

Each row is measured in a new process: query, key and value are created, the function runs once on a short text, and
then the peak of resident memory is measured. The memory in use before, and the context, are subtracted.
"""

import time
from collections.abc import Callable
from typing import Annotated

import torch
import typer
from inspection import ASK, CELLS, eager
from machine import machine
from measure import in_new_process, peak_memory
from options import Heads, Length, Out, Quick, Threads
from picture import Picture
from rich.console import Console
from rich.progress import Progress
from table import Row, Table, command_of, publish
from torch import Tensor

from regard import Ask, Causal, attend
from regard.attention.ask import Summary

LENGTHS = 2048, 4096, 8192

LONG, WIDTH = 131_072, 64

ASK_LONG = Ask(received=True, entropy=True, distance=True, first=True, top=8, pooled=(1024, 1024))

Parts = tuple[Tensor, ...]
"""Query, key and value."""


def main(
    length: Length = None,
    heads: Heads = 8,
    long: Annotated[
        bool, typer.Option("--long", help=f"Also measure {LONG:,} tokens, which takes many minutes.")
    ] = False,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Measure the memory for statistics of attention, by regard and from whole weight matrices, each in a new process.

    \b
    Examples
      python benchmarks/memory.py --length 8192
      python benchmarks/memory.py --long
    """
    lengths = length or ([256] if quick else LENGTHS)
    rows = [measured(way, n, heads, threads) for n in lengths for way in ("before", "after", "eager")]
    rows += [measured("long", LONG, heads, threads)] if long else []
    table = Table(
        name="memory",
        title="Memory above query, key, value and context",
        about=(
            f"float32, 1 x {heads} heads x width {WIDTH}, causal; the peak resident memory of a process of its own. "
            f"The statistics are the received attention, the entropy and a {CELLS} x {CELLS} map. before: `attend` "
            "computes them together with the context; after: they are computed from the pattern after the call; eager: "
            "all weights are built. long: as before, with the 8 strongest keys of each query, the mean distance, the "
            "weight on the first key and a map of 1,024 x 1,024. Goals: at 8,192 tokens eager takes at least 50 times "
            f"the memory of regard; {LONG:,} tokens take less than 1,024 MiB."
        ),
        command=command_of(__file__),
        machine=machine(),
        rows=rows,
        picture=Picture(
            x="length", y=["MiB above"], each=["way"], label="MiB above query, key, value, context", log=True
        ),
    )
    publish(table, out, quick)


def measured(way: str, length: int, heads: int, threads: int | None) -> Row:
    """Return the table row for a way to compute the statistics and a length.

    Args:
        way: the name of a function of this file: before, after, with_weights or long_text.
    """
    above, elapsed = in_new_process(peak_of, way, length, heads, threads or torch.get_num_threads())
    return {"length": length, "way": way, "MiB above": above / 2**20, "seconds": elapsed}


@torch.inference_mode()
def peak_of(way: str, length: int, heads: int, threads: int) -> tuple[int, float]:
    """Return the peak of memory of a call in bytes, without its arguments and its context, and its seconds."""
    torch.set_num_threads(threads)
    WAYS[way](torch.randn(3, 1, heads, 1024 if way == "long" else 2 * CELLS, WIDTH).unbind())
    parts = torch.randn(3, 1, heads, length, WIDTH).unbind()
    start = time.perf_counter()
    with peak_memory() as peak:
        WAYS[way](parts)
    return max(peak.above - parts[2].nbytes, 0), time.perf_counter() - start


def before(parts: Parts) -> object:
    """Compute the statistics together with the attention."""
    return attend(*parts, mask=Causal(), ask=ASK)


def after(parts: Parts) -> object:
    """Compute the attention, and afterwards the statistics of its pattern."""
    seen = attend(*parts, mask=Causal())
    return seen, seen.pattern.answer(ASK)


def with_weights(parts: Parts) -> object:
    """Compute the whole weight matrix, and the statistics from it."""
    query, key, value = parts
    return eager(query, key, value, causal=True)


def long_text(parts: Parts) -> object:
    """Compute many statistics of the pattern of a long text, with a progress bar on a terminal."""
    seen = attend(*parts, mask=Causal())
    return seen, with_progress_bar(lambda report: seen.pattern.answer(ASK_LONG, report))


def with_progress_bar(work: Callable[[Callable[[int, int], None]], Summary]) -> Summary:
    """Call a function with a progress callback that moves a bar on the terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("looking", total=None)
        return work(lambda done, of: progress.update(task, completed=done, total=of))


WAYS: dict[str, Callable[[Parts], object]] = {
    "before": before,
    "after": after,
    "eager": with_weights,
    "long": long_text,
}


if __name__ == "__main__":
    typer.run(main)
