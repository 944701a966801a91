"""Choose what computes the statistics of attention weights: a C kernel, Triton kernels, or else torch operations."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.gradients import are_concrete
from regard.attention.overflow import statistics_may_hold_nan, without_overflow
from regard.attention.progress import ProgressCallback
from regard.attention.statistics.cpu import engine as cpu_engine
from regard.attention.statistics.gpu import engine as gpu_engine
from regard.attention.statistics.gradients import with_gradients
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of


@runtime_checkable
class Engine(Protocol):
    """A module that computes the context and the statistics of a call by kernels: `cpu.engine` or `gpu.engine`."""

    def unsupported_reason(self, call: Call) -> str | None:
        """Return why the engine cannot compute the context and statistics of a call; None = it can."""

    def context_and_statistics(
        self, call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
    ) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary, bool]:
        """Return the context, the statistics for `ask`, and whether to check the context for NaN and overflow.

        Args:
            contexts: whether to compute the context; if False, None is returned in its place.
            report: called with the number of weights computed so far and the number of all weights.
        """


ENGINES: tuple[Engine, ...] = cpu_engine, gpu_engine
"""Modules with kernels for the statistics of weights; the first module that supports a call of `attend` is used."""


def summary_of(call: Call, ask: Ask, report: ProgressCallback) -> Summary:
    """Check a call and return the statistics that `ask` requests, with gradients if the call needs them."""
    ask.check(call.grid)
    if ask.entropy and call.normalise.signed:
        raise ValueError(
            f"weights by {call.normalise!r} may be negative, so they have no entropy; ask with entropy=False."
        )
    call.check_tensors_unchanged()
    if not are_concrete(call.tensors):  # torch.compile and torch.func differentiate the operations themselves
        return gather_statistics(blocks_of(call, report), call.grid, call.empty(), ask)
    with torch.no_grad():
        summary = compute_summary(call, ask, report)
    return with_gradients(call, summary) if call.needs_gradients else summary


def compute_summary(call: Call, ask: Ask, report: ProgressCallback) -> Summary:
    """Compute statistics without gradients, by kernels, or by torch operations where kernels cannot or give NaN."""
    engine = find_engine(call)
    if engine is not None:
        _, summary, _ = engine.context_and_statistics(call, ask, contexts=False, report=report)
        if not statistics_may_hold_nan(summary):
            return summary
        call = without_overflow(call)  # in float64, which the kernels do not support
    return gather_statistics(blocks_of(call, report), call.grid, call.empty(), ask)


def find_engine(call: Call) -> Engine | None:
    """Return the engine (C or Triton kernels) that supports a call, or None; the call's tensors must be concrete."""
    for engine in ENGINES:
        if engine.unsupported_reason(call) is None:
            return engine
    return None
