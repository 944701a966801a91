"""attend beside F.scaled_dot_product_attention: what the pattern's being there costs, and what a mask as a rule saves.

    make benchmark                                    lengths 512 to 4,096
    python benchmarks/attend.py --length 8192 --heads 4 --width 128 --runs 20

The two take turns in one process, in a random order; the table gives the median time of each and their ratio, and in
brackets the least and the largest ratio of ten groups of runs. Times mean something only on an idle machine.
"""

import platform
import random
import statistics
import time
from collections.abc import Callable
from typing import Annotated

import torch
import torch.nn.functional as F
import typer

from regard import Causal, Padding, Window, attend

GROUPS = 10


def main(
    length: Annotated[list[int] | None, typer.Option(help="Queries and keys; may be given several times.")] = None,
    heads: int = 8,
    width: int = 64,
    runs: Annotated[int, typer.Option(help="Runs of each, at least ten.")] = 40,
) -> None:
    """Time attend and F.scaled_dot_product_attention side by side."""
    torch.set_grad_enabled(False)
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.processor() or platform.machine()}, "
    )
    print(f"CPU capability {torch.backends.cpu.get_cpu_capability()}, float32, 1 x {heads} heads x width {width}\n")
    print("| length | mask | SDPA ms | attend ms | attend / SDPA |\n|---|---|---|---|---|")
    for n_tokens in length or [512, 1024, 2048, 4096]:
        for mask, theirs, ours in calls(n_tokens, heads, width):
            sdpa, regard = interleaved(theirs, ours, runs)
            ratios = [
                statistics.median(b) / statistics.median(a) for a, b in zip(groups(sdpa), groups(regard), strict=True)
            ]
            row = [
                f"{n_tokens}",
                mask,
                f"{statistics.median(sdpa) * 1e3:.2f}",
                f"{statistics.median(regard) * 1e3:.2f}",
            ]
            ratio = statistics.median(regard) / statistics.median(sdpa)
            print(f"| {' | '.join(row)} | {ratio:.3f} [{min(ratios):.3f} to {max(ratios):.3f}] |", flush=True)


def calls(n_tokens: int, heads: int, width: int) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """The same attention in both ways, for each mask; SDPA gets its mask as a matrix made beforehand."""
    query, key, value = torch.randn(3, 1, heads, n_tokens, width).unbind()
    kept = torch.tensor([n_tokens * 3 // 4])
    padding = (torch.arange(n_tokens) < kept[:, None])[:, None, None]
    window = torch.ones(n_tokens, n_tokens).bool().tril().triu(-256)

    def sdpa(**how: object) -> Callable[[], object]:
        return lambda: F.scaled_dot_product_attention(query, key, value, **how)  # type: ignore[arg-type]

    return [
        ("none", sdpa(), lambda: attend(query, key, value)),
        ("causal", sdpa(is_causal=True), lambda: attend(query, key, value, mask=Causal())),
        ("padding", sdpa(attn_mask=padding), lambda: attend(query, key, value, mask=Padding(kept))),
        (
            "causal window of 256",
            sdpa(attn_mask=window),
            lambda: attend(query, key, value, mask=Causal() & Window(before=256, after=0)),
        ),
    ]


def interleaved(one: Callable[[], object], other: Callable[[], object], runs: int) -> tuple[list[float], list[float]]:
    """The seconds of each run of two functions that take turns in random order."""
    elapsed_seconds: dict[Callable[[], object], list[float]] = {one: [], other: []}
    one(), other()
    for _ in range(max(GROUPS, runs)):
        for function in random.sample([one, other], k=2):
            start = time.perf_counter()
            function()
            elapsed_seconds[function].append(time.perf_counter() - start)
    return elapsed_seconds[one], elapsed_seconds[other]


def groups(times: list[float]) -> list[list[float]]:
    """The runs in groups, in the order in which they ran."""
    return [times[len(times) * group // GROUPS : len(times) * (group + 1) // GROUPS] for group in range(GROUPS)]


if __name__ == "__main__":
    typer.run(main)
