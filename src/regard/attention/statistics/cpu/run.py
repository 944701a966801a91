"""One pass over a pattern: where its results go, and what `attention.c` is told of its blocks."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import Ask
from regard.attention.grid.grid import spans
from regard.attention.normalise.softmax import Softmax
from regard.attention.statistics.cpu.formula import Formula, mask_into, scores_into
from regard.attention.statistics.cpu.plan import Block, Plan
from regard.attention.statistics.cpu.rounds import Round
from regard.attention.statistics.cpu.totals import HERE, Totals
from regard.attention.statistics.progress import Report
from regard.kernels import attention as kernel
from regard.kernels.attention import Vectors
from regard.kernels.library import on_threads, parallel

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

WORTH_A_THREAD = 2**18
"""Weights that take longer than it takes to wake a thread."""

SECONDS_AT_ONCE = 0.5
"""After so many Python is told how far it is, and hears Ctrl-C."""

MADE_AT_ONCE = 2**22
"""Scores that torch's operations make before they are gone through, if the blocks of all threads have no more."""

PANEL = 64
"""Columns that `attention.c` multiplies at once, at most; it may also read so many numbers beyond the end of others."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What is read of a pattern, and how far that is.

    Attributes:
        formula: how scores follow from products; None where torch's operations make them.
        groups: whether each key is in each group.
        held: tensors that the compiled function knows the addresses of.
    """

    pattern: "Pattern"
    plan: Plan
    totals: Totals
    formula: Formula | None
    groups: Float[Tensor, "1 1 keys groups"] | None
    threads: int
    call: kernel.Pass
    held: tuple[Tensor | None, ...]

    @classmethod
    def of(cls, pattern: "Pattern", ask: Ask, plan: Plan, contexts: bool) -> "Reading":
        """One that has not begun."""
        grid, normalise, limits = pattern.grid, pattern.normalise, plan.limits
        assert isinstance(normalise, Softmax)
        totals = Totals.of(grid, ask, pattern.value.shape[-1] if contexts else None)
        groups = None if ask.groups is None else ask.groups.T.float().contiguous()[None, None]
        sinks = None if normalise.sinks is None else normalise.sinks.float() / normalise.temperature
        threads = min(torch.get_num_threads(), 1 + plan.size // WORTH_A_THREAD)
        panel = PANEL * max(pattern.key.shape[-1], plan.width if contexts or groups is not None else 0)
        piece = plan.room + min(plan.rows, totals.lines) * totals.cells + panel + PANEL
        memory, taken = scratch(threads * piece), torch.zeros(1, dtype=torch.int8, device=HERE)
        call = kernel.Pass(
            call=call_of(totals, taken),
            heads=grid.heads,
            group=grid.heads // pattern.key.shape[1],
            d_key=pattern.key.shape[-1],
            sinks=None if sinks is None else sinks.data_ptr(),
            memory=memory.data_ptr(),
            piece=piece,
            seconds=SECONDS_AT_ONCE,
        )
        if limits is not None:
            call.starts, call.stops = limits.starts.data_ptr(), limits.stops.data_ptr()
            call.limits_batch, call.limits_head = kernel.steps(limits.starts)
        formula = Formula.of(pattern, limits)
        if formula is not None:
            formula.tell(call)
        return cls(pattern, plan, totals, formula, groups, threads, call, (sinks, memory, taken))

    def go_through(self, part: Round, report: Report) -> None:
        """Fill in the rows of a round, and add to the columns."""
        call, totals = self.call, self.totals
        call.query, call.key = (
            Vectors.of(part.query, part.batch, part.head),
            Vectors.of(part.key, part.batch, part.key_head),
        )
        readings = []
        if part.value is not None and totals.context is not None:
            value = Vectors.of(part.value, part.batch, part.key_head)
            readings.append(kernel.Reading(value, Vectors.of(totals.context), part.value.shape[-1]))
        if self.groups is not None and totals.groups is not None:
            readings.append(kernel.Reading(Vectors.of(self.groups), Vectors.of(totals.groups), self.groups.shape[-1]))
        call.readings, call.n_readings = (kernel.Reading * 2)(*readings), len(readings)
        for places in self.with_scores(part):
            call.places, call.n_places, call.next = places.data_ptr(), len(places), 0
            while call.next < call.n_places:
                call.threads = 0
                self.run()
                report(call.done, self.plan.size)

    def with_scores(self, part: Round) -> Iterator[Int[Tensor, "blocks 8"]]:
        """The blocks of a round: all, or as many at a time as scores or masks are made for, if that has to be."""
        places, blocks, formula = self.plan.places[part.numbers], self.plan.blocks[part.numbers], self.formula
        if formula is not None and not formula.masked:
            yield places
            return
        places, kind = places.clone(), torch.float32 if formula is None else torch.bool
        at_once = max(1, min(len(blocks), max(self.threads, MADE_AT_ONCE // max(1, self.plan.room))))
        made = torch.empty(at_once * (self.plan.room + PANEL), dtype=kind, device=HERE)
        if formula is None:
            self.call.scores = made.data_ptr()
        else:
            self.call.masks = made.data_ptr()
        for some in spans(len(blocks), at_once):
            first = 0
            for number in some:
                places[number, -1] = first
                self.make(blocks[number], made[first:])
                first += blocks[number].size + PANEL
            yield places[some.start : some.stop]

    def make(self, block: Block, made: Tensor) -> None:
        """Write the scores of a block, part after part, or its mask."""
        if self.formula is not None:
            mask_into(made[: block.size], self.pattern, block)
            return
        for part in block.parts():
            scores_into(made[: part.size], self.pattern, part, self.plan.limits)
            made = made[part.size :]

    def run(self) -> None:
        """Let all threads take blocks."""
        function = kernel.regard_blocks()
        assert function is not None
        if self.threads == 1 or parallel() is not None:
            on_threads(function, self.call, self.threads)
            return
        with ThreadPoolExecutor(self.threads - 1) as others:
            for _ in range(self.threads - 1):
                others.submit(function, byref(self.call))
            function(byref(self.call))


def call_of(totals: Totals, taken: Int[Tensor, " 1"]) -> kernel.Call:
    """What is asked of the rows, and where it goes."""
    grid, top = totals.grid, totals.top
    sums = {name: total for name in ("received", "pooled") if (total := getattr(totals, name)) is not None}
    return kernel.Call(
        queries=grid.queries,
        all_keys=grid.keys,
        offset=grid.offset,
        inverse=totals.inverse.data_ptr(),
        top=totals.ask.top or 0,
        top_weights=None if top is None else top.weights.data_ptr(),
        top_keys=None if top is None else top.keys.data_ptr(),
        lines=totals.lines,
        cells=totals.cells,
        largest=totals.ask.reduce == "max",
        line_of_query=totals.places.line_of_query.data_ptr(),
        start_of_cell=totals.places.start_of_cell.data_ptr(),
        taken=taken.data_ptr(),
        **{name: part.data_ptr() for name, part in totals.rows.items()},
        **{name: kernel.Sum(total.rounded.data_ptr(), total.lost.data_ptr()) for name, total in sums.items()},
    )


MEMORY = local()


def scratch(n: int) -> Float[Tensor, " at_least_n"]:
    """Memory for so many numbers or more, the same for every pass that a thread begins."""
    numbers: Tensor | None = getattr(MEMORY, "numbers", None)
    if numbers is None or numbers.numel() < n:
        MEMORY.numbers = numbers = torch.empty(n, dtype=torch.float32, device=HERE)
    return numbers
