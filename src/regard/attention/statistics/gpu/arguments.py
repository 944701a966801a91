"""The arguments of the Triton kernels: tensors with their strides, sizes, and the parameters of the scores."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Grid, with_four_axes
from regard.attention.scores.biases.alibi import Alibi, alibi_slopes
from regard.attention.scores.biases.bias import numbers_of_bias, unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.statistics.gpu.schedule import Borders, Limits, limits_as_tensor
from regard.attention.statistics.ranges import key_ranges
from regard.kernels.attention import strides

LOG2_E = math.log2(math.e)

BYTES_OF_THREE_STAGES = 160 * 2**10
"""A kernel uses three stages on GPUs with at least this much shared memory for a block of threads."""


class Sizes(NamedTuple):
    heads: int
    group: int  # query heads that share a key head
    queries: int
    keys: int
    offset: int  # the key position of query 0
    width: int  # of queries and keys
    d_value: int


class StridedTensor(NamedTuple):
    """A tensor [batch heads tokens width], and the strides of its first three axes (0 for an axis of size 1)."""

    numbers: Any
    batch_stride: int
    head_stride: int
    token_stride: int


class Table(NamedTuple):
    """Token indices [ranges batch heads rows numbers], and the first four strides (0 for an axis of size 1)."""

    numbers: Any  # a contiguous tensor
    range_stride: int
    batch_stride: int
    head_stride: int
    row_stride: int  # of the axis of queries or tiles


class MaskRanges(NamedTuple):
    limits: Table  # [ranges batch heads queries 2]: the start and the stop of each key range of each query
    borders: Table  # [ranges batch heads tiles 4]: the borders of each tile, which schedule.py describes


class ScoreFormula(NamedTuple):
    """The parameters that turn dot products of queries and keys into scores · log₂ e / temperature.

    The factor log₂ e makes softmax a power of 2, which a GPU computes faster than a power of e.
    """

    product_factor: float  # scale · log₂ e / temperature; with a softcap: scale / softcap · 2 · log₂ e (see `tanh`)
    tanh_factor: float | None = None  # softcap · log₂ e / temperature; None = no softcap
    bias_factor: float = 1.0  # log₂ e / temperature
    slopes: Any = None  # for `Alibi`, the slope of each head
    by_distance: Any = None  # for `RelativeBias`, the bias [heads, 2 · max_distance + 1] at each distance
    max_distance: int = 0  # keys farther away have the same bias
    first_position: int = 0  # for `Alibi` and `RelativeBias`, the key position of query 0
    biases: Any = None  # a bias tensor [batch heads queries keys], with the strides below
    bias_batch: int = 0
    bias_head: int = 0
    bias_query: int = 0
    bias_key: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class KernelArguments:
    """The arguments of the Triton kernels: the tensors of a call of `attend`, the score formula, and block sizes."""

    grid: Grid
    query: StridedTensor
    key: StridedTensor
    value: StridedTensor
    limits: Limits
    formula: ScoreFormula
    sinks: Float[Tensor, " heads"]  # a score of each head that belongs to no key, times log₂ e / temperature; -∞ = none
    sizes: Sizes
    tile_sizes: tuple[int, int]
    """(n, m): the kernel `forward` computes n queries with m keys at a time, `read_weights` n keys with m queries."""
    stages: int
    """The number of blocks of vectors in shared memory: a kernel computes with one block while it loads the others."""
    widths: tuple[int, int]  # of keys and of values, rounded up to powers of 2

    @classmethod
    def of(cls, call: Call) -> "KernelArguments":
        grid, formula = call.grid, call.softmax_formula
        ranges = key_ranges(grid, call.mask, call.device)
        assert ranges is not None
        d_key, d_value = call.key.shape[-1], call.value.shape[-1]
        widths = padded(d_key), padded(d_value)
        sinks = torch.full((grid.heads,), -math.inf, dtype=torch.float32, device=call.device)
        if formula.sinks is not None:
            sinks = formula.sinks.to(sinks) / formula.temperature * LOG2_E
        return cls(
            grid=grid,
            query=StridedTensor(call.query, *strides(call.query)[:3]),
            key=StridedTensor(call.key, *strides(call.key)[:3]),
            value=StridedTensor(call.value, *strides(call.value)[:3]),
            limits=limits_as_tensor(ranges, grid),
            formula=score_formula(call),
            sinks=sinks,
            sizes=Sizes(
                grid.heads, grid.heads // call.key.shape[1], grid.queries, grid.keys, grid.offset, d_key, d_value
            ),
            tile_sizes=tile_sizes(max(widths), half=call.query.itemsize == 2),
            stages=3 if shared_memory(call.device) >= BYTES_OF_THREE_STAGES else 2,
            widths=widths,
        )

    def mask_ranges(self, borders: Borders) -> MaskRanges:
        return MaskRanges(self.limit_table(), Table(borders, *strides(borders)[:4]))

    def limit_table(self) -> Table:
        return Table(self.limits, *strides(self.limits)[:4])


def tile_sizes(width: int, *, half: bool) -> tuple[int, int]:
    """Return how many queries and keys the kernel `forward` computes at a time, so that they fit into shared memory.
    float32 numbers are multiplied as two TF32 numbers each, so they take four times the memory of float16.

    Args:
        width: the larger width of keys and values, rounded up to a power of 2.
        half: whether the numbers are float16 or bfloat16, not float32.

    >>> tile_sizes(64, half=True), tile_sizes(128, half=True), tile_sizes(256, half=True)
    ((128, 64), (128, 64), (64, 32))
    >>> tile_sizes(64, half=False), tile_sizes(128, half=False)
    ((64, 32), (32, 16))
    """
    n_keys = max(16, min(64, 2**13 // width // (1 if half else 4)))
    return 2 * n_keys, n_keys


def shared_memory(device: torch.device) -> int:
    """Return how many bytes of shared memory one block of threads may use on a GPU; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin  # type: ignore[attr-defined]


def padded(width: int) -> int:
    """Return a width rounded up to a power of 2 and to at least 16, as `tl.dot` requires.

    >>> padded(5), padded(64), padded(80)
    (16, 64, 128)
    """
    return max(16, 1 << (width - 1).bit_length())


def score_formula(call: Call) -> ScoreFormula:
    softmax, grid, device = call.softmax_formula, call.grid, call.device
    by_temperature = LOG2_E / softmax.temperature
    formula = ScoreFormula(product_factor=softmax.scale * by_temperature, bias_factor=by_temperature)
    if softmax.softcap is not None:
        product_factor = softmax.scale / softmax.softcap * 2 * LOG2_E
        formula = formula._replace(product_factor=product_factor, tanh_factor=softmax.softcap * by_temperature)
    bias = unrounded(softmax.bias)
    if isinstance(bias, Tensor):
        biases = with_four_axes(bias)
        by_batch, by_head, by_query, by_key = strides(biases)
        return formula._replace(
            biases=biases, bias_batch=by_batch, bias_head=by_head, bias_query=by_query, bias_key=by_key
        )
    if isinstance(bias, Alibi | RelativeBias):
        formula = formula._replace(first_position=grid.first_position(bias.offset))
    if isinstance(bias, Alibi):
        slopes = alibi_slopes(grid.heads) if bias.slopes is None else bias.slopes
        return formula._replace(slopes=slopes.to(device, torch.float32))
    if isinstance(bias, RelativeBias):
        far = bias.max_distance
        # a query at position `far`: its biases on the keys 0 … 2 · far are those of the distances -far … far
        query = far - formula.first_position
        one_query = grid.whole().part(queries=range(query, query + 1), keys=range(2 * far + 1))
        by_distance = numbers_of_bias(bias, one_query, device)[0, :, 0].float().contiguous()
        return formula._replace(by_distance=by_distance, max_distance=far)
    return formula
