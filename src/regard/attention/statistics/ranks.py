"""One pattern read by several machines, or by several processes of one: each computes a share of the blocks of queries.

Every rank holds the whole query and key, as after a forward pass, and every rank gets the whole summary: the numbers
that one process would compute, bit for bit.
"""

from dataclasses import replace

import torch
import torch.distributed as dist

from regard.attention.ask import Ask, Summary
from regard.attention.pattern import Pattern
from regard.attention.progress import ProgressCallback, ignore_progress, progress_callback
from regard.attention.statistics.cpu import engine
from regard.attention.statistics.cpu.results import CompensatedSum, Results


def summary_over_ranks(
    pattern: Pattern, ask: Ask, group: "dist.ProcessGroup | None" = None, report: ProgressCallback | None = None
) -> Summary:
    """The statistics of a pattern, its blocks shared out over the ranks of a process group.

    Every rank of the group must call it with the same pattern and the same `ask`. Rank 0 draws the progress bar.

    Args:
        group: None = all ranks.

    Raises:
        RuntimeError: there is no process group.
        ValueError: a pattern that the CPU kernel does not support; another shape on another rank.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "there are no ranks to share the work out over; call torch.distributed.init_process_group first, "
            "or ask the pattern itself: pattern.answer(ask)."
        )
    reason = engine.unsupported_reason(pattern.call)
    if reason is not None:
        raise ValueError(
            f"{pattern!r} cannot be shared out over ranks: {reason}; ask the pattern itself: pattern.answer(ask)."
        )
    ask.check(pattern.grid)
    pattern.call.check_unchanged()
    check_shapes(pattern, group)
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    with progress_callback(report if rank == 0 else ignore_progress) as callback:
        share = slice(rank, None, size)
        results = engine.compute(pattern.call, ask, contexts=False, report=callback, share=share)
    with torch.no_grad():
        return sum_of_ranks(results, group).summary()


def check_shapes(pattern: Pattern, group: "dist.ProcessGroup | None") -> None:
    """Raise ValueError if ranks have patterns of different shapes; they would wait for each other for ever."""
    shape = torch.tensor(pattern.shape)
    shapes = [torch.empty_like(shape) for _ in range(dist.get_world_size(group))]
    dist.all_gather(shapes, shape, group)
    if any(not torch.equal(other, shape) for other in shapes):
        named = ", ".join(f"rank {rank} has {other.tolist()}" for rank, other in enumerate(shapes))
        raise ValueError(f"every rank must be given the same pattern: {named}.")


def sum_of_ranks(results: Results, group: "dist.ProcessGroup | None") -> Results:
    """Return the results of all ranks together; the rows that another rank has computed are 0 in `results`."""
    for rows in (*results.rows.values(), results.groups, results.top and results.top.weights):
        if rows is not None:
            dist.all_reduce(rows, group=group)
    if results.top is not None:
        dist.all_reduce(results.top.keys.add_(1), group=group)  # no key is -1
        results.top.keys.sub_(1)
    largest = results.ask.reduce == "max"
    received, pooled = (
        columns_of_ranks(results.received, group),
        columns_of_ranks(results.pooled, group, largest=largest),
    )
    return replace(results, received=received, pooled=pooled)


def columns_of_ranks(
    columns: CompensatedSum | None, group: "dist.ProcessGroup | None", *, largest: bool = False
) -> CompensatedSum | None:
    """Return the sums of all ranks added up, or the largest of their numbers."""
    if columns is None:
        return None
    total = CompensatedSum.zeros(*columns.rounded.shape)
    for rank in range(dist.get_world_size(group)):
        for numbers in (columns.rounded, columns.error):
            numbers = numbers.clone()
            dist.broadcast(numbers, group=group, group_src=rank)
            (total.raise_to if largest else total.add)(numbers)
    return total
