"""The statistics of one pattern, computed by several processes (ranks) together, on one machine or on several.

Each rank has all queries and keys, and computes some of the blocks of queries.
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
    """Return the statistics of a pattern, computed by all ranks of a process group together.

    Every rank of the group must call this function with the same pattern and the same `ask`. Every rank gets all
    statistics, with exactly the bits that a single process would compute.

    Args:
        ask: the statistics to compute.
        group: the process group; None = all ranks.
        report: called on rank 0 with the number of weights computed so far and the number of all weights; None = the
            callback set by `report_to`, or a progress bar.

    Raises:
        RuntimeError: torch.distributed has no process group.
        ValueError: the CPU kernel does not support the pattern, or the ranks have patterns of different shapes.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "torch.distributed has no process group; call torch.distributed.init_process_group first, "
            "or compute the statistics in this process: pattern.answer(ask)."
        )
    reason = engine.unsupported_reason(pattern.call)
    if reason is not None:
        raise ValueError(
            f"the ranks compute by the CPU kernel, which does not support {pattern!r}: {reason}; "
            "compute the statistics in this process: pattern.answer(ask)."
        )
    ask.check(pattern.grid)
    pattern.call.check_tensors_unchanged()
    check_shapes(pattern, group)
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    with torch.no_grad():
        with progress_callback(report if rank == 0 else ignore_progress) as callback:
            share = slice(rank, None, size)
            results = engine.compute(pattern.call, ask, contexts=False, report=callback, share=share)
        return sum_of_ranks(results, group).summary()


def check_shapes(pattern: Pattern, group: "dist.ProcessGroup | None") -> None:
    """Raise ValueError on all ranks if their patterns differ in shape: such ranks would wait for each other forever."""
    shape = torch.tensor(pattern.shape)
    shapes = [torch.empty_like(shape) for _ in range(dist.get_world_size(group))]
    dist.all_gather(shapes, shape, group)
    if any(not torch.equal(other, shape) for other in shapes):
        shape_of_ranks = ", ".join(f"rank {rank} has {other.tolist()}" for rank, other in enumerate(shapes))
        raise ValueError(f"every rank must be given the same pattern: {shape_of_ranks}.")


def sum_of_ranks(results: Results, group: "dist.ProcessGroup | None") -> Results:
    """Add up the results of all ranks in place; a rank's results are 0 for the queries that other ranks compute."""
    top_weights = None if results.top is None else results.top.weights
    for numbers in (*results.per_query.values(), results.groups, top_weights):
        if numbers is not None:
            dist.all_reduce(numbers, group=group)
    if results.top is not None:
        # for the queries of other ranks, a rank has the key index -1 (no key), so 1 is added to make it 0 in the sum
        dist.all_reduce(results.top.keys.add_(1), group=group)
        results.top.keys.sub_(1)
    received = reduced_over_ranks(results.received, group)
    pooled = reduced_over_ranks(results.pooled, group, maximum=results.ask.reduce == "max")
    return replace(results, received=received, pooled=pooled)


def reduced_over_ranks(
    sums: CompensatedSum | None, group: "dist.ProcessGroup | None", *, maximum: bool = False
) -> CompensatedSum | None:
    """Return the sum over all ranks of the same numbers, or their maximum; None if they were not requested.

    `all_reduce` would add them with larger rounding errors than `CompensatedSum`. A maximum has no rounding error.
    """
    if sums is None:
        return None
    total = CompensatedSum.zeros(*sums.rounded.shape)
    for rank in range(dist.get_world_size(group)):
        for numbers in (sums.rounded, sums.error):
            numbers = numbers.clone()
            dist.broadcast(numbers, group=group, group_src=rank)
            if maximum:
                total.take_maximum(numbers)
            else:
                total.add(numbers)
    return total
