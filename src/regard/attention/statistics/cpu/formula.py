"""How the scores of a block come about: by `attention.c` where a formula says all of it, else by torch's operations.

scores = softcap · tanh(scale · query · key) + bias        and -∞ where the mask keeps no key
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid
from regard.attention.masks.keep import Keep
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.biases.alibi import Alibi
from regard.attention.scores.biases.bias import Bias, unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.statistics.cpu.plan import Block, Limits
from regard.attention.statistics.cpu.totals import HERE
from regard.kernels import attention as kernel

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

LARGEST = torch.finfo(torch.float32).max
"""The largest number that scores may be multiplied by."""


@dataclass(frozen=True, slots=True, eq=False)
class ByDistance:
    """A bias that follows from how far a key stands after a query.

    Attributes:
        numbers: from the first key and the last query on to the last key and the first query.
    """

    numbers: Float[Tensor, "heads distances"]
    queries: int

    @classmethod
    def of(cls, bias: Bias, grid: Grid) -> "ByDistance":
        """That of a rule: what the first key has for each query, and what each key has for the first query."""
        whole = grid.whole()
        before, after = (
            bias(whole.part(batch=range(1), **edge), HERE).float()[0]
            for edge in ({"keys": range(1)}, {"queries": range(1), "keys": range(1, grid.keys)})
        )
        return cls(torch.cat([before[:, :, 0].flip(1), after[:, 0]], dim=1).contiguous(), grid.queries)

    def vectors(self) -> kernel.Vectors:
        """As a row for each query, each of which begins a number before that of the query before it."""
        first = self.numbers.data_ptr() + self.numbers.itemsize * (self.queries - 1)
        return kernel.Vectors(first, 0, kernel.steps(self.numbers)[0], -1)


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """The scores of a pattern, as `attention.c` makes them.

    Attributes:
        softcap: below 0 for none.
        of_bias: what the bias is multiplied by.
        kept: the mask, where it is a matrix that lies there.
        masked: whether the mask is neither that nor a range of keys for each query, and has to be made.
    """

    scale: float
    softcap: float
    bias: Float[Tensor, "_batch _heads _queries keys"] | ByDistance | None
    of_bias: float
    kept: Bool[Tensor, "_batch _heads _queries keys"] | None
    masked: bool

    @classmethod
    def of(cls, pattern: "Pattern", limits: Limits | None) -> "Formula | None":
        """That of a pattern, whose mask `limits` are if there are any; None where more is to be computed."""
        score, normalise, grid = pattern.score, pattern.normalise, pattern.grid
        mask = pattern.mask if limits is None else None
        assert isinstance(normalise, Softmax)
        if not has_formula(score, grid):
            return None
        assert isinstance(score, ScaledDot)
        temperature, softcap = normalise.temperature, score.softcap
        kept = mask.tensor if isinstance(mask, Keep) and lies_ready(mask.tensor, grid) else None
        return cls(
            scale=finite(score.factor(pattern.key.shape[-1]) / (softcap or temperature)),
            softcap=-1.0 if softcap is None else finite(softcap / temperature),
            bias=ByDistance.of(score.bias, grid) if isinstance(score.bias, Bias) else with_axes(score.bias),
            of_bias=finite(1 / temperature),
            kept=with_axes(kept),
            masked=mask is not None and kept is None,
        )

    def tell(self, call: kernel.Pass) -> None:
        """Let `attention.c` know of it."""
        call.scale, call.softcap, call.of_bias = self.scale, self.softcap, self.of_bias
        if self.bias is not None:
            call.bias = self.bias.vectors() if isinstance(self.bias, ByDistance) else kernel.Vectors.of(self.bias)
        if self.kept is not None:
            call.kept = kernel.Kept.of(self.kept)


def has_formula(score: Score, grid: Grid) -> bool:
    """Whether scores are products and what a formula does to them."""
    return isinstance(score, ScaledDot) and (score.bias is None or lies_ready(score.bias, grid))


def lies_ready(part: Tensor | Bias, grid: Grid) -> bool:
    """Whether a bias or a mask can be read where it lies: key beside key, or by distances, which are few."""
    if isinstance(part, Bias):
        return type(unrounded(part)) in (Alibi, RelativeBias) and min(grid.queries, grid.keys) > 0
    typed = part.dtype in (torch.float32, torch.bool) and part.device.type == "cpu"
    return typed and part.ndim > 0 and part.shape[-1] == grid.keys and part.stride(-1) == 1


def with_axes(tensor: Tensor | None) -> Tensor | None:
    """The same with four axes."""
    return None if tensor is None else tensor[(None,) * (4 - tensor.ndim)]


def finite(factor: float) -> float:
    """A factor that float32 can hold, so that 0 times it is 0."""
    return min(max(factor, -LARGEST), LARGEST)


def scores_into(scores: Float[Tensor, " weights"], pattern: "Pattern", block: Block, limits: Limits | None) -> None:
    """Write the scores of a block that has no formula; what `limits` bars is left to `attention.c`."""
    tile, by_row = block.tile(pattern.grid), scores.view(len(block.queries), -1)
    assert isinstance(pattern.normalise, Softmax)
    torch.div(pattern._scores(tile)[0, 0], pattern.normalise.temperature, out=by_row)
    by_mask = None if pattern.mask is None or limits is not None else pattern.mask.keep(tile, pattern.device)
    for keep in (by_mask, pattern.score.keep(tile)):
        if keep is not None:
            by_row.masked_fill_(~keep[0, 0], -math.inf)


def mask_into(kept: Bool[Tensor, " weights"], pattern: "Pattern", block: Block) -> None:
    """Write the mask of a block."""
    assert pattern.mask is not None
    kept.view(len(block.queries), -1).copy_(pattern.mask.keep(block.tile(pattern.grid), pattern.device)[0, 0])
