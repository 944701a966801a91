"""attend beside F.scaled_dot_product_attention: what the pattern's being there costs, what a mask as a rule saves."""

from itertools import product
from statistics import median

import torch
import torch.nn.functional as F
import typer
from machine import machine
from measure import Run, ratio, take_turns
from options import Heads, Length, Out, Quick, Seconds, Threads
from picture import Picture
from table import Row, Table, command_of, finish, watched
from torch import Tensor

from regard import Causal, Padding, Window, attend, explain_backend
from regard.attention.masks import Mask

LENGTHS = 512, 1024, 2048, 4096, 8192, 16384
MASKS = "none", "causal", "padding", "window"

BEFORE = 256
"""Keys before itself that a query of the window sees."""


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
    cases = list(product(length or LENGTHS, MASKS))
    table = Table(
        name="attend",
        title="attend beside scaled_dot_product_attention",
        about=(
            f"float32, 1 x {heads} heads x width {width}. PyTorch's function gets its mask as a matrix, made before "
            f"(causal: is_causal); attend gets the rule. The window is causal, {BEFORE} keys before each query; the "
            "padding is the last quarter. Goal: at most 1.02 times PyTorch's time."
        ),
        command=command_of(__file__),
        machine=machine(),
        rows=[measured(n, mask, heads, width, seconds) for n, mask in watched(cases, "attend")],
        picture=Picture(x="length", y=["attend / SDPA"], each=["mask"], label="attend / SDPA"),
    )
    finish(table, out, quick)


@torch.inference_mode()
def measured(length: int, mask: str, heads: int, width: int, seconds: float) -> Row:
    """The row of a length and a mask."""
    query, key, value = torch.randn(3, 1, heads, length, width).unbind()
    rule, matrix, causal = ruled(mask, length), as_matrix(mask, length), mask == "causal"
    runs: dict[str, Run] = {
        "sdpa": lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=matrix, is_causal=causal),
        "attend": lambda: attend(query, key, value, mask=rule),
    }
    elapsed = take_turns(runs, seconds)
    return {
        "length": length,
        "mask": mask,
        "backend": explain_backend(query, key, value, mask=rule).partition(":")[0],
        "SDPA ms": median(elapsed["sdpa"]) * 1e3,
        "attend ms": median(elapsed["attend"]) * 1e3,
        "attend / SDPA": ratio(elapsed["attend"], elapsed["sdpa"]),
    }


def ruled(mask: str, length: int) -> Mask | None:
    """A mask as a rule."""
    match mask:
        case "causal":
            return Causal()
        case "padding":
            return Padding(torch.tensor([length * 3 // 4]))
        case "window":
            return Causal() & Window(before=BEFORE, after=0)
    return None


def as_matrix(mask: str, length: int) -> Tensor | None:
    """The same as PyTorch takes it."""
    match mask:
        case "padding":
            return (torch.arange(length) < length * 3 // 4)[None, None, None]
        case "window":
            return torch.ones(length, length).bool().tril().triu(-BEFORE)
    return None


if __name__ == "__main__":
    typer.run(main)
