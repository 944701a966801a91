"""Statistics on a CPU: a C kernel that computes softmax attention and all its statistics in one pass, on all cores.

The kernel, `kernels/attention.c`, computes one block of queries of one head after the other. For each block it reads
the keys that its queries may attend to, as many at a time as fit into the processor's cache:

    scores   = query · keyᵀ                 torch operations compute scores that are not dot products
    weights  = softmax(scores)              all statistics are computed while the weights are in the cache
    context += weights · value              if the context is to be computed

The results do not depend on the number of threads or processes that compute the blocks.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.grid.grid import spans
from regard.attention.progress import ProgressCallback
from regard.attention.statistics.cpu.arguments import arguments_of, write_vectors
from regard.attention.statistics.cpu.conversion import ConvertedHeads, converted_heads
from regard.attention.statistics.cpu.plan import OFFSET, WIDTH, Plan, tile_of
from regard.attention.statistics.cpu.results import CPU, Results
from regard.attention.statistics.cpu.scores import Write, torch_writer, write_mask
from regard.kernels import attention as kernel
from regard.kernels.library import c_function, check_arguments
from regard.kernels.threads import gnu_openmp_parallel, run_on_threads

WEIGHTS_PER_THREAD = 2**13
"""One more thread is used for each 2^13 weights; for fewer weights, starting a thread takes longer than it saves."""

SECONDS_AT_ONCE = 0.5
"""Seconds after which the C kernel returns, so that Python can report progress and handle Ctrl-C."""

COMPUTED_AT_ONCE = 2**22
"""How many scores or mask entries torch operations compute before the C kernel runs on them.

Each thread gets at least one block, so large blocks may exceed this number.
"""

PANEL = 64
"""The C kernel multiplies at most this many columns of a matrix at a time (PANEL in matrix.h).

It may therefore read up to this many numbers past the end of a tensor.
"""


def unsupported_reason(call: Call) -> str | None:
    if not call.query.is_cpu:
        return f"the kernel reads only tensors on a CPU, and the query is on {call.query.device}"
    if call.formula is None or call.formula.temperature == 0:
        return "the kernel computes only softmax with a temperature above 0"
    if call.query.dtype == torch.float64:
        return "the kernel computes only in float32, and the weights are float64"
    if c_function("regard_attention") is None:
        return "no C kernels were built when regard was installed"
    return None


def context_and_statistics(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary, bool]:
    results = compute(call, ask, contexts=contexts, report=report)
    context = None if results.context is None else results.context.to(call.value.dtype)
    return context, results.summary(), results.needs_check


def compute(
    call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None, share: slice | None = None
) -> Results:
    """Run the C kernel for a call, without gradients; `share` selects some of the blocks of the plan, None = all."""
    if torch.is_inference_mode_enabled():  # later, autograd could not use the results if they were made in it
        with torch.inference_mode(False), torch.no_grad():
            return compute(call, ask, contexts=contexts, report=report, share=share)
    plan = Plan.of(call.grid, call.mask)
    if share is not None:
        plan = plan.with_blocks(share)
    n_threads = min(torch.get_num_threads(), 1 + plan.n_weights // WEIGHTS_PER_THREAD)
    write_by_torch = torch_writer(call, plan)
    results = Results.of(call.grid, ask, call.value.shape[-1] if contexts else None)
    arguments = arguments_of(call, plan, results)
    arguments.seconds = SECONDS_AT_ONCE
    map_rows, map_columns = ask.pooled or (0, 0)
    scratch = torch.empty(0, dtype=torch.float32, device=CPU)
    for converted in converted_heads(call, plan.bounds, contexts):
        write_vectors(arguments, converted, results)
        # A thread's scratch memory holds a block's scores and sums, its rows of the pooled map, and PANEL columns of a
        # matrix: of the keys, transposed, or of the values. The kernel may read up to PANEL floats past the end.
        map_size = min(plan.max_queries, map_rows) * map_columns
        n_rows_of_panel = max(arguments.d_key, plan.max_width if arguments.n_weighted_sums else 0)
        panel_size = PANEL * n_rows_of_panel
        arguments.scratch_size = plan.max_scratch + map_size + panel_size + PANEL
        arguments.scratch = scratch.resize_(n_threads * arguments.scratch_size).data_ptr()
        if write_by_torch is None:
            bounds_of_runs: Iterable[Tensor] = [plan.bounds[converted.block_numbers]]
        else:
            bounds_of_runs = written_blocks(call, plan, converted, write_by_torch, arguments, n_threads)
        for bounds in bounds_of_runs:
            arguments.bounds, arguments.n_blocks, arguments.next = bounds.data_ptr(), bounds.shape[0], 0
            check_arguments("regard_attention", arguments)
            while arguments.next < arguments.n_blocks:
                arguments.threads = 0  # the C function numbers its threads, to divide the scratch memory
                run(arguments, n_threads)
                if report is not None:
                    report(arguments.done, plan.n_weights)
    results.needs_check = bool(arguments.doubtful)
    return results


def written_blocks(
    call: Call, plan: Plan, converted: ConvertedHeads, write: Write, arguments: kernel.Arguments, n_threads: int
) -> Iterator[Int[Tensor, "blocks 8"]]:
    """Write the scores of a few blocks into memory, yield the bounds of these blocks, and go on with the next blocks.

    Scores are written to `arguments.scores`, or masks to `arguments.computed_masks` if `write` is `write_mask`. The
    kernel must read them before the next step of the iterator, which overwrites them.
    """
    bounds = plan.bounds[converted.block_numbers].clone()
    dtype = torch.bool if write is write_mask else torch.float32
    wanted_at_once = max(n_threads, COMPUTED_AT_ONCE // max(1, plan.max_scratch))
    blocks_at_once = max(1, min(wanted_at_once, len(bounds)))
    # A block has at most max_scratch scores, and the kernel may read PANEL numbers after the last.
    computed = torch.empty(blocks_at_once * (plan.max_scratch + PANEL), dtype=dtype, device=CPU)
    if write is write_mask:
        arguments.computed_masks = computed.data_ptr()
    else:
        arguments.scores = computed.data_ptr()
    for span in spans(len(bounds), blocks_at_once):
        bounds_of_span = bounds[span.start : span.stop]
        offset = 0
        for block_bounds in bounds_of_span:
            block_bounds[OFFSET] = offset
            tile = tile_of(call.grid, block_bounds)
            write(computed[offset:], call, tile, int(block_bounds[WIDTH]), plan.limits)
            offset += tile.shape.numel() + PANEL
        yield bounds_of_span


def run(arguments: kernel.Arguments, n_threads: int) -> None:
    """Run the C kernel on several threads, until all blocks are computed or `SECONDS_AT_ONCE` have passed."""
    function = c_function("regard_attention")
    assert function is not None
    if n_threads == 1 or gnu_openmp_parallel() is not None:  # OpenMP keeps its threads, a pool must start new ones
        run_on_threads(function, arguments, n_threads)
        return
    with ThreadPoolExecutor(n_threads - 1) as other_threads:
        for _ in range(n_threads - 1):
            other_threads.submit(function, byref(arguments))
        function(byref(arguments))
