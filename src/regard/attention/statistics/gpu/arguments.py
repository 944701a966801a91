"""The arguments of the Triton kernels: a call as numbers, strides and constants."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Grid
from regard.attention.scores.biases.alibi import Alibi, alibi_slopes
from regard.attention.scores.biases.bias import unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.statistics.gpu.schedule import Borders, Limits, limits_of
from regard.attention.statistics.ranges import key_ranges

LOG2_E = math.log2(math.e)


class Sizes(NamedTuple):
    """The sizes of a call; `group` query heads share a head of keys; the first query stands at position `offset`."""

    heads: int
    group: int
    queries: int
    keys: int
    offset: int
    width: int
    d_value: int


class Rows(NamedTuple):
    """Vectors [batch heads tokens width] and the strides of their first three axes; 0 for an axis of size 1."""

    numbers: Any
    batch: int
    head: int
    token: int


class Table(NamedTuple):
    """Integers [ranges batch heads places n], the n side by side in memory, and the strides of the other axes."""

    numbers: Any
    part: int
    batch: int
    head: int
    place: int


class MaskRanges(NamedTuple):
    """The mask as ranges of keys: start and stop of each query, and the four borders (`schedule.py`) of each tile."""

    limits: Table
    borders: Table


class Rule(NamedTuple):
    """The steps from products to scores; None for a step that is left out.

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
class KernelArguments:
    """A call as the kernels take it.

    Attributes:
        sinks: the extra score of each head, in base 2; -∞ for no sink.
        tiles: the number of tokens that stay in a program, and the number that pass through it at a time.
        widths: the widths of keys and values, rounded up to powers of 2.
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
    def of(cls, call: Call) -> "KernelArguments":
        """Return the arguments of a call that the kernels support."""
        grid, formula = call.grid, call.softmax
        ranges = key_ranges(grid, call.mask, call.device)
        assert ranges is not None
        d_key, d_value = call.key.shape[-1], call.value.shape[-1]
        width, wide = padded(d_key), padded(d_value)
        none = torch.full((grid.heads,), -math.inf, dtype=torch.float32, device=call.device)
        sinks = none if formula.sinks is None else formula.sinks.to(none) / formula.temperature * LOG2_E
        return cls(
            grid=grid,
            query=rows_of(call.query),
            key=rows_of(call.key),
            value=rows_of(call.value),
            limits=limits_of(ranges, grid),
            rule=rule_of(call),
            sinks=sinks,
            sizes=Sizes(
                grid.heads, grid.heads // call.key.shape[1], grid.queries, grid.keys, grid.offset, d_key, d_value
            ),
            tiles=tile_sizes(max(width, wide), half=call.query.itemsize == 2),
            widths=(width, wide),
        )

    def mask_ranges(self, borders: Borders) -> MaskRanges:
        """Return the mask, with the borders of a kernel's tiles."""
        return MaskRanges(*(Table(numbers, *strides(numbers, 4)) for numbers in (self.limits, borders)))


def tile_sizes(width: int, *, half: bool) -> tuple[int, int]:
    """Return how many tokens stay in a program and how many pass through it: as many as fit into shared memory.

    float32 numbers are multiplied as two TF32 numbers each, so they take four times the memory of half types.

    >>> tile_sizes(64, half=True), tile_sizes(128, half=True), tile_sizes(256, half=True)
    ((128, 64), (128, 64), (64, 32))
    >>> tile_sizes(64, half=False), tile_sizes(128, half=False)
    ((64, 32), (32, 16))
    """
    passing = max(16, min(64, 2**13 // width // (1 if half else 4)))
    return 2 * passing, passing


def padded(width: int) -> int:
    """Return the power of 2 that a tile's width is rounded up to; Triton's products take at least 16.

    >>> padded(5), padded(64), padded(80)
    (16, 64, 128)
    """
    return max(16, 1 << (width - 1).bit_length())


def strides(tensor: Tensor, axes: int) -> tuple[int, ...]:
    """Return the strides of the first axes; 0 for an axis of size 1, so that it broadcasts."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(tensor.shape[:axes], tensor.stride(), strict=False))


def rows_of(vectors: Float[Tensor, "batch heads tokens width"]) -> Rows:
    """Return vectors, whose numbers lie side by side in memory, with their strides."""
    return Rows(vectors, *strides(vectors, 3))


def rule_of(call: Call) -> Rule:
    """Return the steps from products to scores of a call."""
    formula, grid, device = call.softmax, call.grid, call.device
    after = LOG2_E / formula.temperature
    rule = Rule(inner=formula.scale * after, after=after)
    if formula.softcap is not None:
        rule = rule._replace(inner=formula.scale / formula.softcap * 2 * LOG2_E, outer=formula.softcap * after)
    bias = unrounded(formula.bias)
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
        by_distance = formula.bias_numbers(every, device)[0, :, 0].float().contiguous()
        return rule._replace(by_distance=by_distance, far=far)
    return rule
