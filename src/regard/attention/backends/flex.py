"""The flex backend: FlexAttention, PyTorch's compiler of attention, which leaves out the blocks that a mask bars.

A mask is handed over twice: as a rule for a single place, and as the list of 128 × 128 blocks in which it keeps
anything at all, found block by block so that no queries × keys matrix exists. What is compiled fits one kind and size
of call; the first takes seconds, and the next of the same kind none. That is why it is chosen by name alone.

Source: Dong et al. 2024, "Flex Attention: a programming model for generating optimized attention kernels", section 3.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.gradients import need_gradients
from regard.attention.grid.grid import Grid, spans
from regard.attention.masks import Mask
from regard.attention.masks.flex import mask_mod
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot

BLOCK = 128
"""Queries and keys in a block that is computed or left out as one; FlexAttention's own default."""

KINDS = 256
"""How many kinds and sizes of call may be compiled side by side; PyTorch's own limit of 8 would stop at the ninth."""


def why_not(pattern: Pattern, dropout: float) -> str | None:
    """Why FlexAttention cannot do a call; None if it can."""
    score, normalise, query = pattern.score, pattern.normalise, pattern.query
    tensors = (pattern.query, pattern.key, pattern.value)
    if not isinstance(score, ScaledDot):
        return f"FlexAttention is given dot products here, not {type(score).__name__}"
    if score.bias is not None:
        return "FlexAttention is given no bias here"
    if not isinstance(normalise, Softmax):
        return f"FlexAttention normalises by softmax, not {type(normalise).__name__}"
    if normalise.sinks is not None:
        return "FlexAttention has no sinks"
    if normalise.temperature == 0:
        return "FlexAttention divides by the temperature, which is 0"
    if dropout > 0:
        return "FlexAttention has no dropout"
    if query.dtype == torch.float64:
        return "FlexAttention has no float64"
    if query.device.type == "cpu" and need_gradients(tensors):
        return "FlexAttention gives no gradients on a CPU"
    return None


def flex(pattern: Pattern, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """The context of a call that `why_not` has nothing against."""
    score, normalise, grid = pattern.score, pattern.normalise, pattern.grid
    assert isinstance(score, ScaledDot)
    assert isinstance(normalise, Softmax)
    query, key, value = (part.expand(grid.batch, -1, -1, -1) for part in (pattern.query, pattern.key, pattern.value))
    if grid.shape.numel() == 0:
        return query.new_zeros(*grid.shape[:3], value.shape[-1])
    scale = score.factor(query.shape[-1]) / normalise.temperature
    softcap = None if score.softcap is None else score.softcap / normalise.temperature
    blocks = None if pattern.mask is None else block_mask(pattern.mask, grid, query.device)
    with torch._dynamo.config.patch(recompile_limit=KINDS, accumulated_recompile_limit=KINDS):
        return compiled()(
            query,
            key,
            value,
            score_mod=None if softcap is None else capped(softcap),
            block_mask=blocks,
            scale=scale,
            enable_gqa=key.shape[1] != query.shape[1],
        )


@cache
def compiled() -> Callable[..., Any]:
    """FlexAttention, compiled anew for each kind and size of call; uncompiled, it would build the weights."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, fullgraph=True, dynamic=False)


def capped(softcap: float) -> Callable[..., Tensor]:
    """softcap · tanh(score / softcap), for one score."""
    return lambda score, batch, head, query, key: softcap * torch.tanh(score / softcap)


def block_mask(mask: Mask, grid: Grid, device: torch.device) -> Any:
    """A mask as FlexAttention takes it: which blocks it keeps in part, which as a whole, and the rule."""
    from torch.nn.attention.flex_attention import BlockMask

    partly, wholly = [], []
    for queries in spans(grid.queries, BLOCK):
        keep = mask.keep(grid.whole().part(queries=queries), device)
        keep = keep.expand(*keep.shape[:2], len(queries), grid.keys)
        missing = -grid.keys % BLOCK
        blocks = torch.nn.functional.pad(keep, (0, missing)).reshape(*keep.shape[:3], -1, BLOCK)
        some, every = blocks.any(dim=(-3, -1)), blocks.all(dim=-1).all(dim=-2)
        partly.append(some & ~every)
        wholly.append(every)
    return BlockMask.from_kv_blocks(
        *listed(torch.stack(partly, dim=2)),
        *listed(torch.stack(wholly, dim=2)),
        BLOCK_SIZE=BLOCK,
        mask_mod=mask_mod(mask, grid, device),
        seq_lengths=(grid.queries, grid.keys),
    )


def listed(
    kept: Bool[Tensor, "batch heads query_blocks key_blocks"],
) -> tuple[Int[Tensor, "batch heads query_blocks"], Int[Tensor, "batch heads query_blocks key_blocks"]]:
    """For each block of queries, how many blocks of keys are kept, and their numbers, those kept first."""
    order = kept.int().argsort(dim=-1, descending=True, stable=True)
    return kept.sum(dim=-1, dtype=torch.int32), order.int()
