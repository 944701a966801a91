"""The fast way on a GPU: softmax attention and what is asked of it, in a pass over the queries and one over the keys.

The first pass gives what belongs to a query (context, entropy, distance, weights on single keys) and its log-sum-exp;
with that, the second gives what belongs to a key (received) and the map. No weight ever leaves the processor that
computed it. The strongest keys and groups of keys are gathered with torch's operations.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import NOTHING, PER_QUERY, Ask, Summary
from regard.attention.grid.grid import Grid, contiguous_rows, spans
from regard.attention.normalise.softmax import Softmax
from regard.attention.precision import without_autocast
from regard.attention.scores.biases.alibi import Alibi
from regard.attention.scores.biases.bias import unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.scores.dot import ScaledDot
from regard.attention.statistics.cpu.plan import MOST_RANGES, ranges_of
from regard.attention.statistics.gpu.arguments import Call
from regard.attention.statistics.gpu.forward import context_and_log_sum
from regard.attention.statistics.progress import Report
from regard.attention.statistics.torch.gather import gathered

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

WIDEST_BYTES = 512
"""Bytes in a query, key or value; a tile of wider ones would not fit into the memory of a processor."""

WEIGHTS_AT_ONCE = 2**37
"""Weights between two reports: well under a second's work."""


def why_not(pattern: "Pattern") -> str | None:
    """Why a pattern cannot be gone through this way; None if it can."""
    if pattern.device.type != "cuda" and not interpreted():
        return "it runs on a GPU"
    if not installed():
        return "triton is not installed"
    if pattern.device.type == "cuda" and torch.cuda.get_device_capability(pattern.device) < (8, 0):
        return "it needs a GPU of compute capability 8.0 or above"
    if not isinstance(pattern.normalise, Softmax) or pattern.normalise.temperature == 0:
        return "it has softmax alone"
    if not isinstance(pattern.score, ScaledDot):
        return "it has scaled dot products alone"
    if not isinstance(unrounded(pattern.score.bias), Alibi | RelativeBias | Tensor | None):
        return "of rules for a bias it has Alibi and RelativeBias"
    if pattern.dtype == torch.float64:
        return "it computes in float32"
    widest = WIDEST_BYTES // pattern.query.itemsize
    if max(pattern.key.shape[-1], pattern.value.shape[-1]) > widest:
        return f"in {str(pattern.query.dtype).removeprefix('torch.')} it has widths up to {widest}"
    if ranges_of(pattern.grid, pattern.mask, pattern.device) is None:
        return f"of masks it has those that keep up to {MOST_RANGES} ranges of keys for each query"
    return None


def interpreted() -> bool:
    """Whether Triton runs its kernels as plain Python, on a CPU, as it does in tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def installed() -> bool:
    """Whether there is Triton; it comes with PyTorch for CUDA."""
    return find_spec("triton") is not None


@torch.inference_mode(False)
@torch.no_grad()
def read(
    pattern: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
    """The context, if it is wanted, and the summary of a pattern that `why_not` has nothing against."""
    with without_autocast(pattern.device), current(pattern.device):
        query, key, value = map(contiguous_rows, (pattern.query, pattern.key, pattern.value))
        pattern = replace(pattern, query=query, key=key, value=value)
        totals = Totals.of(pattern, ask, contexts)
        if pattern.shape.numel():
            totals.fill(pattern, report)
        summary = totals.summary()
        if ask.top is not None or ask.groups is not None:
            rest = replace(NOTHING, top=ask.top, groups=ask.groups)
            gone_through = gathered(pattern.blocks(), pattern.grid, pattern._like(), rest)
            summary = replace(summary, top=gone_through.top, groups=gone_through.groups)
        return totals.context, summary


def current(device: torch.device) -> AbstractContextManager[object]:
    """Within this, a kernel is started on a device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@dataclass(slots=True, eq=False)
class Totals:
    """The results, at 0 until they are filled in."""

    grid: Grid
    ask: Ask
    rows: dict[str, Float[Tensor, "batch heads queries"]]
    context: Float[Tensor, "batch heads queries d_value"] | None
    received: Float[Tensor, "batch heads keys"] | None
    pooled: Float[Tensor, "batch heads rows columns"] | None

    @classmethod
    def of(cls, pattern: "Pattern", ask: Ask, contexts: bool) -> "Totals":
        """All of them, at 0."""
        grid, floats = pattern.grid, partial(torch.zeros, dtype=torch.float32, device=pattern.device)
        d_value = pattern.value.shape[-1]
        return cls(
            grid=grid,
            ask=ask,
            rows={name: floats(grid.shape[:3]) for name in PER_QUERY if getattr(ask, name)},
            context=pattern.value.new_zeros(*grid.shape[:3], d_value) if contexts else None,
            received=floats(grid.batch, grid.heads, grid.keys) if ask.received else None,
            pooled=floats(grid.batch, grid.heads, *ask.pooled) if ask.pooled else None,
        )

    def fill(self, pattern: "Pattern", report: Report | None) -> None:
        """Go through the pattern, some heads at a time."""
        from regard.attention.statistics.gpu.columns import cells_for, into_map, read_columns
        from regard.attention.statistics.gpu.rows import Found, read_rows

        call, columns = Call.of(pattern), self.received is not None or self.pooled is not None
        known = context_and_log_sum(pattern) if columns and self.context is not None and not self.rows else None
        if known is not None:
            self.context, log_sum = known
        else:
            log_sum = torch.empty(self.grid.shape[:3], dtype=torch.float32, device=pattern.device)
        cells = None if self.ask.pooled is None else cells_for(call, self.ask.pooled)
        per_head = self.grid.queries * self.grid.keys
        for items in spans(self.grid.batch * self.grid.heads, max(1, WEIGHTS_AT_ONCE // per_head)):
            if known is None and (columns or self.rows or self.context is not None):
                read_rows(call, Found(log_sum=log_sum, context=self.context, **self.rows), items)
            if columns:
                read_columns(call, self.ask, log_sum, self.received, cells, items)
            if report is not None:
                if pattern.device.type == "cuda":
                    torch.cuda.synchronize()
                report(items.stop * per_head, pattern.shape.numel())
        if cells is not None and self.ask.pooled is not None:
            self.pooled = into_map(cells, call, self.ask)

    def summary(self) -> Summary:
        """The answer."""
        rows: dict[str, Any] = {**self.rows}
        return Summary(ask=self.ask, received=self.received, pooled=self.pooled, **rows)
