"""Time attention with sinks or a softcap, which PyTorch's fused kernels do not have."""

from itertools import product
from statistics import median
from types import SimpleNamespace

import torch
import torch.nn.functional as F
import typer
from machine import machine
from measure import Run, ratio, take_turns
from options import Heads, Length, Out, Quick, Seconds, Threads
from picture import Picture
from table import Row, Table, command_of, publish, with_progress
from torch import Tensor
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as with_softcap
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as with_sinks

from regard import Causal, ScaledDot, Softmax, attend

LENGTHS = 512, 1024, 2048, 4096, 8192
KINDS = "sinks", "softcap"
CAP = 50.0

MOST_BUILT = 2**29
"""The most weights for which transformers' eager attention is measured; it makes several copies."""


def main(
    length: Length = None,
    heads: Heads = 8,
    width: int = 64,
    seconds: Seconds = 6,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Time kinds of attention without a fused kernel, on an idle machine.

    \b
    Example
      python benchmarks/unfused.py --length 4096
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    if quick:
        length, seconds = length or [256, 512], min(seconds, 0.2)
    cases = list(product(KINDS, length or LENGTHS))
    table = Table(
        name="unfused",
        title="Sinks and softcaps",
        about=(
            f"float32, 1 x {heads} heads x width {width}, causal, forward pass only. SDPA: PyTorch's fused kernel, "
            "without sinks or softcap; transformers: the eager attention of gpt-oss (with sinks) and of Gemma 2 (with "
            "a softcap), whose mask is built beforehand. The context of `attend` is compared with that of transformers "
            "before anything is timed."
        ),
        command=command_of(__file__),
        machine=machine("transformers"),
        rows=[measured(n, kind, heads, width, seconds) for kind, n in with_progress(cases, "unfused")],
        picture=Picture(x="length", y=["attend / SDPA"], each=["kind"], label="attend / SDPA"),
    )
    publish(table, out, quick)


@torch.inference_mode()
def measured(length: int, kind: str, heads: int, width: int, seconds: float) -> Row:
    query, key, value = torch.randn(3, 1, heads, length, width).unbind()
    sinks = torch.randn(heads) if kind == "sinks" else None
    score = ScaledDot(softcap=CAP if kind == "softcap" else None)
    normalise = Softmax(sinks=sinks)
    runs: dict[str, Run] = {
        "sdpa": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True),
        "attend": lambda: attend(query, key, value, score=score, mask=Causal(), normalise=normalise).context,
    }
    has_eager = heads * length**2 <= MOST_BUILT
    if has_eager:
        mask = torch.full((1, 1, length, length), -torch.inf).triu(1)
        runs["transformers"] = lambda: eager(query, key, value, mask, sinks)
        torch.testing.assert_close(runs["attend"](), runs["transformers"](), rtol=1e-4, atol=1e-5)
    elapsed = take_turns(runs, seconds)
    return {
        "kind": kind,
        "length": length,
        "SDPA ms": median(elapsed["sdpa"]) * 1e3,
        "attend ms": median(elapsed["attend"]) * 1e3,
        "transformers ms": median(elapsed["transformers"]) * 1e3 if has_eager else None,
        "attend / SDPA": ratio(elapsed["attend"], elapsed["sdpa"]),
        "transformers / attend": ratio(elapsed["transformers"], elapsed["attend"]) if has_eager else None,
    }


def eager(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, sinks: Tensor | None) -> Tensor:
    """Return the context by transformers' eager attention, [batch heads tokens width]."""
    layer = SimpleNamespace(num_key_value_groups=1, training=False, sinks=sinks, head_dim=query.shape[-1])
    scale = query.shape[-1] ** -0.5
    if sinks is None:
        context = with_softcap(layer, query, key, value, mask, scaling=scale, softcap=CAP)[0]
    else:
        context = with_sinks(layer, query, key, value, mask, scaling=scale)[0]
    return context.transpose(1, 2)


if __name__ == "__main__":
    typer.run(main)
