"""The scores of a block, computed by the C kernel, or by torch operations if the kernel does not support them.

scores = softcap · tanh(scale · query · key / softcap) + bias        and -∞ for a masked key
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Grid
from regard.attention.masks.keep import Keep
from regard.attention.scores.biases.alibi import Alibi
from regard.attention.scores.biases.bias import Bias, unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.statistics.cpu.plan import HeadBlock, KeyLimits
from regard.attention.statistics.cpu.results import CPU
from regard.attention.weights import scores_of
from regard.kernels import attention as kernel

LARGEST = torch.finfo(torch.float32).max
"""The largest number of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class DistanceTable:
    """The bias of each head for each distance (the key's position minus the query's position).

    Attributes:
        numbers: for each head, the bias at each distance, in ascending order of the distance.
        queries: the number of queries.
    """

    numbers: Float[Tensor, "heads distances"]
    queries: int

    @classmethod
    def of(cls, bias: Bias, grid: Grid) -> "DistanceTable":
        """Return the table of a bias rule such as `Alibi`, whose bias depends only on head and distance.

        Every distance occurs in the first column or in the first row of the bias matrix; only these are computed.
        """
        one_item = grid.whole().part(batch=range(1))
        first_column = bias(one_item.part(keys=range(1)), CPU).float()[0, :, :, 0]
        first_row = bias(one_item.part(queries=range(1), keys=range(1, grid.keys)), CPU).float()[0, :, 0]
        return cls(torch.cat([first_column.flip(1), first_row], dim=1).contiguous(), grid.queries)

    def vectors(self) -> kernel.Vectors:
        """Return the bias as the C struct of a matrix with one row for each query, without storing the matrix.

        The rows overlap in memory: the row of query i starts one number before the row of query i - 1.
        """
        first = self.numbers.data_ptr() + self.numbers.itemsize * (self.queries - 1)
        return kernel.Vectors(first, 0, kernel.strides(self.numbers)[0], -1)


@dataclass(frozen=True, slots=True, eq=False)
class KernelScores:
    """How the C kernel computes the scores of a call of `attend`, divided by the temperature.

        scores = softcap · tanh(scale · query · key) + bias_factor · bias

    Attributes:
        softcap: below 0 = no softcap: the dot products are only multiplied by the scale.
        bias: None = no bias.
        bias_factor: 1 / temperature.
        mask: the mask, if it is a boolean tensor that the kernel can read; else None.
        computes_masks: whether torch operations compute the mask block by block, because the mask is neither a tensor
            that the kernel can read nor one range of keys for each query.
    """

    scale: float
    softcap: float
    bias: Float[Tensor, "_batch _heads _queries keys"] | DistanceTable | None
    bias_factor: float
    mask: Bool[Tensor, "_batch _heads _queries keys"] | None
    computes_masks: bool

    @classmethod
    def of(cls, call: Call, limits: KeyLimits | None) -> "KernelScores | None":
        """Return the parameters for the scores of a call of `attend`, or None if torch operations compute the scores.

        Args:
            limits: the mask as one range of keys for each query, which the kernel applies by itself; None = there is no
                mask, or it allows several ranges.
        """
        if not computes_scores(call):
            return None
        formula, grid, mask = call.softmax, call.grid, call.mask if limits is None else None
        softcap, temperature, bias = formula.softcap, formula.temperature, formula.bias
        readable = mask.tensor if isinstance(mask, Keep) and is_readable(mask.tensor, grid) else None
        return cls(
            scale=clamped(formula.scale / (softcap or temperature)),
            softcap=-1.0 if softcap is None else clamped(softcap / temperature),
            bias=DistanceTable.of(bias, grid) if isinstance(bias, Bias) else with_four_axes(bias),
            bias_factor=clamped(1 / temperature),
            mask=with_four_axes(readable),
            computes_masks=mask is not None and readable is None,
        )

    def write_to(self, arguments: kernel.Arguments) -> None:
        """Write the parameters, and the addresses of the bias and mask tensors, into the C struct `arguments`."""
        arguments.scale, arguments.softcap, arguments.bias_factor = self.scale, self.softcap, self.bias_factor
        if isinstance(self.bias, DistanceTable):
            arguments.bias = self.bias.vectors()
        elif self.bias is not None:
            arguments.bias = kernel.Vectors.of(self.bias)
        if self.mask is not None:
            arguments.mask = kernel.ByteMask.of(self.mask)


def computes_scores(call: Call) -> bool:
    """Return whether the C kernel can compute the scores of a call of `attend`.

    True if the scores are dot products, and the bias, if any, is a tensor or a rule that `is_readable` accepts.
    """
    formula = call.formula
    if formula is None or formula.other_score is not None:
        return False
    return formula.bias is None or is_readable(formula.bias, call.grid)


def is_readable(numbers: Tensor | Bias, grid: Grid) -> bool:
    """Return whether the C kernel can read a bias or mask from memory.

    True for a float32 or boolean tensor on the CPU with stride 1 along the keys axis. True also for the bias rules
    `Alibi` and `RelativeBias`: these depend only on head and distance, so the kernel reads a `DistanceTable`.
    """
    if isinstance(numbers, Bias):
        return type(unrounded(numbers)) in (Alibi, RelativeBias) and min(grid.queries, grid.keys) > 0
    typed = numbers.dtype in (torch.float32, torch.bool) and numbers.device.type == "cpu"
    return typed and numbers.ndim > 0 and numbers.shape[-1] == grid.keys and numbers.stride(-1) == 1


def with_four_axes(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor with axes of size 1 inserted in front, so that it has four axes; None stays None."""
    return None if tensor is None else tensor[(None,) * (4 - tensor.ndim)]


def clamped(factor: float) -> float:
    """Return a factor clamped to the finite numbers of float32, so that 0 · factor is 0 and not NaN."""
    return min(max(factor, -LARGEST), LARGEST)


def write_scores(scores: Float[Tensor, " weights"], call: Call, block: HeadBlock, limits: KeyLimits | None) -> None:
    """Compute the scores of a block by torch operations, divided by the temperature, and write them into `scores`.

    The score of a masked key is -∞.

    Args:
        limits: the mask as one range of keys for each query; the mask is then not applied here, but by the kernel.
    """
    tile, rows = block.tile(call.grid), scores.view(len(block.queries), -1)
    torch.div(scores_of(call, tile)[0, 0], call.softmax.temperature, out=rows)
    by_mask = None if call.mask is None or limits is not None else call.mask.keep(tile, call.device)
    for keep in (by_mask, call.score.keep(tile)):
        if keep is not None:
            rows.masked_fill_(~keep[0, 0], -math.inf)


def write_mask(keep: Bool[Tensor, " weights"], call: Call, block: HeadBlock) -> None:
    """Compute the mask of a block (True where a query may attend to a key), and write it into the tensor `keep`."""
    assert call.mask is not None
    keep.view(len(block.queries), -1).copy_(call.mask.keep(block.tile(call.grid), call.device)[0, 0])
