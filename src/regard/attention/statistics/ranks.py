"""One pattern read by several machines, or several processes of one: each takes its share of the queries of every head.

Every rank holds the whole query and key, as after a forward pass, and every rank gets the whole answer: its numbers are
those of one process, bit for bit.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from regard.attention.ask import Ask, Summary
from regard.attention.statistics.cpu import engine
from regard.attention.statistics.cpu.totals import Sum, Totals
from regard.attention.statistics.progress import Report, reporting, to_nobody

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern


def summary_over_ranks(
    pattern: "Pattern", ask: Ask, group: "dist.ProcessGroup | None" = None, report: Report | None = None
) -> Summary:
    """What is asked of a pattern, its blocks shared out over the ranks of a process group.

    Every rank of the group must call it with the same pattern and the same question. The bar is rank 0's.

    Args:
        group: None = all ranks.

    Raises:
        RuntimeError: there is no process group.
        ValueError: a pattern that blocks on a CPU cannot do; another shape on another rank.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "there are no ranks to share the work out over; call torch.distributed.init_process_group first, "
            "or ask the pattern itself: pattern.answer(ask)."
        )
    why = engine.why_not(pattern)
    if why is not None:
        raise ValueError(
            f"{pattern!r} cannot be shared out over ranks: {why}; ask the pattern itself: pattern.answer(ask)."
        )
    ask.check(pattern.grid)
    pattern.check_unchanged()
    check_shapes(pattern, group)
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    with reporting(report if rank == 0 else to_nobody) as told:
        share = slice(rank, None, size)
        totals = engine.gone_through(pattern, ask, contexts=False, report=told, share=share)
    with torch.no_grad():
        return together(totals, group).summary()


def check_shapes(pattern: "Pattern", group: "dist.ProcessGroup | None") -> None:
    """Refuse what cannot be one pattern, before ranks wait for each other for ever."""
    mine = torch.tensor(pattern.shape)
    shapes = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(shapes, mine, group)
    if any(not torch.equal(shape, mine) for shape in shapes):
        named = ", ".join(f"rank {rank} has {shape.tolist()}" for rank, shape in enumerate(shapes))
        raise ValueError(f"every rank must be given the same pattern: {named}.")


def together(mine: Totals, group: "dist.ProcessGroup | None") -> Totals:
    """What the shares of all ranks come to; rows that are another rank's are 0 so far."""
    for rows in (*mine.rows.values(), mine.groups, mine.top and mine.top.weights):
        if rows is not None:
            dist.all_reduce(rows, group=group)
    if mine.top is not None:
        dist.all_reduce(mine.top.keys.add_(1), group=group)  # no key is -1
        mine.top.keys.sub_(1)
    largest = mine.ask.reduce == "max"
    received, pooled = over_all(mine.received, group), over_all(mine.pooled, group, largest=largest)
    return replace(mine, received=received, pooled=pooled)


def over_all(mine: Sum | None, group: "dist.ProcessGroup | None", *, largest: bool = False) -> Sum | None:
    """The sums of all ranks, or the largest of their numbers."""
    if mine is None:
        return None
    total = Sum.zeros(*mine.rounded.shape)
    for rank in range(dist.get_world_size(group)):
        for part in (mine.rounded, mine.lost):
            part = part.clone()
            dist.broadcast(part, group=group, group_src=rank)
            (total.rise if largest else total.add)(part)
    return total
