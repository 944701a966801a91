"""The engine that computes the statistics of a call: the C kernel on a CPU, Triton kernels on a GPU, else torch."""

import torch

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.gradients import are_plain
from regard.attention.progress import ProgressCallback
from regard.attention.statistics.cpu import engine as cpu_engine
from regard.attention.statistics.engine import Engine
from regard.attention.statistics.gpu import engine as gpu_engine
from regard.attention.statistics.torch import engine as torch_engine

FUSED_ENGINES: tuple[Engine, ...] = cpu_engine, gpu_engine
"""The engines that compute weights, statistics and context in one kernel."""


@torch.no_grad()
def summary_of(call: Call, ask: Ask, report: ProgressCallback) -> Summary:
    """Return the statistics of a call, in one pass over its weights.

    Raises:
        ValueError: statistics that a pattern of this size or with these weights does not have.
    """
    ask.check(call.grid)
    if ask.entropy and call.normalise.signed:
        raise ValueError(
            f"weights by {call.normalise!r} may be negative, so they have no entropy; ask with entropy=False."
        )
    call.check_unchanged()
    engine = fused_engine(call) or torch_engine
    return engine.read(call, ask, contexts=False, report=report)[1]


def fused_engine(call: Call, *, contexts: bool = False) -> Engine | None:
    """Return the fused engine that supports a call, or None if none does.

    Args:
        contexts: whether the engine must compute the contexts too.
    """
    if not are_plain(call.tensors):
        return None
    for engine in FUSED_ENGINES:
        if engine.unsupported_reason(call, contexts=contexts) is None:
            return engine
    return None
