"""The fast way on a CPU: softmax attention and everything that is asked of it in one pass, all cores busy.

For a block of queries of one head, over all keys that it can reach, so many keys at a time as the cache holds:

    scores   = query · keyᵀ                 where a score is more than that, torch's operations make it
    weights  = softmax(scores)              with every statistic, while they are in the cache
    context += weights · value              where the context is asked for

`attention.c` does so. Blocks are shared out over torch's own threads, and over machines (`ranks.py`); the numbers do
not depend on how.
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.normalise.softmax import Softmax
from regard.attention.precision import without_autocast
from regard.attention.statistics.cpu.plan import Plan
from regard.attention.statistics.cpu.rounds import rounds_of
from regard.attention.statistics.cpu.run import Reading
from regard.attention.statistics.cpu.totals import Totals
from regard.attention.statistics.progress import Report, to_nobody
from regard.kernels import attention as kernel

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern


def why_not(pattern: "Pattern") -> str | None:
    """Why a pattern cannot be gone through this way; None if it can."""
    if pattern.query.device.type != "cpu":
        return "it runs on a CPU"
    if not isinstance(pattern.normalise, Softmax) or pattern.normalise.temperature == 0:
        return "it has softmax alone"
    if pattern.dtype == torch.float64:
        return "it computes in float32"
    if kernel.regard_blocks() is None:
        return "no C compiler was found"
    return None


def sums_fit(pattern: "Pattern") -> bool:
    """Whether sums of values stay within float32 before they are divided by the total."""
    value = pattern.value
    if value.numel() == 0 or value.dtype == torch.float16:
        return True
    least, most = (float(limit) for limit in value.detach().aminmax())
    return not max(-least, most) * pattern.grid.keys > torch.finfo(torch.float32).max  # nobody knows with NaN


def read(
    pattern: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
    """The context, if it is wanted, and the summary of a pattern that `why_not` has nothing against."""
    totals = gone_through(pattern, ask, contexts=contexts, report=report)
    context = None if totals.context is None else totals.context.to(pattern.value.dtype)
    return context, totals.summary()


@torch.inference_mode(False)
@torch.no_grad()
def gone_through(
    pattern: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None, share: slice | None = None
) -> Totals:
    """What a share of the blocks comes to, or all of them."""
    with without_autocast(pattern.device):
        whole = Plan.of(pattern.grid, pattern.mask)
        reading = Reading.of(pattern, ask, whole if share is None else whole.share(share), contexts)
        for part in rounds_of(pattern, reading.plan.blocks, contexts):
            reading.go_through(part, report or to_nobody)
    return reading.totals
