"""The context and the log-sum-exp from PyTorch's own kernels, for calls that these kernels support.

If no statistic of the queries is asked for, PyTorch's kernels do all that the pass over the queries would do, and
faster. They are not public functions of PyTorch, so each is tried on a small call of the same kind before it is first
trusted: whether it exists, and whether its log-sum-exp has the shape, the type and the base that is expected here.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.masks.causal import Causal

Kernel = Callable[[Tensor, Tensor, Tensor, bool, float], tuple[Tensor, Tensor]]
"""A function from query, key, value, whether the mask is causal, and scale to context and natural log-sum-exp."""


def context_and_log_sum(
    call: Call,
) -> tuple[Float[Tensor, "batch heads queries d_value"], Float[Tensor, "batch heads queries"]] | None:
    """Return the context, and the log-sum-exp in base 2, or None if no kernel of PyTorch computes both for a call."""
    formula, grid = call.softmax, call.grid
    plain = formula.softcap is None and formula.bias is None and formula.sinks is None
    square = isinstance(call.mask, Causal) and call.mask.is_lower_triangle(grid) and grid.queries == grid.keys
    d_key, d_value = call.key.shape[-1], call.value.shape[-1]
    if not plain or not (call.mask is None or square) or d_key != d_value or d_key % 8:
        return None
    scale = formula.scale / formula.temperature
    if scale <= 0:  # masked keys have score -∞ before the scale is applied
        return None
    query, key, value = (part.expand(grid.batch, -1, -1, -1) for part in (call.query, call.key, call.value))
    for kernel in KERNELS[call.device.type]:
        kind = call.device, call.value.dtype, grid.heads // call.key.shape[1], d_key, square
        if trusted(kernel, *kind):
            context, log_sum = kernel(query, key, value, square, scale)
            return context, (log_sum.reshape(grid.shape[:3]) * math.log2(math.e)).contiguous()
    return None


def cudnn(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Return context and log-sum-exp by cuDNN, the fastest on Hopper and later."""
    run = torch.ops.aten._scaled_dot_product_cudnn_attention
    context, log_sum, *_ = run(query, key, value, None, True, 0.0, causal, False, scale=scale)
    return context, log_sum


def flash(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Return context and log-sum-exp by FlashAttention."""
    run = torch.ops.aten._scaled_dot_product_flash_attention
    context, log_sum, *_ = run(query, key, value, 0.0, causal, False, scale=scale)
    return context, log_sum


def flash_for_cpu(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Return context and log-sum-exp on a CPU, for Triton's interpreter."""
    run = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return run(query, key, value, 0.0, causal, scale=scale)


KERNELS: dict[str, tuple[Kernel, ...]] = {"cuda": (cudnn, flash), "cpu": (flash_for_cpu,)}


@cache
def trusted(
    kernel: Kernel, device: torch.device, dtype: torch.dtype, group: int, width: int, causal: bool, tokens: int = 137
) -> bool:
    """Return whether a kernel supports a kind of call and computes what the formula says."""
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
