"""One run of the C kernel over all blocks of queries: its arguments, its threads, and the results that it writes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import Ask
from regard.attention.call import Call
from regard.attention.grid.grid import spans
from regard.attention.progress import ProgressCallback
from regard.attention.statistics.cpu.conversion import Part
from regard.attention.statistics.cpu.plan import HeadBlock, Plan
from regard.attention.statistics.cpu.results import CPU, Results
from regard.attention.statistics.cpu.scores import KernelScores, write_mask, write_scores
from regard.kernels import attention as kernel
from regard.kernels.attention import Vectors
from regard.kernels.library import check_arguments
from regard.kernels.threads import gnu_openmp_parallel, run_on_threads

WEIGHTS_PER_THREAD = 2**18
"""One more thread is started for each 2^18 weights; for fewer weights, starting one takes longer than it saves."""

SECONDS_AT_ONCE = 0.5
"""Seconds after which the C kernel returns, so that Python can report progress and handle Ctrl-C."""

COMPUTED_AT_ONCE = 2**22
"""How many scores or mask entries torch operations compute before the C kernel runs on them.

Each thread gets at least one block, so large blocks may exceed this number.
"""

PANEL = 64
"""The largest number of columns of a matrix that the C kernel multiplies at once (PANEL in matrix.h).

The kernel may read up to this many numbers past the end of a tensor.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The computation of one call of `attend` by the C kernel.

    Attributes:
        scores: the parameters with which the kernel computes scores; None = torch operations compute the scores.
        groups: `Ask.groups` in float32: 1 if the key is in the group, else 0.
        kept: tensors whose addresses are in `arguments`; stored here so that their memory is not freed.
    """

    call: Call
    plan: Plan
    results: Results
    scores: KernelScores | None
    groups: Float[Tensor, "1 1 keys groups"] | None
    threads: int
    arguments: kernel.Arguments
    kept: tuple[Tensor | None, ...]

    @classmethod
    def of(cls, call: Call, ask: Ask, plan: Plan, contexts: bool) -> "Run":
        """Allocate the results (the context only if `contexts`), and fill in the C struct of the kernel's arguments.

        The method `compute_part` adds the queries, keys and values.
        """
        grid, formula, limits = call.grid, call.softmax, plan.limits
        results = Results.of(grid, ask, call.value.shape[-1] if contexts else None)
        groups = None if ask.groups is None else ask.groups.T.float().contiguous()[None, None]
        sinks = None if formula.sinks is None else formula.sinks.float() / formula.temperature
        threads = min(torch.get_num_threads(), 1 + plan.size // WEIGHTS_PER_THREAD)
        lock = torch.zeros(1, dtype=torch.int8, device=CPU)
        arguments = kernel.Arguments(
            statistics=statistics_of(results, lock),
            batch=grid.batch,
            heads=grid.heads,
            group=grid.heads // call.key.shape[1],
            sinks=None if sinks is None else sinks.data_ptr(),
            seconds=SECONDS_AT_ONCE,
        )
        if limits is not None:
            arguments.starts, arguments.stops = limits.starts.data_ptr(), limits.stops.data_ptr()
            arguments.limits_batch, arguments.limits_head = kernel.strides(limits.starts)
        scores = KernelScores.of(call, limits)
        if scores is not None:
            scores.write_to(arguments)
        return cls(call, plan, results, scores, groups, threads, arguments, (sinks, lock))

    def compute_part(self, part: Part, report: ProgressCallback) -> None:
        """Run the C kernel on the blocks in `part`; it writes their statistics and contexts into `self.results`."""
        arguments, plan = self.arguments, self.plan
        map_rows, map_columns = self.results.ask.pooled or (0, 0)
        arguments.query = Vectors.of(part.query, part.batch, part.head)
        arguments.key = Vectors.of(part.key, part.batch, part.key_head)
        arguments.d_key = d_key = part.key.shape[-1]
        sums = list(self.weighted_sums(part))
        arguments.weighted_sums, arguments.n_weighted_sums = (kernel.WeightedSum * 2)(*sums), len(sums)
        panel = PANEL * max(d_key, plan.width if sums else 0)
        size = plan.n_scratch + min(plan.rows, map_rows) * map_columns + panel + PANEL
        scratch = torch.empty(self.threads * size, dtype=torch.float32, device=CPU)
        arguments.scratch, arguments.scratch_size = scratch.data_ptr(), size
        for bounds in self.bounds_of(part):
            arguments.bounds, arguments.n_blocks, arguments.next = bounds.data_ptr(), len(bounds), 0
            check_arguments("regard_attention", arguments)
            while arguments.next < arguments.n_blocks:
                arguments.threads = 0
                self.run_threads()
                report(arguments.done, plan.size)

    def weighted_sums(self, part: Part) -> Iterator[kernel.WeightedSum]:
        """Yield the weighted sums Σ weight · vector over keys that the C kernel computes for each query.

        For the context, the vectors are the values. For the weights on groups of keys, they are the rows of
        `self.groups`.
        """
        if part.value is not None and self.results.context is not None:
            values = Vectors.of(part.value, part.batch, part.key_head)
            yield kernel.WeightedSum(values, Vectors.of(self.results.context), part.value.shape[-1])
        if self.groups is not None and self.results.groups is not None:
            yield kernel.WeightedSum(Vectors.of(self.groups), Vectors.of(self.results.groups), self.groups.shape[-1])

    def bounds_of(self, part: Part) -> Iterator[Int[Tensor, "blocks 8"]]:
        """Yield the bounds (fields of the C struct `BlockBounds`) of the blocks in `part`, some blocks at a time.

        Before some blocks are yielded, torch operations compute their scores or masks, if the kernel cannot: about
        `COMPUTED_AT_ONCE` numbers. If the kernel can, the bounds of all blocks are yielded at once.
        """
        bounds, blocks, scores = self.plan.bounds[part.numbers], self.plan.blocks[part.numbers], self.scores
        if scores is not None and not scores.computes_masks:
            yield bounds
            return
        bounds, dtype = bounds.clone(), torch.float32 if scores is None else torch.bool
        at_once = max(1, min(len(blocks), max(self.threads, COMPUTED_AT_ONCE // max(1, self.plan.n_scratch))))
        computed = torch.empty(at_once * (self.plan.n_scratch + PANEL), dtype=dtype, device=CPU)
        if scores is None:
            self.arguments.scores = computed.data_ptr()
        else:
            self.arguments.computed_masks = computed.data_ptr()
        for numbers in spans(len(blocks), at_once):
            offset = 0
            for number in numbers:
                bounds[number, -1] = offset
                self.write_block(blocks[number], computed[offset:])
                offset += blocks[number].size + PANEL
            yield bounds[numbers.start : numbers.stop]

    def write_block(self, block: HeadBlock, computed: Tensor) -> None:
        """Compute the mask or the scores of a block by torch operations, and write them into the tensor `computed`.

        If the C kernel computes the scores, only the mask is computed here. Otherwise the scores are computed here, one
        range of keys after another.
        """
        if self.scores is not None:
            write_mask(computed[: block.size], self.call, block)
            return
        for part in block.parts():
            write_scores(computed[: part.size], self.call, part, self.plan.limits)
            computed = computed[part.size :]

    def run_threads(self) -> None:
        """Run the C kernel on all threads, until all blocks are computed or `SECONDS_AT_ONCE` have passed."""
        function = kernel.attention_function()
        assert function is not None
        if self.threads == 1 or gnu_openmp_parallel() is not None:
            run_on_threads(function, self.arguments, self.threads)
            return
        with ThreadPoolExecutor(self.threads - 1) as others:
            for _ in range(self.threads - 1):
                others.submit(function, byref(self.arguments))
            function(byref(self.arguments))


def statistics_of(results: Results, lock: Int[Tensor, " 1"]) -> kernel.Statistics:
    """Return the C struct of the addresses to which the C kernel writes the statistics; an address of 0 = not computed.

    Args:
        lock: one byte for a lock, which a thread holds while it adds to the sums shared by all threads.
    """
    grid, top = results.grid, results.top
    map_rows, map_columns = results.ask.pooled or (0, 0)
    statistics = kernel.Statistics(
        queries=grid.queries,
        keys_of_head=grid.keys,
        offset=grid.offset,
        inverse=results.inverse.data_ptr(),
        top=results.ask.top or 0,
        top_weights=None if top is None else top.weights.data_ptr(),
        top_keys=None if top is None else top.keys.data_ptr(),
        map_rows=map_rows,
        map_columns=map_columns,
        reduce_max=results.ask.reduce == "max",
        map_row_of_query=results.cells.row_of_query.data_ptr(),
        first_key_of_column=results.cells.first_key_of_column.data_ptr(),
        lock=lock.data_ptr(),
    )
    for name, row in results.rows.items():
        setattr(statistics, name, row.data_ptr())
    for name, total in (("received", results.received), ("pooled", results.pooled)):
        if total is not None:
            setattr(statistics, name, kernel.CompensatedSum(total.rounded.data_ptr(), total.error.data_ptr()))
    return statistics
