"""The arguments of the C kernel: the struct `Arguments` of `kernels/attention.h`, filled in for a call of `attend`."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Grid, with_four_axes
from regard.attention.masks.keep import Keep
from regard.attention.overflow import hides_overflow
from regard.attention.scores.biases.bias import Bias
from regard.attention.statistics.cpu.conversion import ConvertedHeads
from regard.attention.statistics.cpu.plan import Plan
from regard.attention.statistics.cpu.results import CPU, Results
from regard.attention.statistics.cpu.scores import is_readable
from regard.kernels import attention as kernel
from regard.kernels.attention import ByteMask, CompensatedSum, Vectors, WeightedSum, strides

LARGEST_FLOAT32 = torch.finfo(torch.float32).max


def arguments_of(call: Call, plan: Plan, results: Results) -> kernel.Arguments:
    """Return the arguments of the C kernel, except those that `engine.compute` sets later, such as the vectors.

    If torch operations do not compute the scores (`write_scores`), the C kernel computes them from the fields softcap,
    scale and bias_factor of the arguments, in which the softcap and the temperature of the call are contained:

        scores / temperature = softcap · tanh(scale · query · key) + bias_factor · bias
        scores / temperature = scale · query · key + bias_factor · bias                     if softcap = -1 (none)
    """
    grid, ask, formula, limits = call.grid, results.ask, call.softmax_formula, plan.limits
    arguments = kernel.Arguments(batch=grid.batch, heads=grid.heads, group=grid.heads // call.key.shape[1])
    statistics = arguments.statistics
    statistics.queries, statistics.keys_of_head = grid.queries, grid.keys
    statistics.offset = grid.keys - grid.queries  # the position of query 0 among the keys
    statistics.inverse = results.inverse.data_ptr()
    for name, numbers in results.per_query.items():
        setattr(statistics, name, numbers.data_ptr())
    if results.top is not None:
        statistics.top = ask.top
        statistics.top_weights, statistics.top_keys = results.top.weights.data_ptr(), results.top.keys.data_ptr()
    if ask.pooled is not None and results.cells is not None:
        statistics.map_rows, statistics.map_columns = ask.pooled
        statistics.reduce_max = ask.reduce == "max"
        statistics.map_row_of_query = results.cells.row_of_query.data_ptr()
        statistics.first_key_of_column = results.cells.first_key_of_column.data_ptr()
    for name, total in (("received", results.received), ("pooled", results.pooled)):
        if total is not None:
            setattr(statistics, name, CompensatedSum(total.rounded.data_ptr(), total.error.data_ptr()))
    if limits is not None:
        arguments.starts, arguments.stops = limits.starts.data_ptr(), limits.stops.data_ptr()
        arguments.limits_batch, arguments.limits_head = limits.strides
    elif isinstance(call.mask, Keep) and is_readable(call.mask.tensor, grid):
        arguments.mask = ByteMask.of(with_four_axes(call.mask.tensor))
    softcap, temperature, bias = formula.softcap, formula.temperature, formula.bias
    arguments.scale = clamped(formula.scale / (softcap or temperature))
    arguments.softcap = -1.0 if softcap is None else clamped(softcap / temperature)
    table = sinks = None
    if bias is not None and is_readable(bias, grid):
        arguments.bias_factor = clamped(1 / temperature)
        if isinstance(bias, Bias):
            table = distance_table(bias, grid)
            arguments.bias = vectors_by_distance(table, grid.queries)
        else:
            arguments.bias = Vectors.of(with_four_axes(bias))
    if formula.sinks is not None:
        sinks = formula.sinks.float() / temperature
        arguments.sinks = sinks.data_ptr()
    arguments.tensors_pointed_to = table, sinks  # keeps them in memory as long as the arguments
    arguments.doubtful = hides_overflow(call)  # whether the context must be checked even if the kernel sees no NaN
    return arguments


def write_vectors(arguments: kernel.Arguments, converted: ConvertedHeads, results: Results) -> None:
    """Set the fields of `arguments` that point to queries and keys, and those that describe weighted sums over keys.

    The kernel computes up to two weighted sums for each query: the context, Σ weight · value, and the sum of weights on
    each group of keys, Σ weight · (1 if the key is in the group, else 0).
    """
    arguments.query = Vectors.of(converted.query, converted.batch, converted.head)
    arguments.key = Vectors.of(converted.key, converted.batch, converted.key_head)
    arguments.d_key = converted.key.shape[-1]
    arguments.n_weighted_sums = 0
    if converted.value is not None and results.context is not None:
        values, contexts = Vectors.of(converted.value, converted.batch, converted.key_head), Vectors.of(results.context)
        arguments.weighted_sums[0] = WeightedSum(values, contexts, converted.value.shape[-1])
        arguments.n_weighted_sums = 1
    if results.groups is not None and results.members is not None:
        sum_over_groups = WeightedSum(Vectors.of(results.members), Vectors.of(results.groups), results.groups.shape[-1])
        arguments.weighted_sums[arguments.n_weighted_sums] = sum_over_groups
        arguments.n_weighted_sums += 1


def distance_table(bias: Bias, grid: Grid) -> Float[Tensor, "heads distances"]:
    """Return the numbers of a bias rule such as `Alibi`, which depends only on the head and on the distance.

    The numbers are in ascending order of key position - query position. Every distance occurs in the first column or in
    the first row of the bias matrix; only these are computed.
    """
    one_item = grid.whole().part(batch=range(1))
    first_column = bias(one_item.part(keys=range(1)), CPU).float()[0, :, :, 0]
    first_row = bias(one_item.part(queries=range(1), keys=range(1, grid.keys)), CPU).float()[0, :, 0]
    return torch.cat([first_column.flip(1), first_row], dim=1).contiguous()


def vectors_by_distance(table: Float[Tensor, "heads distances"], queries: int) -> Vectors:
    """Return the C struct of the bias matrix [queries keys]. Its rows are parts of `table` and overlap in memory.

    Row i begins at table[head, queries - 1 - i], so the stride from one query to the next is -1.

    Args:
        table: the bias at each distance, in ascending order of key position - query position.
    """
    first_row = table.data_ptr() + table.itemsize * (queries - 1)
    head_stride, _ = strides(table)
    return Vectors(numbers=first_row, batch=0, head=head_stride, token=-1)


def clamped(factor: float) -> float:
    """Return a factor clamped to the finite numbers of float32, so that 0 · factor is 0 and not NaN."""
    return min(max(factor, -LARGEST_FLOAT32), LARGEST_FLOAT32)
