"""The context and the log-sum-exp from PyTorch's own kernels, where they have both.

Where nothing is asked of single rows, the pass over the queries would do no more than they do, and they are faster.
They are not part of PyTorch's public functions, so each is tried on a small call of the same kind before it is first
trusted: whether it is there, and whether its log-sum-exp has the shape, the type and the base that is taken here.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks.causal import Causal
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

Kernel = Callable[[Tensor, Tensor, Tensor, bool, float], tuple[Tensor, Tensor]]
"""From query, key, value, whether it is causal, and the scale, to the context and the natural log-sum-exp."""


def context_and_log_sum(
    pattern: "Pattern",
) -> tuple[Float[Tensor, "batch heads queries d_value"], Float[Tensor, "batch heads queries"]] | None:
    """The context, and the log-sum-exp in base 2; None where no kernel of PyTorch's has both."""
    score, normalise, grid = pattern.score, pattern.normalise, pattern.grid
    assert isinstance(score, ScaledDot)
    assert isinstance(normalise, Softmax)
    plain = score.softcap is None and score.bias is None and normalise.sinks is None
    square = isinstance(pattern.mask, Causal) and pattern.mask.is_lower_triangle(grid) and grid.queries == grid.keys
    d_key, d_value = pattern.key.shape[-1], pattern.value.shape[-1]
    if not plain or not (pattern.mask is None or square) or d_key != d_value or d_key % 8:
        return None
    scale = score.factor(d_key) / normalise.temperature
    if scale <= 0:  # barred keys have score -∞ before it is applied
        return None
    query, key, value = (part.expand(grid.batch, -1, -1, -1) for part in (pattern.query, pattern.key, pattern.value))
    for kernel in KERNELS[pattern.device.type]:
        kind = pattern.device, pattern.value.dtype, grid.heads // pattern.key.shape[1], d_key, square
        if trusted(kernel, *kind):
            context, log_sum = kernel(query, key, value, square, scale)
            return context, (log_sum.reshape(grid.shape[:3]) * math.log2(math.e)).contiguous()
    return None


def cudnn(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """NVIDIA's, the fastest on Hopper and later."""
    run = torch.ops.aten._scaled_dot_product_cudnn_attention
    context, log_sum, *_ = run(query, key, value, None, True, 0.0, causal, False, scale=scale)
    return context, log_sum


def flash(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """FlashAttention."""
    run = torch.ops.aten._scaled_dot_product_flash_attention
    context, log_sum, *_ = run(query, key, value, 0.0, causal, False, scale=scale)
    return context, log_sum


def flash_for_cpu(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """The same on a CPU, where Triton is interpreted."""
    run = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return run(query, key, value, 0.0, causal, scale=scale)


KERNELS: dict[str, tuple[Kernel, ...]] = {"cuda": (cudnn, flash), "cpu": (flash_for_cpu,)}


@cache
def trusted(
    kernel: Kernel, device: torch.device, dtype: torch.dtype, group: int, width: int, causal: bool, tokens: int = 137
) -> bool:
    """Whether a kernel has a kind of call and gives what the formula gives."""
    random = torch.Generator().manual_seed(0)
    drawn = [torch.randn(2, heads, tokens, width, generator=random, device="cpu") for heads in (2 * group, 2, 2)]
    query, key, value = (part.to(device, dtype) for part in drawn)
    try:
        context, log_sum = kernel(query, key, value, causal, 0.3)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    wide_query, wide_key, wide_value = query.double(), *(p.double().repeat_interleave(group, 1) for p in (key, value))
    scores = wide_query @ wide_key.mT * 0.3
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -math.inf)
    expected = scores.logsumexp(dim=-1)
    if log_sum.dtype != torch.float32 or log_sum.numel() != expected.numel():
        return False
    exact = (log_sum.reshape(expected.shape).double() - expected).abs().max() < 1e-4
    near = (context.double() - scores.softmax(dim=-1) @ wide_value).abs().max() < 16 * torch.finfo(dtype).eps
    return bool(exact & near)
