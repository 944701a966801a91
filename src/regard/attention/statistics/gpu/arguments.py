"""What the kernels are given: a pattern as numbers, strides and constants."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Grid
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.biases.alibi import Alibi, alibi_slopes
from regard.attention.scores.biases.bias import unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.scores.dot import ScaledDot
from regard.attention.statistics.cpu.plan import ranges_of
from regard.attention.statistics.gpu.schedule import Borders, Limits, limits_of

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

LOG2_E = math.log2(math.e)


class Sizes(NamedTuple):
    """How many there are; `group` query heads share a head of keys, the first query stands at position `offset`."""

    heads: int
    group: int
    queries: int
    keys: int
    offset: int
    width: int
    d_value: int


class Rows(NamedTuple):
    """Vectors [batch heads tokens width] with the strides of the first three axes, 0 where one serves all."""

    numbers: Any
    batch: int
    head: int
    token: int


class Table(NamedTuple):
    """Whole numbers [ranges batch heads places n], the n side by side, with the strides of the other axes."""

    numbers: Any
    part: int
    batch: int
    head: int
    place: int


class Kept(NamedTuple):
    """Ranges of keys: start and stop for each query, and the four borders of `schedule.py` for each tile."""

    limits: Table
    borders: Table


class Rule(NamedTuple):
    """How products become scores; None for what is not done.

    Attributes:
        inner: the products are multiplied by it.
        outer: the cap, in base 2.
        after: a bias is multiplied by it: log₂ e / temperature.
        slopes: of each head, for a bias that falls with the distance.
        by_distance: [heads, 2 · far + 1], for a bias that is the same from `far` on.
        first: the position of the first query for such biases.
        biases: [batch heads queries keys] with its strides.
    """

    inner: float
    outer: float | None = None
    after: float = 1.0
    slopes: Any = None
    by_distance: Any = None
    far: int = 0
    first: int = 0
    biases: Any = None
    bias_batch: int = 0
    bias_head: int = 0
    bias_query: int = 0
    bias_key: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A pattern as the kernels take it.

    Attributes:
        sinks: the extra score of each head, in base 2; -∞ for none.
        tiles: how many tokens stay in a program, and how many pass through it at a time.
        widths: those of keys and values, made up to powers of 2.
    """

    grid: Grid
    query: Rows
    key: Rows
    value: Rows
    limits: Limits
    rule: Rule
    sinks: Float[Tensor, " heads"]
    sizes: Sizes
    tiles: tuple[int, int]
    widths: tuple[int, int]

    @classmethod
    def of(cls, pattern: "Pattern") -> "Call":
        """The call for a pattern."""
        grid, normalise = pattern.grid, pattern.normalise
        ranges = ranges_of(grid, pattern.mask, pattern.device)
        assert isinstance(normalise, Softmax)
        assert ranges is not None
        d_key, d_value = pattern.key.shape[-1], pattern.value.shape[-1]
        width, wide = padded(d_key), padded(d_value)
        none = torch.full((grid.heads,), -math.inf, dtype=torch.float32, device=pattern.device)
        sinks = none if normalise.sinks is None else normalise.sinks.to(none) / normalise.temperature * LOG2_E
        return cls(
            grid=grid,
            query=rows_of(pattern.query),
            key=rows_of(pattern.key),
            value=rows_of(pattern.value),
            limits=limits_of(ranges, grid),
            rule=rule_of(pattern),
            sinks=sinks,
            sizes=Sizes(
                grid.heads, grid.heads // pattern.key.shape[1], grid.queries, grid.keys, grid.offset, d_key, d_value
            ),
            tiles=tile_sizes(max(width, wide), half=pattern.query.itemsize == 2),
            widths=(width, wide),
        )

    def kept(self, borders: Borders) -> Kept:
        """The mask, with the borders of a kernel's tiles."""
        return Kept(*(Table(numbers, *strides(numbers, 4)) for numbers in (self.limits, borders)))


def tile_sizes(width: int, *, half: bool) -> tuple[int, int]:
    """Tokens that stay in a program and tokens that pass through it, as many as fit into a processor's memory.

    A product of float32 numbers is that of two TF32 numbers for each, so they take four times the room of half types.

    >>> tile_sizes(64, half=True), tile_sizes(128, half=True), tile_sizes(256, half=True)
    ((128, 64), (128, 64), (64, 32))
    >>> tile_sizes(64, half=False), tile_sizes(128, half=False)
    ((64, 32), (32, 16))
    """
    passing = max(16, min(64, 2**13 // width // (1 if half else 4)))
    return 2 * passing, passing


def padded(width: int) -> int:
    """The power of 2 that a tile's width is made up to; a product takes no less than 16.

    >>> padded(5), padded(64), padded(80)
    (16, 64, 128)
    """
    return max(16, 1 << (width - 1).bit_length())


def strides(tensor: Tensor, axes: int) -> tuple[int, ...]:
    """How far apart neighbours along the first axes lie, 0 along an axis where one serves all."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(tensor.shape[:axes], tensor.stride(), strict=False))


def rows_of(vectors: Float[Tensor, "batch heads tokens width"]) -> Rows:
    """Vectors whose numbers lie side by side."""
    return Rows(vectors, *strides(vectors, 3))


def rule_of(pattern: "Pattern") -> Rule:
    """The score of a pattern."""
    score, normalise, grid, device = pattern.score, pattern.normalise, pattern.grid, pattern.device
    assert isinstance(score, ScaledDot)
    assert isinstance(normalise, Softmax)
    factor, after = score.factor(pattern.key.shape[-1]), LOG2_E / normalise.temperature
    rule = Rule(inner=factor * after, after=after)
    if score.softcap is not None:
        rule = rule._replace(inner=factor / score.softcap * 2 * LOG2_E, outer=score.softcap * after)
    bias = unrounded(score.bias)
    if isinstance(bias, Tensor):
        biases = bias[(None,) * (4 - bias.ndim)]
        return rule._replace(biases=biases, **dict(zip(Rule._fields[-4:], strides(biases, 4), strict=True)))
    if isinstance(bias, Alibi | RelativeBias):
        rule = rule._replace(first=grid.offset if bias.offset is None else bias.offset)
    if isinstance(bias, Alibi):
        slopes = alibi_slopes(grid.heads) if bias.slopes is None else bias.slopes
        return rule._replace(slopes=slopes.to(device, torch.float32))
    if isinstance(bias, RelativeBias):
        far = bias.max_distance
        every = grid.whole().part(queries=range(far - rule.first, far - rule.first + 1), keys=range(2 * far + 1))
        by_distance = score.biases(every, device)[0, :, 0].float().contiguous()
        return rule._replace(by_distance=by_distance, far=far)
    return rule
