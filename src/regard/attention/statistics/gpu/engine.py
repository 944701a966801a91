"""The GPU engine: three Triton kernels that compute softmax attention and its statistics.

    forward        the context and the log-sum-exp of each query, if no kernel of PyTorch computes both
    single_keys    each query's weight on key 0, on the key at its own position and on the key before it
    read_weights   entropy, mean distance, the sum of each key's weights, and the weights reduced to rows × columns

The second and the third kernel recompute weights from the log-sum-exp; the matrix of weights is never stored. The keys
with the largest weights, and the weights on groups of keys, are computed by torch operations.
"""

import math
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
from regard.attention.statistics.gpu.pytorch_forward import context_and_log_sum
from regard.attention.statistics.ranges import MAX_RANGES, key_ranges
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of

WIDEST_BYTES = 512
"""The largest size of a query, key or value vector in bytes; blocks of wider vectors do not fit into shared memory."""

WEIGHTS_AT_ONCE = 2**37
"""The number of weights computed between two reports of progress; a GPU computes them in well under a second."""

SUMS_AT_ONCE = 2**26
"""The most sums of weights, [heads map_rows keys], in GPU memory at one time: 256 MiB of float32.
It limits how many heads are computed at one time; a single head may have more sums.
"""

SUMS = {"entropy": -math.log(2), "distance": 1.0}
"""The statistics of a query that are sums over the query's keys, each with a factor that multiplies the sum.

For the entropy, -Σ weight · ln weight, the kernel computes Σ weight · log₂ weight, so the factor is -ln 2.
"""


def unsupported_reason(call: Call) -> str | None:
    formula = call.formula
    if call.device.type != "cuda" and not is_interpreted():
        return f"the kernels run only on a GPU, and the query is on {call.device}"
    if not triton_is_installed():
        return "triton is not installed"
    if call.device.type == "cuda" and torch.cuda.get_device_capability(call.device) < (8, 0):
        return "the kernels need a GPU of compute capability 8.0 or above"
    if formula is None or formula.temperature == 0:
        return "the kernels compute only softmax with a temperature above 0"
    if formula.projection is not None or formula.other_score is not None:
        return "the kernels compute only scaled dot products"
    if not isinstance(unrounded(formula.bias), Alibi | RelativeBias | Tensor | None):
        return "the kernels take no bias rules except Alibi and RelativeBias"
    if call.weights_dtype == torch.float64:
        return "the kernels compute only in float32, and the weights are float64"
    widest = WIDEST_BYTES // call.query.itemsize
    if max(call.key.shape[-1], call.value.shape[-1]) > widest:
        return f"in {str(call.query.dtype).removeprefix('torch.')} the kernels take widths up to {widest}"
    if key_ranges(call.grid, call.mask, call.device) is None:
        return f"the kernels take only masks that allow each query at most {MAX_RANGES} ranges of keys"
    return None


def is_interpreted() -> bool:
    """Return whether Triton runs its kernels in its interpreter on the CPU, as in the tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def triton_is_installed() -> bool:
    return find_spec("triton") is not None


@torch.inference_mode(False)
@torch.no_grad()
def context_and_statistics(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary, bool]:
    """Return the context (None if `contexts` is False), the statistics that `ask` requests, and False.

    False means that the context is not to be checked for NaN and overflow: a check would wait for the GPU.
    """
    on_device = torch.cuda.device(call.device) if call.device.type == "cuda" else nullcontext()
    with without_autocast(call.device), on_device:
        query, key, value = map(contiguous_rows, (call.query, call.key, call.value))
        call = call.changed(query=query, key=key, value=value)
        results = Results.of(call, ask)
        if call.grid.shape.numel():
            results.compute(call, contexts, report)
        elif contexts:
            results.context = call.value.new_zeros(*call.grid.shape[:3], call.value.shape[-1])
        summary = results.summary()
        if ask.top is not None or ask.groups is not None:
            top_and_groups = replace(NOTHING, top=ask.top, groups=ask.groups)
            by_torch = gather_statistics(blocks_of(call), call.grid, call.empty(), top_and_groups)
            summary = replace(summary, top=by_torch.top, groups=by_torch.groups)
        return results.context, summary, False


@dataclass(slots=True, eq=False)
class Results:
    """The context and the statistics that the Triton kernels compute; None = not computed."""

    grid: Grid
    ask: Ask
    per_query: dict[str, Float[Tensor, "batch heads queries"]]  # by field names of `Ask`
    received: Float[Tensor, "batch heads keys"] | None
    pooled: Float[Tensor, "batch heads rows columns"] | None
    context: Float[Tensor, "batch heads queries d_value"] | None = None

    @classmethod
    def of(cls, call: Call, ask: Ask) -> "Results":
        grid, floats = call.grid, partial(torch.zeros, dtype=torch.float32, device=call.device)
        return cls(
            grid=grid,
            ask=ask,
            per_query={name: floats(grid.shape[:3]) for name in PER_QUERY if getattr(ask, name)},
            received=floats(grid.batch, grid.heads, grid.keys) if ask.received else None,
            pooled=floats(grid.batch, grid.heads, *ask.pooled) if ask.pooled else None,
        )

    def compute(self, call: Call, contexts: bool, report: ProgressCallback | None) -> None:
        """Run the kernels for all heads of a call, a few heads at a time."""
        # imported here, because these modules need Triton
        from regard.attention.statistics.gpu.read_weights import WeightSums, compute_sums, from_units
        from regard.attention.statistics.gpu.single_keys import read_single_keys
        from regard.attention.statistics.gpu.triton_forward import ForwardResults, compute_forward

        arguments, grid = KernelArguments.of(call), self.grid
        by_pytorch = context_and_log_sum(call) if contexts else None
        if by_pytorch is not None:
            self.context, log_sum = by_pytorch
        else:
            log_sum = torch.empty(grid.shape[:3], dtype=torch.float32, device=call.device)
            self.context = call.value.new_empty(*grid.shape[:3], call.value.shape[-1]) if contexts else None
        log_share = torch.empty_like(log_sum) if self.ask.distance and call.softmax_formula.sinks is not None else None
        sums_over_keys = {name: torch.zeros_like(log_sum, dtype=torch.int64) for name in self.per_query if name in SUMS}
        single_weights = {name: weights for name, weights in self.per_query.items() if name not in SUMS}
        map_rows = self.ask.pooled[0] if self.ask.pooled else 1
        has_row_sums = self.received is not None or self.pooled is not None
        has_maxima = self.pooled is not None and self.ask.reduce == "max"
        n_head_weights = grid.queries * grid.keys
        heads_at_once = min(WEIGHTS_AT_ONCE // n_head_weights, SUMS_AT_ONCE // (map_rows * grid.keys))
        for head_numbers in spans(grid.batch * grid.heads, max(1, heads_at_once)):
            if by_pytorch is None:
                compute_forward(arguments, ForwardResults(log_sum, log_share, self.context), head_numbers)
            if single_weights:
                read_single_keys(arguments, log_sum, single_weights, head_numbers)
            if has_row_sums or sums_over_keys:
                sums = log_sum.new_zeros(len(head_numbers), map_rows, grid.keys) if has_row_sums else None
                maxima = log_sum.new_zeros(len(head_numbers), map_rows, grid.keys) if has_maxima else None
                weight_sums = WeightSums(sums, maxima, **sums_over_keys)
                compute_sums(arguments, log_sum, log_share, weight_sums, map_rows, head_numbers)
                self.write_received_and_pooled(head_numbers, sums, maxima)
            if report is not None:
                if call.device.type == "cuda":
                    torch.cuda.synchronize()
                report(head_numbers.stop * n_head_weights, call.grid.shape.numel())
        for name, units in sums_over_keys.items():
            self.per_query[name] = from_units(units, log_sum, factor=SUMS[name])

    def write_received_and_pooled(
        self,
        head_numbers: range,
        sums: Float[Tensor, "some_heads rows keys"] | None,
        maxima: Float[Tensor, "some_heads rows keys"] | None,
    ) -> None:
        """Write both statistics for some heads.

        Args:
            head_numbers: the numbers of the heads to compute; head h of batch item b has the number b · heads + h.
            sums, maxima: the sum and the maximum of each key's weights over the queries of each row of `pooled`.
        """
        from regard.attention.statistics.gpu.read_weights import pool_keys

        heads = slice(head_numbers.start, head_numbers.stop)
        if self.received is not None and sums is not None:
            self.received.flatten(0, 1)[heads] = sums.sum(dim=1, dtype=torch.float64).float()
        by_row = sums if maxima is None else maxima
        if self.pooled is not None and by_row is not None:
            self.pooled.flatten(0, 1)[heads] = pool_keys(by_row, self.pooled.shape[-1], self.ask, self.grid.queries)

    def summary(self) -> Summary:
        per_query: dict[str, Any] = {**self.per_query}
        return Summary(ask=self.ask, received=self.received, pooled=self.pooled, **per_query)
