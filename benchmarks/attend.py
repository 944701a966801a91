"""Time `attend` and F.scaled_dot_product_attention: the cost of the pattern, and the gain of masks given as rules."""

from itertools import product
from statistics import median

import torch
import torch.nn.functional as F
import typer
from machine import machine
from measure import Run, ratio, take_turns
from options import Heads, Length, Out, Quick, Seconds, Threads
from picture import Picture
from table import Row, Table, command_of, publish, with_progress
from torch import Tensor

from regard import Alibi, Causal, Padding, ScaledDot, Window, attend, explain_backend
from regard.attention.masks import Mask
from regard.attention.scores.biases.alibi import alibi_slopes

LENGTHS = 512, 1024, 2048, 4096, 8192, 16384
MASKS = "none", "causal", "padding", "window", "ALiBi"

BEFORE = 256
"""The number of keys before its own position to which a query attends under the window mask."""

MOST_BUILT = 2**30
"""The most elements of a bias tensor for PyTorch's function: with its copies it fits into 24 GiB."""


def main(
    length: Length = None,
    heads: Heads = 8,
    width: int = 64,
    seconds: Seconds = 20,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Time attend and PyTorch's own attention side by side, on an idle machine.

    \b
    Example
      python benchmarks/attend.py --length 8192 --heads 4 --width 128
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    if quick:
        length, seconds = length or [256, 512], min(seconds, 0.2)
    cases = [(n, m) for n, m in product(length or LENGTHS, MASKS) if m != "ALiBi" or heads * n**2 <= MOST_BUILT]
    table = Table(
        name="attend",
        title="attend beside scaled_dot_product_attention",
        about=(
            f"float32, 1 x {heads} heads x width {width}. attend / SDPA is the time of `attend` divided by that of "
            "F.scaled_dot_product_attention (SDPA). SDPA gets a mask or bias as a matrix that is built beforehand, but "
            "a causal mask as is_causal=True; `attend` gets the rule, such as `Window`. The window is causal, with "
            f"{BEFORE} keys before each query; the padding is the last quarter of the keys; ALiBi's biases are causal. "
            "Goal: at most 1.02 times SDPA's time."
        ),
        command=command_of(__file__),
        machine=machine(),
        rows=[measured(n, mask, heads, width, seconds) for n, mask in with_progress(cases, "attend")],
        picture=Picture(x="length", y=["attend / SDPA"], each=["mask"], label="attend / SDPA"),
    )
    publish(table, out, quick)


@torch.inference_mode()
def measured(length: int, mask: str, heads: int, width: int, seconds: float) -> Row:
    query, key, value = torch.randn(3, 1, heads, length, width).unbind()
    rule, matrix, causal = mask_rule(mask, length), mask_matrix(mask, length, heads), mask == "causal"
    score = ScaledDot(bias=Alibi() if mask == "ALiBi" else None)
    runs: dict[str, Run] = {
        "sdpa": lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=matrix, is_causal=causal),
        "attend": lambda: attend(query, key, value, score=score, mask=rule).context,
    }
    torch.testing.assert_close(runs["attend"](), runs["sdpa"](), rtol=1e-4, atol=1e-5)
    elapsed = take_turns(runs, seconds)
    return {
        "length": length,
        "mask": mask,
        "backend": explain_backend(query, key, value, score=score, mask=rule).partition(":")[0],
        "SDPA ms": median(elapsed["sdpa"]) * 1e3,
        "attend ms": median(elapsed["attend"]) * 1e3,
        "attend / SDPA": ratio(elapsed["attend"], elapsed["sdpa"]),
    }


def mask_rule(mask: str, length: int) -> Mask | None:
    match mask:
        case "causal" | "ALiBi":
            return Causal()
        case "padding":
            return Padding(torch.tensor([length * 3 // 4]))
        case "window":
            return Causal() & Window(before=BEFORE, after=0)
    return None


def mask_matrix(mask: str, length: int, heads: int) -> Tensor | None:
    """Return the mask as a tensor for PyTorch's function, or ALiBi's bias; None = not needed."""
    match mask:
        case "padding":
            return (torch.arange(length) < length * 3 // 4)[None, None, None]
        case "window":
            return torch.ones(length, length).bool().tril().triu(-BEFORE)
        case "ALiBi":
            keys, queries = torch.arange(length), torch.arange(length)[:, None]
            bias = -alibi_slopes(heads).float()[:, None, None] * (keys - queries).abs()
            return bias.masked_fill_(keys > queries, -torch.inf)[None]
    return None


if __name__ == "__main__":
    typer.run(main)
