"""The fused backend: PyTorch's scaled_dot_product_attention, called so that no queries × keys matrix need be built.

A mask that depends on the query would be such a matrix, and so would a bias that is a rule. So they are built for one
block of queries at a time, and only for the keys that the block can reach: a window over a long sequence costs the
window, not the length. So are the tensors of a mask and of a bias joined, where together they would be far larger than
either. Where a mask bars nothing that is within reach, as for the newest token of a text or in a batch of equal
lengths, it is not built at all. A program that is exported for any length has no such loop, and builds masks and biases
as a whole.

On a CPU, PyTorch itself hands two kinds of call to a kernel that does build the weights: those with dropout, and those
whose bias is trained; and no fused kernel has a forward derivative. They are no fused calls: `math` does them while
their weights are few, and says so by its name.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from regard.attention.gradients import checkpointed, in_forward_mode, need_gradients
from regard.attention.grid.grid import Grid, Tile, contiguous_rows, is_symbolic, spans, varies_by_query
from regard.attention.masks import Causal, Keep, Mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import BLOCK_WEIGHTS, Pattern
from regard.attention.precision import without_autocast
from regard.attention.scores.biases.bias import Bias, Biased
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import DotScore, Score
from regard.attention.stages import tensors_in

Run = Callable[[Pattern, float], Float[Tensor, "batch heads queries d_value"]]
"""A backend: from a pattern, and the chance that a weight is dropped, to the context."""

BLOCK_QUERIES = 256
"""Queries in one block; measured best among 128, 256, 512 for a causal mask of 2,048 tokens on two cores."""

WIDEST_GROUPED = 256
"""Numbers in a query or key, of a half type, with which CUDA's fused kernels take grouped heads."""

REGISTER_NUMBERS = 16
"""Numbers of float32 that the widest vector register of a CPU holds (AVX-512)."""


def why_not(score: Score, normalise: Normaliser) -> str | None:
    """Why PyTorch's function cannot express a kind of attention; None if it can."""
    if not isinstance(score, ScaledDot | DotScore):
        return f"the fused kernel computes dot products, not {type(score).__name__}"
    if isinstance(score, ScaledDot) and score.softcap is not None:
        return "the fused kernel has no softcap"
    if not isinstance(normalise, Softmax):
        return f"the fused kernel normalises by softmax, not {type(normalise).__name__}"
    if normalise.sinks is not None:
        return "the fused kernel has no sinks"
    if normalise.temperature == 0:
        return "the fused kernel divides by the temperature, which is 0"
    return None


def why_built(pattern: Pattern, dropout: float) -> str | None:
    """Why only PyTorch's kernel that builds the weights does a call; None if another does it too."""
    if in_forward_mode():
        return "the fused kernel has no forward derivative"
    if pattern.query.is_cuda and pattern.dtype == torch.float64:
        return "on CUDA the fused kernels have no float64"
    if not pattern.query.is_cpu:
        return None
    if dropout > 0:
        return "on a CPU the fused kernel has no dropout"
    if isinstance(pattern.score, ScaledDot) and need_gradients(tensors_in(pattern.score.bias)):
        return "on a CPU the fused kernel trains no bias"
    return None


def fused(pattern: Pattern, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """The context, for a call that neither `why_not` nor `why_built` has anything against."""
    if rounds(pattern):
        return in_float32(fused, pattern, dropout)
    score, normalise, mask, grid = pattern.score, pattern.normalise, pattern.mask, pattern.grid
    assert isinstance(score, ScaledDot)
    assert isinstance(normalise, Softmax)
    scale = score.factor(pattern.query.shape[-1]) / normalise.temperature
    bias = bias_of(score, normalise.temperature, pattern.query)
    query, key, value = same_batch(grid, *same_width(pattern.query, pattern.key, pattern.value))
    causal = isinstance(mask, Causal) and mask.is_lower_triangle(grid)
    causal = causal and scale > 0  # the kernel bars the future with -∞ before it scales, which a scale of 0 makes NaN
    if grid.queries == 0 or grid.keys == 0 or (bias is None and mask is None):
        context = kernel(query, key, value, None, scale, dropout)
    elif bias is None and causal:
        context = kernel(query, key, value, None, scale, dropout, causal=True)
    elif is_symbolic(grid.queries) or is_symbolic(grid.keys) or at_once(mask, score.bias):
        context = kernel(query, key, value, joined(mask, bias, grid.whole(), query), scale, dropout)
    elif not in_blocks(mask, score.bias):
        context = kernel_of_block(query, key, value, mask, bias, grid, range(grid.queries), scale, dropout)
    else:
        parts, run = list(spans(grid.queries, BLOCK_QUERIES)), kernel_of_block
        if torch.is_grad_enabled() and built_again(mask, bias, grid, parts):
            run = partial(checkpointed, kernel_of_block, draws=dropout > 0)
        blocks = [run(query, key, value, mask, bias, grid, queries, scale, dropout) for queries in parts]
        context = torch.cat(blocks, dim=2) if len(blocks) > 1 else blocks[0]
    d_value = pattern.value.shape[-1]
    return context if context.shape[-1] == d_value else context[..., :d_value]


def math(pattern: Pattern, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """The context by PyTorch's kernel that builds the weights, for a call that `why_not` has nothing against."""
    if rounds(pattern):
        return in_float32(math, pattern, dropout)
    assert isinstance(pattern.score, ScaledDot)
    assert isinstance(pattern.normalise, Softmax)
    temperature = pattern.normalise.temperature
    scale = pattern.score.factor(pattern.query.shape[-1]) / temperature
    bias = bias_of(pattern.score, temperature, pattern.query)
    query, key, value = same_batch(pattern.grid, pattern.query, pattern.key, pattern.value)
    return math_kernel(query, key, value, joined(pattern.mask, bias, pattern.grid.whole(), query), scale, dropout)


def rounds(pattern: Pattern) -> bool:
    """Whether something is computed for the kernel that a half type, the input's or autocast's, would round.

    That is what queries and keys are turned into, and a bias over a temperature.
    """
    score, normalise = pattern.score, pattern.normalise
    if isinstance(score, DotScore):
        return True
    assert isinstance(score, ScaledDot)
    assert isinstance(normalise, Softmax)
    return pattern.query.dtype != pattern.dtype and score.bias is not None and normalise.temperature != 1


def in_float32(backend: Run, pattern: Pattern, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """The context of a call that `rounds`, in float32 at least: else it came from other weights than the pattern's."""
    score = pattern.score
    with without_autocast(pattern.device):
        query, key, value = (part.to(pattern.dtype) for part in (pattern.query, pattern.key, pattern.value))
        if isinstance(score, DotScore):
            query, key = score.as_dot(query, key)
            score = ScaledDot(scale=1.0)
        wide = Pattern(query, key, value, pattern.grid, score.of_type(query), pattern.mask, pattern.normalise)
        context = backend(wide, dropout)
    return context.to(pattern.value.dtype)


def bias_of(score: ScaledDot, temperature: float, query: Tensor) -> Callable[[Tile], Biased] | None:
    """What the bias, a tensor or a rule, adds to the scores of a tile once they are divided by the temperature."""
    if score.bias is None:
        return None
    if isinstance(score.bias, Bias):
        return lambda tile: divided(score.biases(tile, query.device), temperature)
    over_grid = divided(score.bias, temperature)
    return lambda tile: tile.select(over_grid)


def divided(bias: Float[Tensor, "*shape"], temperature: float) -> Float[Tensor, "*shape"]:
    """The bias over the temperature; itself, and no copy, where that is 1."""
    return bias if temperature == 1 else bias / temperature


def at_once(mask: Mask | None, bias: Tensor | Bias | None) -> bool:
    """Whether mask and bias are tensors that, as one, are no larger than either of them or than a block may be."""
    if not (isinstance(mask, Keep | None) and isinstance(bias, Tensor | None)):
        return False
    if mask is None or bias is None:
        return True
    size = prod(torch.broadcast_shapes(mask.tensor.shape, bias.shape))  # type: ignore[no-untyped-call]
    return is_symbolic(size) or size <= max(mask.tensor.numel(), bias.numel(), BLOCK_WEIGHTS)


def in_blocks(mask: Mask | None, bias: Tensor | Bias | None) -> bool:
    """Whether mask and bias, as one, depend on the query, so that they are built for a block of queries at a time."""
    return (mask is not None and mask.per_query) or (
        varies_by_query(bias) if isinstance(bias, Tensor) else bias is not None
    )


def built_again(mask: Mask | None, bias: Callable[[Tile], Biased] | None, grid: Grid, parts: list[range]) -> bool:
    """Whether a backward pass builds masks and biases again: if kept, all blocks' together may be a matrix.

    A mask's are kept where they are no more than a block may hold, as the kernel would have to run again too.
    """
    if mask is None or bias is not None:
        return True
    size = grid.batch * sum(len(queries) * len(mask.reach(grid, queries)) for queries in parts)
    return is_symbolic(size) or size > BLOCK_WEIGHTS


def kernel_of_block(
    query: Float[Tensor, "batch heads queries width"],
    key: Float[Tensor, "batch key_heads keys width"],
    value: Float[Tensor, "batch key_heads keys width"],
    mask: Mask | None,
    bias: Callable[[Tile], Biased] | None,
    grid: Grid,
    queries: range,
    scale: float,
    dropout: float,
) -> Float[Tensor, "batch heads block width"]:
    """The context of one block of queries, from the keys within its reach."""
    keys = range(grid.keys) if mask is None else mask.reach(grid, queries)
    block, rows = slice(queries.start, queries.stop), slice(keys.start, keys.stop)
    if len(keys) == 0:
        return query[:, :, block].masked_fill(torch.ones((), dtype=torch.bool, device=query.device), 0.0)
    needed = None if mask is None or mask.fills_reach(grid, queries) else mask
    attn_mask = joined(needed, bias, grid.whole().part(queries=queries, keys=keys), query)
    return kernel(query[:, :, block], key[:, :, rows], value[:, :, rows], attn_mask, scale, dropout)


def joined(
    mask: Mask | None, bias: Callable[[Tile], Biased] | None, tile: Tile, query: Tensor
) -> Float[Tensor, "#batch #heads #queries #keys"] | None:
    """Mask and bias of a tile as the one tensor that is added to the scores; -∞ bars a key.

    Never a mask of booleans: cuDNN takes their False for -65504, and a query that sees no key would read every one.
    """
    part = None if bias is None else bias(tile).to(query)
    if mask is None:
        return part
    return torch.where(mask.keep(tile, query.device), query.new_zeros(()) if part is None else part, -torch.inf)


def kernel(
    query: Float[Tensor, "batch heads queries width"],
    key: Float[Tensor, "batch key_heads keys width"],
    value: Float[Tensor, "batch key_heads keys d_value"],
    attn_mask: Tensor | None,
    scale: float,
    dropout: float,
    causal: bool = False,
) -> Float[Tensor, "batch heads queries d_value"]:
    """One call of PyTorch's function. (Of vectors that do not lie in one piece each it would build the weights.)"""
    # A CPU's kernel gives 0, not NaN, for a row of NaN that does not fill one of its registers (pytorch issue 141128).
    # What is exported is for any number of keys, and goes to other kernels.
    if query.is_cpu and not torch.compiler.is_exporting() and key.shape[2] < REGISTER_NUMBERS:
        return math_kernel(query, key, value, attn_mask, scale, dropout, causal)
    query, key, value = map(contiguous_rows, (query, key, value))
    if query.is_cuda:
        return cuda_kernel(query, key, value, attn_mask, scale, dropout, causal)
    grouped = key.shape[1] != query.shape[1]
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def cuda_kernel(
    query: Float[Tensor, "batch heads queries width"],
    key: Float[Tensor, "batch key_heads keys width"],
    value: Float[Tensor, "batch key_heads keys d_value"],
    attn_mask: Tensor | None,
    scale: float,
    dropout: float,
    causal: bool,
) -> Float[Tensor, "batch heads queries d_value"]:
    """The same on CUDA: what its fused kernels do not take falls to one that builds the matrix, or fails.

    Where each query sees every key, grouped heads are just more queries of fewer heads. Elsewhere those kernels take
    them without a mask alone, of half types up to `WIDEST_GROUPED`. A mask has a number for each key, side by side.
    """
    group, grouped = query.shape[1] // key.shape[1], key.shape[1] != query.shape[1]
    if grouped and attn_mask is None and not causal:
        apart, together = "batch (heads group) queries d", "batch heads (group queries) d"
        more_queries = rearrange(query, f"{apart} -> {together}", group=group)
        context = cuda_kernel(more_queries, key, value, None, scale, dropout, causal)
        return rearrange(context, f"{together} -> {apart}", group=group)
    if attn_mask is not None:
        attn_mask = contiguous_rows(attn_mask.expand(-1, -1, -1, key.shape[2]))
    if grouped and (attn_mask is not None or query.itemsize > 2 or query.shape[3] > WIDEST_GROUPED):
        key, value, grouped = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1), False
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def math_kernel(
    query: Float[Tensor, "batch heads queries d_key"],
    key: Float[Tensor, "batch key_heads keys d_key"],
    value: Float[Tensor, "batch key_heads keys d_value"],
    attn_mask: Tensor | None,
    scale: float,
    dropout: float,
    causal: bool = False,
) -> Float[Tensor, "batch heads queries d_value"]:
    """One call of PyTorch's kernel that builds the weights. (`sdpa_kernel` would choose it for every thread.)"""
    grouped = key.shape[1] != query.shape[1]
    run = torch.ops.aten._scaled_dot_product_attention_math
    context: Tensor = run(query, key, value, attn_mask, dropout, causal, scale=scale, enable_gqa=grouped)[0]
    return context


def same_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad with zeros to one width: where d_key and d_value differ, a kernel that builds the matrix would be chosen."""
    d_key, d_value = key.shape[-1], value.shape[-1]
    if d_key == d_value and not query.is_cuda:
        return query, key, value
    width = kernel_width(max(d_key, d_value), query.device)
    if d_key < width:
        query, key = F.pad(query, (0, width - d_key)), F.pad(key, (0, width - d_key))
    if d_value < width:
        value = F.pad(value, (0, width - d_value))
    return query, key, value


def kernel_width(width: int, device: torch.device) -> int:
    """The least width that a fused kernel takes: CUDA's that take a mask or float32 want a multiple of 8.

    >>> kernel_width(66, torch.device("cuda")), kernel_width(66, torch.device("cpu"))
    (72, 66)
    """
    return width + -width % 8 if device.type == "cuda" else width


def same_batch(grid: Grid, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Let tensors of one batch item stand for the whole batch."""
    return tuple(t if t.shape[0] == grid.batch else t.expand(grid.batch, -1, -1, -1) for t in tensors)
