"""The context and the log-sum-exp from kernels of PyTorch, which are faster than `triton_forward.py`.

The kernels are private functions of PyTorch, which may change. Each kernel is therefore first run on a small input with
the same options, and is used only if its context and log-sum-exp are correct.
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
"""A function (query, key, value, is_causal, scale) -> (context, natural logarithm of the sum of exponentials)."""


def context_and_log_sum(
    call: Call,
) -> tuple[Float[Tensor, "batch heads queries d_value"], Float[Tensor, "batch heads queries"]] | None:
    """Return the context of a call and, for each query, log₂ Σ exp(score), summed over the query's keys.

    Return None if no kernel of PyTorch computes both for this call.
    """
    formula, grid = call.softmax_formula, call.grid
    is_plain_softmax = formula.softcap is None and formula.bias is None and formula.sinks is None
    is_causal = isinstance(call.mask, Causal) and call.mask.is_lower_triangle(grid) and grid.queries == grid.keys
    d_key, d_value = call.key.shape[-1], call.value.shape[-1]
    if not is_plain_softmax or not (call.mask is None or is_causal) or d_key != d_value or d_key % 8:
        return None
    scale = formula.scale / formula.temperature
    # For masked keys, PyTorch's kernels multiply -∞ by the scale: the score would be +∞ if scale < 0, and NaN if 0.
    if scale <= 0:
        return None
    query, key, value = (part.expand(grid.batch, -1, -1, -1) for part in (call.query, call.key, call.value))
    for kernel in KERNELS[call.device.type]:
        options = call.device, call.value.dtype, grid.heads // call.key.shape[1], d_key, is_causal
        if trusted(kernel, *options):
            context, log_sum = kernel(query, key, value, is_causal, scale)
            log_sum = (log_sum.reshape(grid.shape[:3]) * math.log2(math.e)).contiguous()
            # If a score is ∞, log_sum is ∞. It becomes NaN, so that the Triton kernels compute weights of NaN from it.
            return context, log_sum.masked_fill(log_sum == math.inf, math.nan)
    return None


def cudnn(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Run cuDNN's attention kernel, the fastest on Hopper and later GPUs."""
    run = torch.ops.aten._scaled_dot_product_cudnn_attention
    context, log_sum, *_ = run(
        query, key, value, attn_bias=None, compute_log_sumexp=True, is_causal=causal, scale=scale
    )
    return context, log_sum


def flash(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    run = torch.ops.aten._scaled_dot_product_flash_attention
    context, log_sum, *_ = run(query, key, value, is_causal=causal, scale=scale)
    return context, log_sum


def flash_for_cpu(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Return the context and the log-sum-exp from PyTorch's kernel for CPUs; only tests without a GPU call it."""
    run = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return run(query, key, value, is_causal=causal, scale=scale)


KERNELS: dict[str, tuple[Kernel, ...]] = {"cuda": (cudnn, flash), "cpu": (flash_for_cpu,)}


@cache
def trusted(
    kernel: Kernel, device: torch.device, dtype: torch.dtype, group: int, width: int, causal: bool, tokens: int = 137
) -> bool:
    """Return whether a kernel is correct for a small random input with these options.

    Args:
        group: the number of query heads for each key head.
        width: the number of entries of each query, key and value.
        tokens: the number of queries and keys in the random input.
    """
    generator, batch, key_heads, scale = torch.Generator().manual_seed(0), 2, 2, 0.3
    query, key, value = (
        torch.randn(batch, heads, tokens, width, generator=generator, device="cpu").to(device, dtype)
        for heads in (key_heads * group, key_heads, key_heads)
    )
    try:
        context, log_sum = kernel(query, key, value, causal, scale)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    wide_key, wide_value = (vectors.double().repeat_interleave(group, dim=1) for vectors in (key, value))
    scores = query.double() @ wide_key.mT * scale
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -math.inf)
    expected = scores.logsumexp(dim=-1)
    if log_sum.dtype != torch.float32 or log_sum.numel() != expected.numel():
        return False
    log_sum_error = (log_sum.reshape(expected.shape).double() - expected).abs().max()
    context_error = (context.double() - scores.softmax(dim=-1) @ wide_value).abs().max()
    return bool((log_sum_error < 1e-4) & (context_error < 16 * torch.finfo(dtype).eps))
