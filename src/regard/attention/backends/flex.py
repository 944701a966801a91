"""The flex backend: FlexAttention, PyTorch's compiler of attention, which skips blocks that are masked entirely.

It needs a mask as a function of one query and one key index, and as a list of the blocks of 128 queries × 128 keys that
are not masked entirely. The list is made for 128 queries at a time, so that no queries × keys matrix is stored.
FlexAttention is compiled again for each combination of options and sizes, which takes seconds.

Source: Dong et al. 2024, "Flex Attention: a programming model for generating optimized attention kernels", section 3.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.attention.gradients import need_gradients
from regard.attention.grid.grid import Grid, spans
from regard.attention.masks import Mask
from regard.attention.masks.flex import mask_mod
from regard.attention.masks.mask import keep_of_tile

BLOCK = 128
"""The number of queries, and of keys, in one block; FlexAttention's default."""

MAX_PROGRAMS = 256
"""The most combinations of options and sizes for which FlexAttention is compiled; torch.compile's default is 8."""


def unsupported_reason(call: Call, dropout: float) -> str | None:
    formula = call.formula
    if formula is None:
        return f"FlexAttention normalises by softmax, not {type(call.normalise).__name__}"
    if formula.projection is not None or formula.other_score is not None:
        return f"the flex backend computes dot products, not {type(call.score).__name__}"
    if formula.bias is not None:
        return "the flex backend has no bias"
    if formula.sinks is not None:
        return "FlexAttention has no sinks"
    if formula.temperature == 0:
        return "FlexAttention divides by the temperature, which is 0"
    if dropout > 0:
        return "FlexAttention has no dropout"
    if call.query.dtype == torch.float64:
        return "FlexAttention has no float64"
    if call.device.type == "cpu" and need_gradients((call.query, call.key, call.value)):
        return "FlexAttention computes no gradients on a CPU"
    return None


def flex_context(call: Call, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    formula, grid = call.softmax_formula, call.grid
    query, key, value = (part.expand(grid.batch, -1, -1, -1) for part in (call.query, call.key, call.value))
    if grid.shape.numel() == 0:
        return query.new_zeros(*grid.shape[:3], value.shape[-1])
    score_mod = None
    if formula.softcap is not None:
        # softcap · tanh(score / softcap) / temperature, given score / temperature (see `scale` below)
        scaled_softcap = formula.softcap / formula.temperature
        score_mod = lambda score, b, h, i, j: scaled_softcap * torch.tanh(score / scaled_softcap)  # noqa: E731
    blocks = None if call.mask is None else block_mask(call.mask, grid, query.device)
    with torch._dynamo.config.patch(recompile_limit=MAX_PROGRAMS, accumulated_recompile_limit=MAX_PROGRAMS):
        return compiled_flex_attention()(
            query,
            key,
            value,
            score_mod=score_mod,
            block_mask=blocks,
            scale=formula.scale / formula.temperature,
            enable_gqa=key.shape[1] != query.shape[1],
        )


@cache
def compiled_flex_attention() -> Callable[..., Any]:
    """Return PyTorch's flex_attention, compiled; without compiling, it would store the whole matrix of weights."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, fullgraph=True, dynamic=False)


def block_mask(mask: Mask, grid: Grid, device: torch.device) -> Any:
    """Convert a mask to a `BlockMask`: a list of the partly masked blocks, and a list of the unmasked blocks."""
    from torch.nn.attention.flex_attention import BlockMask

    partial_blocks, full_blocks = [], []
    for queries in spans(grid.queries, BLOCK):
        keep = keep_of_tile(mask, grid.whole().part(queries=queries), device)
        keep = keep.expand(*keep.shape[:2], len(queries), grid.keys)
        padded = torch.nn.functional.pad(keep, (0, -grid.keys % BLOCK))
        by_block = rearrange(
            padded, "batch heads queries (blocks keys) -> batch heads blocks (queries keys)", keys=BLOCK
        )
        any_kept, all_kept = by_block.any(dim=-1), by_block.all(dim=-1)
        partial_blocks.append(any_kept & ~all_kept)
        full_blocks.append(all_kept)
    n_partial, partial = blocks_to_compute(torch.stack(partial_blocks, dim=2))
    n_full, full = blocks_to_compute(torch.stack(full_blocks, dim=2))
    return BlockMask.from_kv_blocks(
        n_partial,
        partial,
        n_full,
        full,
        BLOCK_SIZE=BLOCK,
        mask_mod=mask_mod(mask, grid, device),
        seq_lengths=(grid.queries, grid.keys),
    )


def blocks_to_compute(
    wanted: Bool[Tensor, "batch heads query_blocks key_blocks"],
) -> tuple[Int[Tensor, "batch heads query_blocks"], Int[Tensor, "batch heads query_blocks key_blocks"]]:
    """Count the `wanted` key blocks of each query block, and sort the indices of its key blocks: wanted ones first."""
    order = wanted.int().argsort(dim=-1, descending=True, stable=True)
    return wanted.sum(dim=-1, dtype=torch.int32), order.int()
