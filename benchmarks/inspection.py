"""Time attention with statistics of its weights (entropies, column sums, a pooled map), by regard and by whole
matrices.
"""

import math
from collections.abc import Mapping
from itertools import product
from statistics import median

import torch
import torch.nn.functional as F
import typer
from machine import machine
from measure import Run, ratio, take_turns
from options import Heads, Length, Out, Quick, Seconds, Threads, Width
from picture import Picture
from table import Row, Table, command_of, publish, with_progress
from torch import Tensor

from regard import Ask, Causal, attend
from regard.attention.ask import Summary

HEADS = 8
LENGTHS = 512, 1024, 2048, 4096, 8192, 16384
WIDTHS = 64, 128

CELLS = 64
"""The rows, and the columns, of the pooled map of the weights."""

ASK = Ask(received=True, entropy=True, distance=False, first=False, pooled=(CELLS, CELLS))

MOST_BUILT = 2**30
"""The most weights for which `eager` is measured: with their copies they fit into 24 GiB."""

Statistics = Mapping[str, Tensor]


def main(
    length: Length = None,
    width: Width = None,
    heads: Heads = HEADS,
    seconds: Seconds = 30,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Time attention with statistics of its pattern against attention alone, and against eager.

    \b
    Examples
      python benchmarks/inspection.py --length 4096 --width 64
      python benchmarks/inspection.py --length 131072 --heads 1
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    if quick:
        length, width, seconds = length or [128, 256], width or [64], min(seconds, 0.2)
    cases = list(product(width or WIDTHS, (False, True), length or LENGTHS))
    table = Table(
        name="inspection" if heads == HEADS else f"inspection-heads-{heads}",
        title="Attention with its statistics" if heads == HEADS else f"Attention with its statistics, heads: {heads}",
        about=(
            f"float32, heads: {heads}. The statistics are the received attention, the entropy and a {CELLS} x {CELLS} "
            "map of each head, all exact. before: `attend` computes them together with the context; after: they are "
            "computed from the pattern after the call; eager: all weights are built, and the statistics are computed "
            "from them. Goals: before takes at most 1.5 times as long as SDPA's forward pass at width 64 and 1.3 times "
            "at width 128; after takes at most 1.9 and 1.75 times as long; at 4,096 tokens eager takes at least 2.8 "
            "times as long as before, and 4.5 times with a causal mask."
        ),
        command=command_of(__file__),
        machine=machine(),
        rows=[measured(n, w, causal, heads, seconds) for w, causal, n in with_progress(cases, "inspection")],
        picture=Picture(
            x="length", y=["before / SDPA", "after / SDPA"], each=["width", "mask"], label="times SDPA's forward"
        ),
    )
    publish(table, out, quick)


@torch.inference_mode()
def measured(length: int, width: int, causal: bool, heads: int, seconds: float) -> Row:
    query, key, value = torch.randn(3, 1, heads, length, width).unbind()
    mask = Causal() if causal else None
    runs: dict[str, Run] = {
        "sdpa": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal),
        "before": lambda: attend(query, key, value, mask=mask, ask=ASK),
        "after": lambda: attend(query, key, value, mask=mask).pattern.answer(ASK),
    }
    has_eager = heads * length**2 <= MOST_BUILT
    if has_eager:
        check_statistics(attend(query, key, value, mask=mask).pattern.answer(ASK), eager(query, key, value, causal))
        runs["eager"] = lambda: eager(query, key, value, causal)
    elapsed = take_turns(runs, seconds)
    return {
        "length": length,
        "width": width,
        "mask": "causal" if causal else "full",
        "SDPA ms": median(elapsed["sdpa"]) * 1e3,
        "before ms": median(elapsed["before"]) * 1e3,
        "after ms": median(elapsed["after"]) * 1e3,
        "eager ms": median(elapsed["eager"]) * 1e3 if has_eager else None,
        "before / SDPA": ratio(elapsed["before"], elapsed["sdpa"]),
        "after / SDPA": ratio(elapsed["after"], elapsed["sdpa"]),
        "eager / before": ratio(elapsed["eager"], elapsed["before"]) if has_eager else None,
    }


def eager(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Statistics:
    scores = query @ key.mT
    scores *= 1 / math.sqrt(query.shape[-1])
    if causal:
        scores.masked_fill_(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    weights = scores.softmax(dim=-1)
    return {"context": weights @ value, **statistics_of(weights)}


def statistics_of(weights: Tensor) -> Statistics:
    return {
        "received": weights.sum(dim=-2),
        "entropy": torch.special.entr(weights).sum(dim=-1),
        "pooled": F.adaptive_avg_pool2d(weights, CELLS),
    }


def check_statistics(ours: Summary, theirs: Statistics) -> None:
    for name in ("received", "entropy", "pooled"):
        torch.testing.assert_close(getattr(ours, name), theirs[name], atol=1e-4, rtol=1e-4)


if __name__ == "__main__":
    typer.run(main)
