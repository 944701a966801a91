"""The GPU engine: two Triton kernels that compute softmax attention and its statistics.

The first kernel (`rows.py`) computes the context, the log-sum-exp and the statistics of each query: entropy, distance,
and weights on single keys. The second kernel (`columns.py`) recomputes the weights from the log-sum-exp, and sums up
the attention that each key receives, and the pooled map. The matrix of weights is never stored. The keys with the
largest weights, and the weights on groups of keys, are computed by torch operations.
"""

import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import NOTHING, PER_QUERY, Ask, Summary
from regard.attention.call import Call
from regard.attention.grid.grid import Grid, contiguous_rows, spans
from regard.attention.precision import without_autocast
from regard.attention.progress import ProgressCallback
from regard.attention.scores.biases.alibi import Alibi
from regard.attention.scores.biases.bias import unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.statistics.gpu.arguments import KernelArguments
from regard.attention.statistics.gpu.forward import context_and_log_sum
from regard.attention.statistics.ranges import MOST_RANGES, key_ranges
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of

WIDEST_BYTES = 512
"""The largest size of a query, key or value vector in bytes; blocks of wider vectors do not fit into shared memory."""

WEIGHTS_AT_ONCE = 2**37
"""The number of weights computed between two reports of progress; a GPU computes them in well under a second."""


def unsupported_reason(call: Call) -> str | None:
    """Return why the Triton kernels do not support a call of `attend`, or None if they do."""
    formula = call.formula
    if call.device.type != "cuda" and not interpreted():
        return f"the kernels run only on a GPU, and the query is on {call.device}"
    if not installed():
        return "triton is not installed"
    if call.device.type == "cuda" and torch.cuda.get_device_capability(call.device) < (8, 0):
        return "the kernels need a GPU of compute capability 8.0 or above"
    if formula is None or formula.temperature == 0:
        return "the kernels compute only softmax with a temperature above 0"
    if formula.projection is not None or formula.other_score is not None:
        return "the kernels compute only scaled dot products"
    if not isinstance(unrounded(formula.bias), Alibi | RelativeBias | Tensor | None):
        return "the kernels take no bias rules except Alibi and RelativeBias"
    if call.dtype == torch.float64:
        return "the kernels compute only in float32, and the weights are float64"
    widest = WIDEST_BYTES // call.query.itemsize
    if max(call.key.shape[-1], call.value.shape[-1]) > widest:
        return f"in {str(call.query.dtype).removeprefix('torch.')} the kernels take widths up to {widest}"
    if key_ranges(call.grid, call.mask, call.device) is None:
        return f"the kernels take only masks that allow each query at most {MOST_RANGES} ranges of keys"
    return None


def interpreted() -> bool:
    """Return whether Triton runs its kernels in its interpreter on the CPU, as in the tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def installed() -> bool:
    """Return whether Triton is installed; it comes with PyTorch for CUDA."""
    return find_spec("triton") is not None


@torch.inference_mode(False)
@torch.no_grad()
def read(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary, bool]:
    """Return the context of a call (None if `contexts` is False), its statistics, and False: no context is doubtful.

    A check of the context would wait for the GPU. This module must support the call: `unsupported_reason` must return
    None.
    """
    on_device = torch.cuda.device(call.device) if call.device.type == "cuda" else nullcontext()
    with without_autocast(call.device), on_device:
        query, key, value = map(contiguous_rows, (call.query, call.key, call.value))
        call = call.changed(query=query, key=key, value=value)
        results = Results.of(call, ask, contexts)
        if call.grid.shape.numel():
            results.compute(call, report)
        summary = results.summary()
        if ask.top is not None or ask.groups is not None:
            rest = replace(NOTHING, top=ask.top, groups=ask.groups)
            gathered = gather_statistics(blocks_of(call), call.grid, call.empty(), rest)
            summary = replace(summary, top=gathered.top, groups=gathered.groups)
        return results.context, summary, False


@dataclass(slots=True, eq=False)
class Results:
    """The tensors into which the kernels write the context and the statistics; None = not computed.

    Attributes:
        rows: the statistics with one number for each query; the keys of the dict are field names of `Ask`.
    """

    grid: Grid
    ask: Ask
    rows: dict[str, Float[Tensor, "batch heads queries"]]
    context: Float[Tensor, "batch heads queries d_value"] | None
    received: Float[Tensor, "batch heads keys"] | None
    pooled: Float[Tensor, "batch heads rows columns"] | None

    @classmethod
    def of(cls, call: Call, ask: Ask, contexts: bool) -> "Results":
        grid, floats = call.grid, partial(torch.zeros, dtype=torch.float32, device=call.device)
        d_value = call.value.shape[-1]
        return cls(
            grid=grid,
            ask=ask,
            rows={name: floats(grid.shape[:3]) for name in PER_QUERY if getattr(ask, name)},
            context=call.value.new_zeros(*grid.shape[:3], d_value) if contexts else None,
            received=floats(grid.batch, grid.heads, grid.keys) if ask.received else None,
            pooled=floats(grid.batch, grid.heads, *ask.pooled) if ask.pooled else None,
        )

    def compute(self, call: Call, report: ProgressCallback | None) -> None:
        """Run the kernels for all heads of a call, a few heads at a time.

        Args:
            report: called after each kernel run with the number of weights computed so far and the number of all
                weights; None = progress is not reported.
        """
        from regard.attention.statistics.gpu.columns import cells_for, into_map, read_columns
        from regard.attention.statistics.gpu.rows import RowResults, read_rows

        arguments, columns = KernelArguments.of(call), self.received is not None or self.pooled is not None
        known = context_and_log_sum(call) if columns and self.context is not None and not self.rows else None
        if known is not None:
            self.context, log_sum = known
        else:
            log_sum = torch.empty(self.grid.shape[:3], dtype=torch.float32, device=call.device)
        cells = None if self.ask.pooled is None else cells_for(arguments, self.ask.pooled)
        per_head = self.grid.queries * self.grid.keys
        for items in spans(self.grid.batch * self.grid.heads, max(1, WEIGHTS_AT_ONCE // per_head)):
            if known is None and (columns or self.rows or self.context is not None):
                read_rows(arguments, RowResults(log_sum=log_sum, context=self.context, **self.rows), items)
            if columns:
                read_columns(arguments, self.ask, log_sum, self.received, cells, items)
            if report is not None:
                if call.device.type == "cuda":
                    torch.cuda.synchronize()
                report(items.stop * per_head, call.grid.shape.numel())
        if cells is not None and self.ask.pooled is not None:
            self.pooled = into_map(cells, arguments, self.ask)

    def summary(self) -> Summary:
        rows: dict[str, Any] = {**self.rows}
        return Summary(ask=self.ask, received=self.received, pooled=self.pooled, **rows)
