"""Measure the memory for statistics of attention: by regard, and with the whole weight matrix in memory.

Each row is measured in a new process: the function runs once on a short text, then the peak of resident memory is
measured, without the memory in use before and without the context.
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
from table import Row, Table, command_of, publish
from torch import Tensor

from regard import Ask, Causal, attend

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
    n_bytes, elapsed_seconds = in_new_process(peak_of, way, length, heads, threads or torch.get_num_threads())
    return {"length": length, "way": way, "MiB above": n_bytes / 2**20, "seconds": elapsed_seconds}


@torch.inference_mode()
def peak_of(way: str, length: int, heads: int, threads: int) -> tuple[int, float]:
    """Return the peak of memory of a call in bytes, without its arguments and its context, and its seconds."""
    torch.set_num_threads(threads)
    short_length = 1024 if way == "long" else 2 * CELLS  # a map needs at least as many tokens as it has rows
    WAYS[way](torch.randn(3, 1, heads, short_length, WIDTH).unbind())
    parts = torch.randn(3, 1, heads, length, WIDTH).unbind()
    start = time.perf_counter()
    peak = peak_memory(lambda: WAYS[way](parts))
    context_bytes = parts[2].nbytes  # the context has the shape of the value
    return max(peak - context_bytes, 0), time.perf_counter() - start


def after(parts: Parts, ask: Ask = ASK) -> object:
    attended = attend(*parts, mask=Causal())
    return attended, attended.pattern.answer(ask)


WAYS: dict[str, Callable[[Parts], object]] = {
    "before": lambda parts: attend(*parts, mask=Causal(), ask=ASK),
    "after": after,
    "eager": lambda parts: eager(parts[0], parts[1], parts[2], causal=True),
    "long": lambda parts: after(parts, ASK_LONG),
}
"""The ways to compute statistics: with the attention, after it, from all weights; many statistics of a long text."""


if __name__ == "__main__":
    typer.run(main)
