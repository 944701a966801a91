"""Scores and masks that the C kernel cannot compute: torch operations write them for the kernel, block by block.

scores = softcap · tanh(scale · query · key / softcap) + bias        and -∞ for a masked key
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Grid
from regard.attention.masks.keep import Keep
from regard.attention.masks.mask import axes_error
from regard.attention.scores.biases.alibi import Alibi
from regard.attention.scores.biases.bias import Bias, unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.statistics.cpu.plan import HeadBlock, KeyLimits, Plan
from regard.attention.weights import scores_of

Write = Callable[[Tensor, Call, HeadBlock, KeyLimits | None], None]
"""A function that writes the scores or the mask of a block into a tensor: `write_scores` or `write_mask`."""


def torch_writer(call: Call, plan: Plan) -> Write | None:
    """Return the function that computes what the C kernel cannot compute for a call, or None if it can compute all.

    The function is `write_scores` if the kernel cannot compute the scores, and `write_mask` if it can compute the
    scores but cannot apply the mask. The kernel can apply a mask that allows each query one range of keys
    (`plan.limits`), and a mask tensor that `is_readable` accepts.
    """
    if not computes_scores(call):
        return write_scores
    if call.mask is None or plan.limits is not None:
        return None
    return None if isinstance(call.mask, Keep) and is_readable(call.mask.tensor, call.grid) else write_mask


def computes_scores(call: Call) -> bool:
    """Return whether the C kernel can compute the scores of a call of `attend` whose normaliser is softmax.

    True if the scores are dot products, and the bias, if any, is a tensor or a rule that `is_readable` accepts.
    """
    formula = call.formula
    assert formula is not None
    return formula.other_score is None and (formula.bias is None or is_readable(formula.bias, call.grid))


def is_readable(numbers: Tensor | Bias, grid: Grid) -> bool:
    """Return whether the C kernel can read a bias or mask from memory.

    True for a float32 or boolean tensor on the CPU with stride 1 along the keys axis. True also for the bias rules
    `Alibi` and `RelativeBias`: these depend only on head and distance, so the kernel reads a number for each distance.
    """
    if isinstance(numbers, Bias):
        return type(unrounded(numbers)) in (Alibi, RelativeBias) and min(grid.queries, grid.keys) > 0
    typed = numbers.dtype in (torch.float32, torch.bool) and numbers.device.type == "cpu"
    return typed and numbers.ndim > 0 and numbers.shape[-1] == grid.keys and numbers.stride(-1) == 1


def write_scores(scores: Float[Tensor, " weights"], call: Call, block: HeadBlock, limits: KeyLimits | None) -> None:
    """Compute the scores of a block by torch operations, divided by the temperature, and write them into `scores`.

    The kernel reads the block in parts (`block.parts`), each with a range of keys. The scores of the first part are
    written first, then those of the second, and so on. The score of a masked key is -∞.

    Args:
        limits: the mask as one range of keys for each query, which the kernel applies, not this function. None = this
            function applies the mask.
    """
    for part in block.parts():
        tile, rows = part.tile(call.grid), scores[: part.size].view(len(part.queries), -1)
        torch.div(scores_of(call, tile)[0, 0], call.softmax.temperature, out=rows)
        by_mask = None if call.mask is None or limits is not None else call.mask.keep(tile, call.device)
        for keep in (by_mask, call.score.keep(tile)):
            if keep is not None:
                rows.masked_fill_(~keep[0, 0], -math.inf)
        scores = scores[part.size :]


def write_mask(keep: Bool[Tensor, " weights"], call: Call, block: HeadBlock, limits: KeyLimits | None) -> None:
    """Compute the mask of a block (True where a query may attend to a key), and write it into the tensor `keep`.

    Args:
        limits: not used; `write_scores` has the same arguments.
    """
    assert call.mask is not None
    rows = keep[: block.size].view(len(block.queries), -1)
    kept = call.mask.keep(block.tile(call.grid), call.device)
    if kept.ndim > 4:
        raise axes_error(call.mask, kept)
    rows.copy_(kept[0, 0])
