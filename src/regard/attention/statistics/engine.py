"""The fast way on a CPU: softmax attention and everything that is asked of it in one pass, all cores busy.

For a block of queries of one head, over all keys that it can reach, so many keys at a time as the cache holds:

    scores   = query · keyᵀ                 one matrix product, masked where the mask may bar something
    weights  = softmax(scores)              with every statistic, in `rows.c`, while they are in the cache
    context += weights · value              one matrix product, where the context is asked for

Blocks are shared out over threads, and over machines (`ranks.py`); the numbers do not depend on how.
"""

from collections.abc import Iterator
from contextlib import closing
from ctypes import byref
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.normalise.softmax import Softmax
from regard.attention.precision import as_typed
from regard.attention.statistics import kernel
from regard.attention.statistics.blocks import Block, Head, Limits, blocks_of, scores_into, with_heads
from regard.attention.statistics.progress import Report
from regard.attention.statistics.threads import shared_out
from regard.attention.statistics.totals import HERE, Sum, Totals
from regard.attention.summary import Ask, Summary

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

WORTH_A_THREAD = 2**18
"""Weights that take longer than it takes to wake a thread."""


def why_not(pattern: "Pattern") -> str | None:
    """Why a pattern cannot be gone through this way; None if it can."""
    if pattern.query.device.type != "cpu":
        return "it runs on a CPU"
    if not isinstance(pattern.normalise, Softmax) or pattern.normalise.temperature == 0:
        return "it has softmax alone"
    if pattern.dtype == torch.float64:
        return "it computes in float32"
    if kernel.regard_rows() is None:
        return "no C compiler was found"
    return None


def read(
    pattern: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
    """The context, if it is wanted, and the summary of a pattern that `why_not` has nothing against."""
    totals = gone_through(pattern, ask, contexts=contexts, report=report)
    context = None if totals.context is None else totals.context.to(pattern.value.dtype)
    return context, totals.summary()


@torch.inference_mode(False)
@torch.no_grad()
def gone_through(
    pattern: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None, share: slice = slice(None)
) -> Totals:
    """What a share of the blocks comes to, or all of them."""
    with as_typed(pattern.device):
        reading = Reading.of(pattern, ask, contexts)
        blocks = list(blocks_of(pattern, reading.limits))[share]
        done, of = 0, sum(block.size for block in blocks)
        threads = min(torch.get_num_threads(), 1 + of // WORTH_A_THREAD)
        with closing(shared_out(with_heads(pattern, blocks, contexts), reading.read, threads)) as sizes:
            for size in sizes:
                done += size
                if report is not None:
                    report(done, of)
    return reading.totals


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One pass over a pattern: where its results go, and what the compiled function is told of all of its blocks."""

    pattern: "Pattern"
    totals: Totals
    limits: Limits | None
    call: kernel.Call
    taken: Int[Tensor, " 1"]

    @classmethod
    def of(cls, pattern: "Pattern", ask: Ask, contexts: bool) -> "Reading":
        """A pass that has not begun."""
        grid, totals = pattern.grid, Totals.of(pattern.grid, ask, pattern.value.shape[-1] if contexts else None)
        lines, cells = ask.pooled or (0, 0)
        taken = torch.zeros(1, dtype=torch.int8, device=HERE)
        call = kernel.Call(
            queries=grid.queries,
            all_keys=grid.keys,
            offset=grid.offset,
            inverse=totals.inverse.data_ptr(),
            top=ask.top or 0,
            lines=lines,
            cells=cells,
            largest=ask.reduce == "max",
            line_of_query=totals.places.line_of_query.data_ptr(),
            start_of_cell=totals.places.start_of_cell.data_ptr(),
            taken=taken.data_ptr(),
            **{name: part.data_ptr() for name, part in totals.rows.items()},
        )
        if totals.top is not None:
            call.top_weights, call.top_keys = totals.top.weights.data_ptr(), totals.top.keys.data_ptr()
        for name in ("received", "pooled"):
            total: Sum | None = getattr(totals, name)
            if total is not None:
                setattr(call, name, kernel.Sum(total.rounded.data_ptr(), total.lost.data_ptr()))
        return cls(pattern, totals, Limits.of(pattern), call, taken)

    def read(self, work: tuple[Block, Head]) -> int:
        """Fill in the rows of a block, and add to the columns; gives how many weights that were."""
        (block, head), totals = work, self.totals
        rows = block.batch, block.head, slice(block.queries.start, block.queries.stop)
        if block.size == 0:
            if totals.context is not None:
                totals.context[rows] = 0
            return 0
        n_rows, n_keys = len(block.queries), len(block.keys)
        parts = block.parts()
        width, of_cells = len(parts[0].keys), min(n_rows, self.call.lines) * self.call.cells
        numbers = scratch(n_rows * (n_keys + 3 + len(parts)) + 2 * width + of_cells + 32)
        sums = list(self.sums(rows, head))
        for number, part in enumerate(parts):
            scores = numbers[n_rows * width * number :][: part.size].view(n_rows, -1)
            scores_into(scores, self.pattern, part, head, self.limits)
            self.weights_from_scores(block, head, width, number, numbers)
            shrink = numbers[n_rows * n_keys :][:n_rows, None]
            for total, of_keys in sums:
                of_part = of_keys[part.keys.start : part.keys.stop].float()
                if number == 0:
                    torch.mm(scores, of_part, out=total)
                else:  # a product of its own: one that is added to the total at once adds key after key to it
                    torch.addcmul(scores @ of_part, total, shrink, out=total)
        if sums:
            inverse = totals.inverse[rows][:, None]
            for total, _ in sums:
                total.mul_(inverse)
        return block.size

    def sums(self, rows: tuple[int, int, slice], head: Head) -> Iterator[tuple[Tensor, Tensor]]:
        """What weights of some rows are summed into, and what each key has that they are multiplied by."""
        totals = self.totals
        if totals.groups is not None and totals.ask.groups is not None:
            yield totals.groups[rows], totals.ask.groups.T
        if totals.context is not None and head.value is not None:
            yield totals.context[rows], head.value

    def weights_from_scores(
        self, block: Block, head: Head, width: int, part: int, numbers: Float[Tensor, " scratch"]
    ) -> None:
        """Make weights of the scores of a part, unnormalised ones; what is asked of them is taken down."""
        plane = (0, 0) if self.limits is None else self.limits.plane(block.batch, block.head)
        function = kernel.regard_rows()
        assert function is not None
        function(
            byref(self.call),
            len(block.queries),
            len(block.keys),
            width,
            part,
            block.batch * self.pattern.grid.heads + block.head,
            block.queries.start,
            block.keys.start,
            head.sink,
            None if self.limits is None else self.limits.starts[plane].data_ptr(),
            None if self.limits is None else self.limits.stops[plane].data_ptr(),
            numbers.data_ptr(),
        )


MEMORY = local()


def scratch(n: int) -> Float[Tensor, " at_least_n"]:
    """Memory for so many numbers or more, the same for every block that a thread goes through."""
    numbers: Tensor | None = getattr(MEMORY, "numbers", None)
    if numbers is None or numbers.numel() < n:
        MEMORY.numbers = numbers = torch.empty(n, dtype=torch.float32, device=HERE)
    return numbers
