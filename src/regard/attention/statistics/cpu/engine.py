"""Statistics on a CPU: a C kernel that computes softmax attention and all its statistics in one pass, on all cores.

The kernel, `kernels/attention.c`, computes one block of queries of one head after the other. For each block it reads
the keys that its queries may attend to, as many at a time as fit into the processor's cache:

    scores   = query · keyᵀ                 torch operations compute scores that are not dot products
    weights  = softmax(scores)              all statistics are computed while the weights are in the cache
    context += weights · value              if the context is to be computed

The blocks are divided among the threads of torch, or among several processes (`ranks.py`). The results do not depend on
the number of threads or processes.
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
from regard.attention.statistics.cpu.scores import LARGEST
from regard.kernels import attention as kernel


def unsupported_reason(call: Call, *, contexts: bool = False) -> str | None:
    """Return why the C kernel cannot compute statistics (if `contexts`, also the context) of a call; None if it can."""
    if call.query.device.type != "cpu":
        return f"the kernel reads only tensors on a CPU, and the query is on {call.query.device}"
    if call.formula is None or call.formula.temperature == 0:
        return "the kernel computes only softmax with a temperature above 0"
    if call.dtype == torch.float64:
        return "the kernel computes only in float32, and the weights are float64"
    if kernel.attention_function() is None:
        return "no C kernels were built when regard was installed"
    if contexts and not sums_fit_float32(call):
        return "sums of the values overflow float32"
    return None


def sums_fit_float32(call: Call) -> bool:
    """Return whether the sums of weighted values that the C kernel computes stay within float32.

    The kernel computes Σ exp(score - largest score) · value, and divides by Σ exp(score - largest score) afterwards. As
    the exponentials are at most 1, the first sum is at most the number of keys times the largest value. The
    result is True if the values contain NaN.
    """
    value = call.value
    if value.numel() == 0 or value.dtype == torch.float16:
        return True
    least, most = value.detach().aminmax()
    return not max(-float(least), float(most)) * call.grid.keys > LARGEST


def read(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
    """Return the context of a call of `attend` (None if `contexts` is False), and the statistics that `ask` requests.

    This module must support the call: `unsupported_reason` must return None.
    """
    results = compute(call, ask, contexts=contexts, report=report)
    context = None if results.context is None else results.context.to(call.value.dtype)
    return context, results.summary()


@torch.inference_mode(False)
@torch.no_grad()
def compute(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None, share: slice | None = None
) -> Results:
    """Run the C kernel for a call of `attend`; return the statistics in `ask` and, if `contexts`, the context.

    Args:
        share: a slice of `Plan.blocks`, the blocks of queries to compute; None = all blocks.
    """
    with without_autocast(call.device):
        plan = Plan.of(call.grid, call.mask)
        run = Run.of(call, ask, plan if share is None else plan.share(share), contexts)
        for part in float32_parts(call, run.plan.blocks, contexts):
            run.compute_part(part, report or ignore_progress)
    return run.results
