"""Check regard's GPU kernels against float64, time them beside attention alone, and run them over a million tokens."""

import sys
from collections.abc import Iterator, Mapping
from itertools import product
from statistics import median
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from machine import machine
from measure import Run, ratio, seconds_of, take_turns
from options import Heads, Length, Out, Quick, Seconds, Width
from picture import Picture
from table import Row, Table, command_of, publish, with_progress
from torch import Tensor

from regard import Alibi, Ask, Causal, Documents, Global, Padding, RelativeBias, ScaledDot, Softmax, Window, attend
from regard.attention.ask import Summary
from regard.attention.statistics.gpu import engine
from regard.attention.statistics.gpu.pytorch_forward import KERNELS, trusted
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of

LENGTHS = 2048, 8192, 32768, 131072
WIDTHS = 64, 128
CELLS = 64
ASK = Ask(received=True, entropy=True, distance=False, first=False, pooled=(CELLS, CELLS))
COLUMNS = Ask(received=True, entropy=False, distance=False, first=False, pooled=(CELLS, CELLS))
STATISTICS = "received", "entropy", "distance", "first", "own", "previous", "pooled"

Long = Annotated[int, typer.Option(help="Tokens of the long run; 0 = none.", min=0)]


def main(
    length: Length = None,
    width: Width = None,
    heads: Heads = 16,
    long: Long = 2**20,
    seconds: Seconds = 5,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Check the GPU's kernels, and time them against attention alone.

    \b
    Examples
      python benchmarks/gpu.py
      python benchmarks/gpu.py --length 32768 --width 128 --long 0
    """
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py measures a GPU, and PyTorch sees none here; run it where there is one.")
    if quick:
        length, width, seconds, long = length or [512, 1024], width or [64], min(seconds, 0.2), min(long, 2**14)
    torch.set_grad_enabled(False)
    for name, worst in check_kernels():
        print(f"{name:30} {worst}", flush=True)
    cases = list(product(width or WIDTHS, (False, True), length or LENGTHS))
    rows = [measured(n, w, causal, heads, seconds) for w, causal, n in with_progress(cases, "gpu")]
    facts = machine("triton") | {"kernels with a log-sum-exp": trusted_kernels()}
    if long:
        facts |= long_run(long)
    table = Table(
        name="gpu",
        title="Attention with its statistics, on a GPU",
        about=(
            f"bfloat16, 1 x {heads} heads. The statistics are the received attention, the entropy and a {CELLS} x "
            f"{CELLS} map of each head, all exact. before: `attend` computes them together with the context; after: "
            "they are computed from the pattern after the call; columns: the statistics without the entropy, together "
            "with the context. They need the log-sum-exp of the forward pass, so they compute each weight once more, "
            "which is one of the forward pass's two matrix products: below 1.5 only a faster product would help. Each "
            "call takes 2 to 3 ms on the CPU, however short the text is."
        ),
        command=command_of(__file__),
        machine=facts,
        rows=rows,
        picture=Picture(
            x="length", y=["before / SDPA", "after / SDPA"], each=["width", "mask"], label="times SDPA's forward"
        ),
    )
    publish(table, out, quick)


def attend_calls() -> Mapping[str, Mapping[str, Any]]:
    """Return the keyword arguments of test calls; their masks hide blocks wholly, partly or not at all."""
    bias = RelativeBias(8).cuda()
    torch.nn.init.normal_(bias.by_bucket)
    documents = Documents(torch.arange(1201, device="cuda") // 177)
    return {
        "full": {},
        "causal": {"mask": Causal()},
        "blind rows": {"mask": Causal(-150)},
        "window and global": {"mask": Window(130, 7) | Global([0, 700])},
        "documents": {"mask": Causal() & documents},
        "padding": {"mask": Padding(torch.tensor([1100, 0], device="cuda"))},
        "alibi": {"score": ScaledDot(bias=Alibi()), "mask": Causal()},
        "relative, capped": {"score": ScaledDot(softcap=3.0, bias=bias)},
        "sinks": {"normalise": Softmax(temperature=1.3, sinks=torch.randn(8, device="cuda"))},
    }


def check_kernels() -> Iterator[tuple[str, str]]:
    """Yield each call with its largest error; exit if an error is too large."""
    ask, calls = Ask(own=True, previous=True, pooled=(11, 17)), attend_calls()
    cases = [(name, torch.bfloat16, 128) for name in calls]
    cases += product(["causal"], (torch.bfloat16, torch.float16, torch.float32), (64, 128))
    for name, dtype, width in dict.fromkeys(cases):
        call = calls[name]
        shapes = (2, 8, 1000, width), (2, 2, 1201, width), (2, 2, 1201, width)
        query, key, value = (torch.randn(shape, device="cuda").to(dtype) for shape in shapes)
        pattern = attend(query, key, value, **call).pattern
        reason = engine.unsupported_reason(pattern.call)
        if reason is not None:
            sys.exit(f"{name}: the GPU's kernels do not take this call: {reason}.")
        context, summary, _ = engine.context_and_statistics(pattern.call, ask, contexts=True)
        _, second_summary, _ = engine.context_and_statistics(pattern.call, ask, contexts=True)
        exact = attend(query.double(), key.double(), value.double(), **call).pattern
        exact_summary = gather_statistics(blocks_of(exact.call), exact.call.grid, exact.call.empty(), ask)
        errors = {part: difference(getattr(summary, part), getattr(exact_summary, part)) for part in STATISTICS}
        worst = max(errors, key=lambda part: errors[part])
        context_error = difference(context, exact.apply(exact.value))
        is_same = all(torch.equal(getattr(summary, part), getattr(second_summary, part)) for part in STATISTICS)
        eps = torch.finfo(dtype).eps
        # A bias is rounded to the input's type, which the computation in float64 does not know.
        tolerance = 2e-5 if "score" not in call else 2e-5 + eps
        if errors[worst] > tolerance or context_error > 2 * eps + 2e-5 or not is_same:
            measured_errors = f"{errors}, context {context_error:.1e}, the same twice: {is_same}"
            sys.exit(f"{name}, {dtype}, width {width}: wrong: {measured_errors}.")
        yield (
            f"{name}, {dtype}, {width}",
            f"{worst} {errors[worst]:.1e}, context {context_error:.1e}, the same bits twice",
        )


def difference(computed: Tensor | None, exact: Tensor | None) -> float:
    """Return the largest difference, relative to the largest number of `exact` if that is above 1."""
    assert computed is not None
    assert exact is not None
    return float((computed.double() - exact.double()).abs().max() / exact.double().abs().max().clamp_min(1))


def measured(length: int, width: int, causal: bool, heads: int, seconds: float) -> Row:
    query, key, value = torch.randn(3, 1, heads, length, width, device="cuda", dtype=torch.bfloat16).unbind()
    mask = Causal() if causal else None
    runs: dict[str, Run] = {
        "forward": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal),
        "before": lambda: attend(query, key, value, mask=mask, ask=ASK),
        "after": lambda: attend(query, key, value, mask=mask).pattern.answer(ASK),
        "columns": lambda: attend(query, key, value, mask=mask, ask=COLUMNS),
    }
    kernel = kernel_of(runs["forward"])
    elapsed = take_turns(runs, seconds)
    return {
        "length": length,
        "width": width,
        "mask": "causal" if causal else "full",
        "SDPA's kernel": kernel,
        **{f"{name} ms": median(elapsed[name]) * 1e3 for name in runs},
        **{f"{name} / SDPA": ratio(elapsed[name], elapsed["forward"]) for name in runs if name != "forward"},
    }


def kernel_of(run: Run) -> str:
    """Return the CUDA kernel in which a function spends most time."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    slowest = max(profile.key_averages(), key=lambda event: event.device_time_total, default=None)
    return "unknown" if slowest is None else slowest.key.replace("void ", "")[:32]


def trusted_kernels() -> str:
    """Return PyTorch's attention kernels that return the right log-sum-exp."""
    kind = torch.device("cuda"), torch.bfloat16, 1, 128, True
    return ", ".join(kernel.__name__ for kernel in KERNELS["cuda"] if trusted(kernel, *kind)) or "none"


def long_run(n_tokens: int) -> dict[str, str]:
    """Run attention and its statistics once over a long text, check some numbers, return times and memory as text."""
    heads, key_heads, width = 32, 8, 128
    query = torch.randn(1, heads, n_tokens, width, device="cuda", dtype=torch.bfloat16)
    key, value = torch.randn(2, 1, key_heads, n_tokens, width, device="cuda", dtype=torch.bfloat16).unbind()
    beginning = [part[:, :, :4096] for part in (query, key, value)]  # compiles the kernels, which serve any length
    attend(*beginning, mask=Causal()).pattern.answer(ASK)
    forward_seconds = seconds_of(lambda: attend(query, key, value, mask=Causal()))
    pattern = attend(query, key, value, mask=Causal()).pattern
    torch.cuda.reset_peak_memory_stats()
    n_bytes_before, answers = torch.cuda.memory_allocated(), list[Summary]()
    answer_seconds = seconds_of(lambda: answers.append(pattern.answer(ASK)))
    n_bytes = torch.cuda.max_memory_allocated() - n_bytes_before
    answer = answers[0]
    assert answer.received is not None
    assert answer.entropy is not None
    lost = float((answer.received.sum(dim=-1, dtype=torch.float64) / n_tokens - 1).abs().max())
    head, queries = 5, [1, n_tokens // 2, n_tokens - 1]
    entropy = torch.special.entr(pattern[0, head, queries].double()).sum(dim=-1)
    entropy_error = float((answer.entropy[0, head, queries].double() - entropy).abs().max())
    if lost > 1e-4 or entropy_error > 1e-4:
        sys.exit(f"{n_tokens:,} tokens: {lost:.1e} of the weight is lost, entropies are {entropy_error:.1e} off.")
    return {
        f"{n_tokens:,} tokens, {heads}/{key_heads} heads x {width}, causal": (
            f"forward {forward_seconds:.1f} s, answer {answer_seconds:.1f} s, {n_bytes / 2**20:,.0f} MiB above query, "
            f"key and value, weight lost {lost:.0e}, entropies {entropy_error:.0e} off"
        )
    }


if __name__ == "__main__":
    typer.run(main)
