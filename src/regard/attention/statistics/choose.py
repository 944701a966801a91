"""The choice of how statistics of attention weights are computed: by a C kernel, Triton kernels or torch operations."""

import torch

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.finite import may_hold_nan_statistics, without_overflow
from regard.attention.gradients import are_plain
from regard.attention.progress import ProgressCallback
from regard.attention.statistics.cpu import engine as cpu_engine
from regard.attention.statistics.engine import Engine
from regard.attention.statistics.gpu import engine as gpu_engine
from regard.attention.statistics.gradients import with_gradients
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of

ENGINES: tuple[Engine, ...] = cpu_engine, gpu_engine
"""The engines: modules that compute context and statistics together by kernels, in the order of preference."""


def summary_of(call: Call, ask: Ask, report: ProgressCallback) -> Summary:
    """Return the statistics that `ask` requests for a call of `attend`, and call `report` with the progress.

    If autograd is on and a tensor of the call requires a gradient, the statistics have gradients.

    Raises:
        ValueError: `ask` requests a statistic that does not exist for these numbers of queries and keys, or for
            negative weights; or a tensor of the call was changed in place.
    """
    ask.check(call.grid)
    if ask.entropy and call.normalise.signed:
        raise ValueError(
            f"weights by {call.normalise!r} may be negative, so they have no entropy; ask with entropy=False."
        )
    call.check_unchanged()
    if not are_plain(call.tensors):  # under torch.compile and torch.func, which differentiate the operations themselves
        return gather_statistics(blocks_of(call, report), call.grid, call.empty(), ask)
    with torch.no_grad():
        summary = compute_summary(call, ask, report)
    return with_gradients(call, summary) if call.needs_gradients else summary


def compute_summary(call: Call, ask: Ask, report: ProgressCallback) -> Summary:
    """Return the statistics that `ask` requests; C code may read the tensors of the call (see `are_plain`)."""
    engine = find_engine(call)
    if engine is not None:
        summary = engine.read(call, ask, contexts=False, report=report)[1]
        if not may_hold_nan_statistics(summary):
            return summary
        call = without_overflow(call)
    return gather_statistics(blocks_of(call, report), call.grid, call.empty(), ask)


def find_engine(call: Call) -> Engine | None:
    """Return the first module in `ENGINES` that supports a call of `attend`, or None if none supports the call.

    The tensors of the call must be such that C code may read their numbers (see `gradients.are_plain`).
    """
    for engine in ENGINES:
        if engine.unsupported_reason(call) is None:
            return engine
    return None
