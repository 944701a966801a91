"""The fast way on a CPU: softmax attention and everything that is asked of it in one pass, all cores busy.

For a block of queries of one head, over all keys that it can reach:

    scores   = query · keyᵀ                 one matrix product, masked where the mask may bar something
    weights  = softmax(scores)              with every statistic, in `rows.c`, while they are in the cache
    context  = weights · value              one matrix product, where the context is asked for

Blocks are shared out over threads, and over machines (`ranks.py`); the numbers do not depend on how.
"""

from contextlib import closing
from ctypes import byref
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.normalise.softmax import Softmax
from regard.attention.precision import as_typed
from regard.attention.statistics import compiled
from regard.attention.statistics.blocks import Block, Head, Limits, blocks_of, scores_into, with_heads
from regard.attention.statistics.progress import Report
from regard.attention.statistics.threads import in_order
from regard.attention.statistics.totals import Columns, Totals
from regard.attention.summary import Ask, Summary

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern


def why_not(asked: "Pattern") -> str | None:
    """Why a pattern cannot be gone through this way; None if it can."""
    if asked.query.device.type != "cpu":
        return "it runs on a CPU"
    if not isinstance(asked.normalise, Softmax) or asked.normalise.temperature == 0:
        return "it has softmax alone"
    if asked.dtype == torch.float64:
        return "it computes in float32"
    if compiled.regard_rows() is None:
        return "no C compiler was found"
    return None


def read(
    asked: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
    """The context, if it is wanted, and the summary of a pattern that `why_not` has nothing against."""
    totals = gone_through(asked, ask, contexts=contexts, report=report)
    context = None if totals.context is None else totals.context.to(asked.value.dtype)
    return context, totals.summary()


@torch.inference_mode(False)
@torch.no_grad()
def gone_through(
    asked: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None, share: slice = slice(None)
) -> Totals:
    """What a share of the blocks comes to, or all of them."""
    with as_typed(asked.device):
        reading = Reading.of(asked, ask, contexts)
        blocks = list(blocks_of(asked, reading.limits))[share]
        done, of = 0, sum(block.size for block in blocks)
        with closing(in_order(with_heads(asked, blocks, contexts), reading.read)) as results:
            for (block, _), columns in results:
                reading.totals.add(block, columns)
                done += block.size
                if report is not None:
                    report(done, of)
    return reading.totals


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One pass over a pattern: where its results go, and what the compiled function is told of all of its blocks."""

    asked: "Pattern"
    totals: Totals
    limits: Limits | None
    every: compiled.Block

    @classmethod
    def of(cls, asked: "Pattern", ask: Ask, contexts: bool) -> "Reading":
        """A pass that has not begun."""
        totals = Totals.of(asked.grid, ask, asked.value.shape[-1] if contexts else None)
        every = compiled.Block(
            inverse=totals.inverse.data_ptr(),
            top=ask.top or 0,
            top_weights=pointer(None if totals.top is None else totals.top.weights),
            top_keys=pointer(None if totals.top is None else totals.top.keys),
            cells=ask.pooled[1] if ask.pooled else 0,
            largest=ask.reduce == "max",
            cell_of_row=totals.cell_of_row.data_ptr(),
            start_of_cell=totals.start_of_cell.data_ptr(),
            offset=asked.grid.offset,
            **{name: part.data_ptr() for name, part in totals.rows.items()},
        )
        return cls(asked, totals, Limits.of(asked), every)

    @torch.no_grad()
    def read(self, work: tuple[Block, Head]) -> Columns:
        """Fill in the rows of a block, and give what it adds to the columns."""
        (block, head), totals, ask = work, self.totals, self.totals.ask
        n_rows, n_keys = len(block.queries), len(block.keys)
        if block.size == 0:
            return Columns(None, None)
        columns = Columns(
            torch.empty(n_keys) if ask.received else None,
            torch.empty(len(totals.lines(block.queries)), ask.pooled[1]) if ask.pooled else None,
        )
        numbers = scratch((n_rows + 1) * n_keys)
        scores, column = numbers[n_keys:].view(n_rows, n_keys), numbers[:n_keys]
        scores_into(scores, self.asked, block, head, self.limits)
        self.softmax(block, head, columns, scores, column)
        rows = slice(block.queries.start, block.queries.stop)
        keys = slice(block.keys.start, block.keys.stop)
        inverse = totals.inverse[block.batch, block.head, rows, None]
        if totals.groups is not None and ask.groups is not None:
            totals.groups[block.batch, block.head, rows] = scores @ ask.groups[:, keys].float().T * inverse
        if totals.context is not None and head.value is not None:
            torch.mm(scores, head.value[keys], out=totals.context[block.batch, block.head, rows]).mul_(inverse)
        return columns

    def softmax(self, block: Block, head: Head, columns: Columns, scores: Tensor, column: Tensor) -> None:
        """Let the compiled function make weights of a block's scores, and take down what is asked of them."""
        grid, query = self.asked.grid, block.queries.start
        call = compiled.Block.from_buffer_copy(self.every)
        call.scores, (call.rows, call.keys) = scores.data_ptr(), scores.shape
        call.at = (block.batch * grid.heads + block.head) * grid.queries + query
        call.query, call.first_key, call.sink = query, block.keys.start, head.sink
        if self.limits is not None:
            plane = self.limits.plane(block.batch, block.head)
            call.starts, call.stops = self.limits.starts[plane].data_ptr(), self.limits.stops[plane].data_ptr()
        call.received, call.pooled = pointer(columns.received), pointer(columns.pooled)
        call.column = column.data_ptr()
        function = compiled.regard_rows()
        assert function is not None
        function(byref(call))


MEMORY = local()


def scratch(n: int) -> Float[Tensor, " n"]:
    """Memory for so many numbers, the same for every block that a thread goes through."""
    if getattr(MEMORY, "numbers", None) is None or len(MEMORY.numbers) < n:
        MEMORY.numbers = torch.empty(n)
    return MEMORY.numbers[:n]


def pointer(tensor: Tensor | None) -> int | None:
    """Where a tensor's numbers lie; None for none."""
    return None if tensor is None else tensor.data_ptr()
