"""Scores and masks that the C kernel cannot compute: torch operations write them for the kernel, block by block.

scores = softcap · tanh(scale · query · key / softcap) + bias        and -∞ for a masked key
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call, SoftmaxFormula
from regard.attention.grid.grid import Grid, Tile, spans
from regard.attention.masks.keep import Keep
from regard.attention.masks.mask import keep_of_tile
from regard.attention.scores.biases.alibi import Alibi
from regard.attention.scores.biases.bias import Bias, unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.statistics.cpu.plan import KeyLimits, Plan
from regard.attention.weights import scores_of

Write = Callable[[Tensor, Call, Tile, int, KeyLimits | None], None]
"""A function that writes the scores or the mask of a block into a tensor: `write_scores` or `write_mask`."""


def torch_writer(call: Call, plan: Plan) -> Write | None:
    """Return `write_scores` or `write_mask` if the C kernel cannot compute the scores or the mask itself, else None."""
    if not kernel_computes_scores(call.softmax_formula, call.grid):
        return write_scores
    if call.mask is None or plan.limits is not None:
        return None
    return None if isinstance(call.mask, Keep) and is_readable(call.mask.tensor, call.grid) else write_mask


def kernel_computes_scores(formula: SoftmaxFormula, grid: Grid) -> bool:
    """Return whether the C kernel can compute the scores: they are dot products, plus a bias that it can read."""
    return formula.other_score is None and (formula.bias is None or is_readable(formula.bias, grid))


def is_readable(numbers: Tensor | Bias, grid: Grid) -> bool:
    """Return whether the C kernel can read a bias or mask from memory.

    Of the bias rules, it can read `Alibi` and `RelativeBias`, as a table with one number for each head and distance.
    """
    if isinstance(numbers, Bias):
        return type(unrounded(numbers)) in (Alibi, RelativeBias) and min(grid.queries, grid.keys) > 0
    has_readable_type = numbers.dtype in (torch.float32, torch.bool) and numbers.device.type == "cpu"
    return has_readable_type and numbers.ndim > 0 and numbers.shape[-1] == grid.keys and numbers.stride(-1) == 1


def write_scores(
    scores: Float[Tensor, " weights"], call: Call, tile: Tile, width: int, limits: KeyLimits | None
) -> None:
    """Compute the scores of a block by torch operations, divided by the temperature, and write them into `scores`.

    The scores of the first `width` keys come first, then the scores of the next `width` keys, and so on.

    Args:
        tile: the block.
        limits: the key range of each query, if the kernel applies the mask; None = masked keys get the score -∞ here.
    """
    first_of_part = 0
    for span in spans(len(tile.keys), max(1, width)):
        part = tile.part(keys=tile.keys[span.start : span.stop])
        size = part.shape.numel()
        part_scores = scores[first_of_part : first_of_part + size].view(len(part.queries), -1)
        torch.div(scores_of(call, part)[0, 0], call.softmax_formula.temperature, out=part_scores)
        mask_keep = None if call.mask is None or limits is not None else keep_of_tile(call.mask, part, call.device)
        for keep in (mask_keep, call.score.keep(part)):  # a bias of -∞ in the score masks keys too
            if keep is not None:
                part_scores.masked_fill_(~keep[0, 0], -math.inf)
        first_of_part += size


def write_mask(keep: Bool[Tensor, " weights"], call: Call, tile: Tile, width: int, limits: KeyLimits | None) -> None:
    """Write the mask of a block into `keep`: True = may attend; all keys of a query are adjacent.

    `width` and `limits` are not used; `write_scores` needs them.
    """
    assert call.mask is not None
    rows = keep[: tile.shape.numel()].view(len(tile.queries), -1)
    rows.copy_(keep_of_tile(call.mask, tile, call.device)[0, 0])
