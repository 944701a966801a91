"""Joins the attention calls for parts of a picture, such as windows or tiles, into one call over all tokens.

In a joined call, a token attends only to tokens of its own part.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import PER_QUERY, Reduce, Top
from regard.attention.attend import Attended
from regard.attention.call import Call
from regard.attention.grid.grid import Grid, with_four_axes
from regard.attention.masks import Documents, Keep, Mask
from regard.attention.masks.mask import keep_of_tile
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.attention.statistics.cpu.results import MapCells
from regard.errors import InputError
from regard.tracing.watching.answered_pattern import AnsweredPattern, CallWithoutTensors, score_if_unmasked
from regard.tracing.watching.diagonal_bias import DiagonalBias
from regard.tracing.watching.watched import WatchedStep


def join_windows(steps: Sequence[WatchedStep]) -> list[WatchedStep]:
    """Join successive attention calls of the same module, one for each window of a picture, into one call.

    Calls that cannot be joined (see `is_joinable`) are returned as they are.
    """
    groups: list[list[WatchedStep]] = []
    for step in steps:
        if groups and groups[-1][-1].path == step.path and is_joinable(groups[-1][-1], step):
            groups[-1].append(step)
        else:
            groups.append([step])
    return [group[0] if len(group) == 1 else joined(group) for group in groups]


def is_joinable(step: WatchedStep, other: WatchedStep) -> bool:
    """Return whether two calls have no mask, the same score and number of heads, and as many queries as keys."""
    call, other_call = step.attended.pattern.call, other.attended.pattern.call
    grid, other_grid = call.grid, other_call.grid
    score, other_score = score_if_unmasked(call), score_if_unmasked(other_call)
    if score is None or score != other_score or grid.heads != other_grid.heads:
        return False
    return grid.queries == grid.keys and other_grid.queries == other_grid.keys


def joined(steps: Sequence[WatchedStep]) -> WatchedStep:
    context = torch.cat([step.attended.context for step in steps], dim=2)
    patterns = [step.attended.pattern for step in steps]
    with_statistics = [pattern for pattern in patterns if isinstance(pattern, AnsweredPattern)]
    if with_statistics:  # with `ask`, all patterns of a run have statistics in place of queries and keys
        pattern: Pattern = joined_statistics(with_statistics)
    else:
        calls = [pattern.call for pattern in patterns]
        query, key, value = (
            torch.cat([getattr(call, name) for call in calls], dim=2) for name in ("query", "key", "value")
        )
        lengths = torch.tensor([call.grid.keys for call in calls], device=query.device)
        window = torch.arange(len(calls), device=query.device).repeat_interleave(lengths)
        pattern = Pattern(Call.of(query, key, value, calls[0].score, Documents(window), calls[0].normalise))
    return replace(steps[0], attended=replace(steps[0].attended, context=context, pattern=pattern))


def in_one_sequence(attended: Attended, order: Int[Tensor, " tokens"] | None = None) -> Attended:
    """Return the attention of a batch as attention of one sequence, in which all items of the batch are joined.

    The items are, for example, the tiles of a picture. In the sequence, a token attends only to tokens of its own item.

    Args:
        order: for each token of the sequence, its index among the tokens of all items, item after item; None = the
            sequence has this order. It must be None if the call has a mask, which is not reordered.
    """
    n_items = attended.pattern.call.grid.batch
    if n_items == 1:
        return attended
    context = rearrange(attended.context, "b h q d -> 1 h (b q) d")
    if isinstance(attended.pattern, AnsweredPattern):
        return replace(attended, context=context, pattern=joined_statistics([attended.pattern]))
    call = attended.pattern.call
    grid, device = call.grid, call.device
    query, key, value = (
        rearrange(tensor.expand(n_items, -1, -1, -1), "b h t d -> 1 h (b t) d")
        for tensor in (call.query, call.key, call.value)
    )
    token = torch.arange(n_items * grid.keys, device=device) if order is None else order.to(device)
    item, position = token // grid.keys, token % grid.keys
    if order is not None:
        query, key, value, context = (part[:, :, token] for part in (query, key, value, context))
    mask: Mask = Documents(item)
    if call.mask is not None:
        assert order is None
        mask = Keep(on_diagonal(keep_of_tile(call.mask, grid.whole(), device), grid))
    score = call.score
    if isinstance(score, ScaledDot) and score.bias is not None:
        bias = score.bias if isinstance(score.bias, Tensor) else score.bias(grid.whole(), device)
        score = replace(score, bias=DiagonalBias(with_four_axes(bias), item, position))
    call = Call.of(query, key, value, score, mask, call.normalise)
    return replace(attended, context=context, pattern=Pattern(call))


def joined_statistics(patterns: Sequence[AnsweredPattern]) -> AnsweredPattern:
    """Join the statistics of all items (such as windows) of several batches into the statistics of one sequence.

    The sequence has the same groups of keys as an item; each group has keys of every item. The pooled map (see
    `map_of_one_sequence`) has as many rows and columns as that of an item.
    """
    stored, calls = [pattern.statistics for pattern in patterns], [pattern.call for pattern in patterns]
    grids = [call.grid for call in calls]
    ask, grid, n_items = stored[0].ask, grids[0], sum(batch_grid.batch for batch_grid in grids)

    def as_one_item(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([rearrange(tensor, "b h t ... -> 1 h (b t) ...") for tensor in tensors], dim=2)

    parts: dict[str, Any] = {
        name: as_one_item([getattr(summary, name) for summary in stored])
        for name in ("received", *PER_QUERY, "groups")
        if getattr(stored[0], name) is not None
    }
    if ask.groups is not None:
        groups_of_all_items = ask.groups.repeat(1, n_items)  # items have equally many keys: `groups` fits each of them
        parts["ask"] = replace(ask, groups=groups_of_all_items)
    if ask.pooled is not None:
        if any((batch_grid.queries, batch_grid.keys) != (grid.queries, grid.keys) for batch_grid in grids):
            raise InputError(
                "the windows of the picture have different sizes, so that their pooled maps cannot be joined into a "
                "map of the whole picture; leave pooled=… out of ask=Ask(…)."
            )
        maps = torch.cat([summary.pooled for summary in stored if summary.pooled is not None])
        parts["pooled"] = map_of_one_sequence(maps, grid, ask.reduce)
    if ask.first:  # the weight on key 0, to which only queries of the first item may attend
        parts["first"][..., grid.queries :] = 0
    if ask.top is not None:
        tops = [summary.top for summary in stored if summary.top is not None]
        keys, n_before = [], 0  # n_before: the number of keys of the sequence before those of the batch
        for top, batch_grid in zip(tops, grids, strict=True):
            item = torch.arange(batch_grid.batch, device=top.keys.device).view(-1, 1, 1, 1)
            first_key = n_before + batch_grid.keys * item
            keys.append(torch.where(top.keys < 0, -1, first_key + top.keys))  # -1 = there is no such key
            n_before += batch_grid.batch * batch_grid.keys
        parts["top"] = Top(as_one_item([top.weights for top in tops]), as_one_item(keys))
    n_queries = sum(batch_grid.batch * batch_grid.queries for batch_grid in grids)
    n_keys = sum(batch_grid.batch * batch_grid.keys for batch_grid in grids)
    nan_in = next((call.nan_in for call in calls if call.nan_in is not None), None)
    whole_grid = Grid(1, grid.heads, n_queries, n_keys)
    call = CallWithoutTensors(whole_grid, calls[0].weights_dtype, calls[0].device, nan_in)
    return AnsweredPattern(call, replace(stored[0], **parts))


def map_of_one_sequence(
    pooled: Float[Tensor, "items heads rows columns"], grid: Grid, reduce: Reduce
) -> Float[Tensor, "1 heads rows columns"]:
    """Return the pooled map of a sequence of joined items, computed from the pooled map of each item.

    A pooled map has one number for each block of weights (queries × keys). The maps of all n items are placed on the
    diagonal of a larger map; weights between items are 0. Then each block of n × n numbers is reduced to one number, so
    that the result has the size of one item's map. It is exact: its cells, n times as high and as wide as those of an
    item, consist of whole cells. `grid` has the sizes of one item.
    """
    n_items, n_heads, rows, columns = pooled.shape

    def cell_sizes(n: int) -> Tensor:  # the number of weights in each cell of the map of n joined items
        return MapCells.of(n * grid.queries, n * grid.keys, rows, columns).sizes.to(pooled)

    blocks = pooled * cell_sizes(1) if reduce == "mean" else pooled
    matrix = on_diagonal(blocks, Grid(n_items, n_heads, rows, columns))
    cells = rearrange(matrix, "1 h (r m) (c n) -> 1 h r c (m n)", m=n_items, n=n_items)
    joined = cells.amax(dim=-1) if reduce == "max" else cells.sum(dim=-1)
    return joined / cell_sizes(n_items) if reduce == "mean" else joined


def on_diagonal(blocks: Tensor, grid: Grid) -> Tensor:
    """Return the masks (or maps) of all items of a batch as the diagonal blocks of one, with False (or 0) elsewhere."""
    blocks = blocks.expand(grid.batch, -1, grid.queries, grid.keys)
    matrix = blocks.new_zeros(1, blocks.shape[1], grid.batch, grid.queries, grid.batch, grid.keys)
    for item, block in enumerate(blocks):
        matrix[0, :, item, :, item] = block
    return rearrange(matrix, "1 h b q c k -> 1 h (b q) (c k)")
