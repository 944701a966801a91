"""Statistics on a CPU: softmax attention and all its statistics in one pass of a C kernel, on all cores.

For a block of queries of one head, over all keys that it can reach, as many keys at a time as fit into the cache:

    scores   = query · keyᵀ                 scores that are no products are computed by torch operations
    weights  = softmax(scores)              with every statistic, while the weights are in the cache
    context += weights · value              if contexts are asked for

`kernels/attention.c` does this. Blocks are shared out over torch's own threads, and over machines (`ranks.py`); the
numbers do not depend on the number of threads or machines.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.precision import without_autocast
from regard.attention.progress import ProgressCallback, ignore_progress
from regard.attention.statistics.cpu.conversion import float32_parts
from regard.attention.statistics.cpu.plan import Plan
from regard.attention.statistics.cpu.results import Results
from regard.attention.statistics.cpu.run import Run
from regard.kernels import attention as kernel

LARGEST = torch.finfo(torch.float32).max
"""The largest number of float32."""


def unsupported_reason(call: Call, *, contexts: bool = False) -> str | None:
    """Return why the kernel cannot compute the statistics (and the contexts) of a call, or None if it can."""
    if call.query.device.type != "cpu":
        return "it runs on a CPU"
    if call.formula is None or call.formula.temperature == 0:
        return "it has softmax alone"
    if call.dtype == torch.float64:
        return "it computes in float32"
    if kernel.attention_function() is None:
        return "no C kernels were built when regard was installed"
    if contexts and not sums_fit_float32(call):
        return "sums of the values overflow float32"
    return None


def sums_fit_float32(call: Call) -> bool:
    """Return whether the sum of all values, before it is divided by the sum of the weights, stays within float32."""
    value = call.value
    if value.numel() == 0 or value.dtype == torch.float16:
        return True
    least, most = value.detach().aminmax()
    # NaN compares as False, so values with NaN are taken to fit.
    return not max(-float(least), float(most)) * call.grid.keys > LARGEST


def read(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
    """Return the context, if `contexts`, and the statistics of a call that the kernel supports."""
    results = compute(call, ask, contexts=contexts, report=report)
    context = None if results.context is None else results.context.to(call.value.dtype)
    return context, results.summary()


@torch.inference_mode(False)
@torch.no_grad()
def compute(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None, share: slice | None = None
) -> Results:
    """Return the results of all blocks of queries, or of a share of the blocks."""
    with without_autocast(call.device):
        plan = Plan.of(call.grid, call.mask)
        run = Run.of(call, ask, plan if share is None else plan.share(share), contexts)
        for part in float32_parts(call, run.plan.blocks, contexts):
            run.compute_part(part, report or ignore_progress)
    return run.results
