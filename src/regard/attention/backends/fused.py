"""The fused backend: PyTorch's scaled_dot_product_attention, called so that it never needs a queries × keys matrix.

PyTorch takes a mask or bias that depends on the query as a matrix. So the fused backend calls PyTorch once for each
block of queries, with only the keys that these queries may attend to. The cost of a window over a long sequence is then
proportional to window × length. A program exported for any length cannot loop over blocks, so its masks and biases are
built as a whole.

PyTorch has no fused kernel for forward-mode derivatives. On a CPU, there is also none for dropout or for gradients of
the bias. In these cases the `math` backend, which stores the weights, is used if there are few weights.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call, SoftmaxFormula
from regard.attention.gradients import checkpointed, in_forward_mode, need_gradients
from regard.attention.grid.grid import Grid, Tile, contiguous_rows, is_symbolic, spans, varies_by_query
from regard.attention.masks import Causal, Keep, Mask
from regard.attention.masks.mask import keep_of_tile
from regard.attention.precision import without_autocast
from regard.attention.scores.biases.bias import Bias, BiasNumbers, numbers_of_bias
from regard.attention.scores.dot import ScaledDot
from regard.attention.stages import tensors_in
from regard.attention.weights import BLOCK_WEIGHTS

BLOCK_QUERIES = 256
"""The number of queries in one block; on two cores and 2,048 causal tokens, 256 is faster than 128 and 512."""

LARGEST_GROUPED_WIDTH = 256
"""The largest width of float16 or bfloat16 queries for which CUDA's fused kernels support grouped query heads."""

NUMBERS_PER_REGISTER = 16
"""How many float32 numbers fit into the widest vector register of a CPU (AVX-512)."""

Query = Float[Tensor, "batch heads queries d_key"]
Key = Float[Tensor, "batch key_heads keys d_key"]
Value = Float[Tensor, "batch key_heads keys d_value"]
Context = Float[Tensor, "batch heads queries d_value"]


def unsupported_reason(call: Call, dropout: float) -> str | None:
    """Return why PyTorch's fused kernels do not support a call of `attend`, or None if they do."""
    reason = math_unsupported_reason(call, dropout)
    if reason is not None:
        return reason
    if not call.is_concrete and in_forward_mode():  # tensors of a forward derivative are not concrete
        return "the fused kernel has no forward derivative"
    if call.query.is_cuda and call.weights_dtype == torch.float64:
        return "on CUDA the fused kernels have no float64"
    if not call.query.is_cpu:
        return None
    if dropout > 0:
        return "on a CPU the fused kernel has no dropout"
    bias = call.softmax_formula.bias
    if bias is not None and need_gradients(tensors_in(bias)):
        return "on a CPU the fused kernel has no gradient of a bias"
    return None


def math_unsupported_reason(call: Call, dropout: float) -> str | None:
    """Return why a call of `attend` cannot be computed by F.scaled_dot_product_attention, or None if it can."""
    formula = call.formula
    if formula is None:
        return f"the fused kernel normalises by softmax, not {type(call.normalise).__name__}"
    if formula.other_score is not None:
        return f"the fused kernel computes dot products, not {type(call.score).__name__}"
    if formula.softcap is not None:
        return "the fused kernel has no softcap"
    if formula.sinks is not None:
        return "the fused kernel has no sinks"
    if formula.temperature == 0:
        return "the fused kernel divides by the temperature, which is 0"
    return None


def fused_context(call: Call, dropout: float) -> Context:
    if needs_float32(call):
        return in_float32(fused_context, call, dropout)
    formula, mask, grid = call.softmax_formula, call.mask, call.grid
    scale, bias_of_tile = formula.scale / formula.temperature, bias_function(formula, call.query)
    query, key, value = expand_batches(grid, *pad_to_one_width(call.query, call.key, call.value))
    if grid.queries == 0 or grid.keys == 0 or (bias_of_tile is None and mask is None):
        context = kernel(query, key, value, attn_mask=None, scale=scale, dropout=dropout)
    elif bias_of_tile is None and isinstance(mask, Causal) and mask.is_lower_triangle(grid) and scale > 0:
        # PyTorch sets masked products to -∞ before it multiplies them by the scale, so the scale must be above 0
        context = kernel(query, key, value, attn_mask=None, scale=scale, dropout=dropout, causal=True)
    elif is_symbolic(grid.queries) or is_symbolic(grid.keys) or fits_one_tensor(mask, formula.bias):
        attn_mask = added_to_scores(mask, bias_of_tile, grid.whole(), query)
        context = kernel(query, key, value, attn_mask, scale, dropout)
    elif grid.queries == 1 or not mask_or_bias_varies_by_query(mask, formula.bias):
        context = context_of_block(query, key, value, mask, bias_of_tile, grid, range(grid.queries), scale, dropout)
    else:
        compute, blocks = context_of_block, list(spans(grid.queries, BLOCK_QUERIES))
        if call.needs_gradients and rebuilds_in_backward(mask, bias_of_tile, grid, blocks):
            compute = partial(checkpointed, context_of_block, reads=call.tensors, draws=dropout > 0)
        contexts = [compute(query, key, value, mask, bias_of_tile, grid, queries, scale, dropout) for queries in blocks]
        context = torch.cat(contexts, dim=2) if len(contexts) > 1 else contexts[0]
    d_value = call.value.shape[-1]
    return context if context.shape[-1] == d_value else context[..., :d_value]


def math_context(call: Call, dropout: float) -> Context:
    if needs_float32(call):
        return in_float32(math_context, call, dropout)
    formula, all_weights = call.softmax_formula, call.grid.whole()
    query, key, value = expand_batches(call.grid, call.query, call.key, call.value)
    attn_mask = added_to_scores(call.mask, bias_function(formula, query), all_weights, query)
    return math_kernel(query, key, value, attn_mask, formula.scale / formula.temperature, dropout)


def needs_float32(call: Call) -> bool:
    """Return whether `in_float32` must compute the context of a call.

    True if queries and keys must be projected, which `in_float32` does; or if half precision would round a bias that is
    divided by the temperature.
    """
    formula = call.softmax_formula
    if formula.projection is not None:
        return True
    return formula.bias is not None and formula.temperature != 1 and call.query.itemsize == 2


def in_float32(backend: Callable[[Call, float], Context], call: Call, dropout: float) -> Context:
    """Compute the context in float32 (or float64) by `backend`, and convert it to the data type of the values."""
    with without_autocast(call.device):
        query, key, value = (part.to(call.weights_dtype) for part in (call.query, call.key, call.value))
        if call.softmax_formula.projection is None:
            score = call.score.of_type(query)  # converts the bias
        else:
            query, key = call.softmax_formula.vectors(
                query, key
            )  # projected, so that their dot products are the scores
            score = ScaledDot(scale=1.0)
        context = backend(call.changed(query=query, key=key, value=value, score=score), dropout)
    return context.to(call.value.dtype)


def bias_function(formula: SoftmaxFormula, query: Tensor) -> Callable[[Tile], BiasNumbers] | None:
    """Return a function that gives the bias of a block of scores, divided by the temperature; None without a bias.

    Bias rules compute on the device of `query`.
    """
    bias, temperature = formula.bias, formula.temperature
    if bias is None:
        return None

    def bias_of_tile(tile: Tile) -> BiasNumbers:
        numbers = numbers_of_bias(bias, tile, query.device)
        return numbers if temperature == 1 else numbers / temperature

    return bias_of_tile


def fits_one_tensor(mask: Mask | None, bias: Tensor | Bias | None) -> bool:
    """Return whether mask and bias are tensors or None, and their sum is small enough to be one tensor."""
    if not (isinstance(mask, Keep | None) and isinstance(bias, Tensor | None)):
        return False
    if mask is None or bias is None:
        return True
    size = prod(torch.broadcast_shapes(mask.tensor.shape, bias.shape))  # type: ignore[no-untyped-call]
    return is_symbolic(size) or size <= max(mask.tensor.numel(), bias.numel(), BLOCK_WEIGHTS)


def mask_or_bias_varies_by_query(mask: Mask | None, bias: Tensor | Bias | None) -> bool:
    """Return whether the mask or the bias depends on the query; always True for a bias rule such as `Alibi`."""
    if mask is not None and mask.per_query:
        return True
    if isinstance(bias, Tensor):
        return varies_by_query(bias)
    return bias is not None


def rebuilds_in_backward(
    mask: Mask | None, bias_of_tile: Callable[[Tile], BiasNumbers] | None, grid: Grid, blocks: list[range]
) -> bool:
    """Return whether the backward pass recomputes the masks and biases of all blocks, instead of storing them.

    Stored masks and biases may take as much memory as the weights; the price of recomputing them is that the attention
    kernel runs again. Masks are stored only if there is no bias and the masks have at most `BLOCK_WEIGHTS` numbers.
    """
    if mask is None or bias_of_tile is not None:
        return True
    size = grid.batch * sum(len(queries) * len(mask.reach(grid, queries)) for queries in blocks)
    return is_symbolic(size) or size > BLOCK_WEIGHTS


def context_of_block(
    query: Float[Tensor, "batch heads queries width"],
    key: Float[Tensor, "batch key_heads keys width"],
    value: Float[Tensor, "batch key_heads keys width"],
    mask: Mask | None,
    bias_of_tile: Callable[[Tile], BiasNumbers] | None,
    grid: Grid,
    queries: range,
    scale: float,
    dropout: float,
) -> Float[Tensor, "batch heads block width"]:
    """Return the context of a block of queries, computed from only those keys that these queries may attend to."""
    keys = range(grid.keys) if mask is None else mask.reach(grid, queries)
    query = select_tokens(query, queries)
    if len(keys) == 0:
        # a context of zeros, with gradient 0 for the query; query * 0 would be NaN where the query is NaN
        return query.masked_fill(torch.ones((), dtype=torch.bool, device=query.device), 0.0)
    mask = None if mask is None or mask.fills_reach(grid, queries) else mask  # None = no key in the range is masked
    attn_mask = None
    if mask is not None or bias_of_tile is not None:
        attn_mask = added_to_scores(mask, bias_of_tile, grid.whole().part(queries=queries, keys=keys), query)
    return kernel(query, select_tokens(key, keys), select_tokens(value, keys), attn_mask, scale, dropout)


def select_tokens(vectors: Float[Tensor, "batch heads _ width"], tokens: range) -> Float[Tensor, "batch heads _ width"]:
    """Return the vectors of a range of tokens: a view, or the tensor itself if the range has all its tokens."""
    return vectors if len(tokens) == vectors.shape[2] else vectors[:, :, tokens.start : tokens.stop]


def added_to_scores(
    mask: Mask | None, bias_of_tile: Callable[[Tile], BiasNumbers] | None, tile: Tile, query: Tensor
) -> Float[Tensor, "#batch #heads #queries #keys"] | None:
    """Return the mask and the bias of a tile as one tensor to be added to the scores; None if there is neither.

    A masked key has -∞. The tensor is never boolean, because cuDNN adds only -65504 for each False: a query that may
    attend to no key would attend to every key.
    """
    numbers = None if bias_of_tile is None else bias_of_tile(tile).to(query)
    if mask is None:
        return numbers
    keep = keep_of_tile(mask, tile, query.device)
    return torch.where(keep, query.new_zeros(()) if numbers is None else numbers, -torch.inf)


def kernel(
    query: Query, key: Key, value: Value, attn_mask: Tensor | None, scale: float, dropout: float, causal: bool = False
) -> Context:
    """Return the context, computed by F.scaled_dot_product_attention.

    Args:
        attn_mask: numbers to be added to the scores; None = nothing is added.
        causal: whether query i may attend only to keys 0 … i.
    """
    # PyTorch's CPU kernel gives 0, not NaN, for a row of NaN shorter than a vector register (pytorch issue 141128).
    # An exported program does not test the number of keys, because it must work for every number.
    if query.is_cpu and not torch.compiler.is_exporting() and key.shape[2] < NUMBERS_PER_REGISTER:
        return math_kernel(query, key, value, attn_mask, scale, dropout, causal)
    # PyTorch would store the whole matrix of weights if the numbers of a vector were not adjacent in memory.
    if not query.stride(-1) == key.stride(-1) == value.stride(-1) == 1:
        query, key, value = map(contiguous_rows, (query, key, value))
    if query.is_cuda:
        return cuda_kernel(query, key, value, attn_mask, scale, dropout, causal)
    is_grouped = bool(key.shape[1] != query.shape[1])  # under torch.jit.trace, sizes are tensors
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=is_grouped
    )


def cuda_kernel(
    query: Query, key: Key, value: Value, attn_mask: Tensor | None, scale: float, dropout: float, causal: bool
) -> Context:
    """Return the context from F.scaled_dot_product_attention on CUDA, with arguments that its fused kernels support.

    If a group of query heads shares a key head:

        no mask           the query heads of a group are concatenated into one head with more queries
        is_causal=True    enable_gqa=True, for float16 or bfloat16 up to a width of `LARGEST_GROUPED_WIDTH`
        all other cases   keys and values are repeated for each query head
    """
    group = query.shape[1] // key.shape[1]
    is_grouped = group > 1
    if is_grouped and attn_mask is None and not causal:
        by_head, by_group = "batch (heads group) queries d", "batch heads (group queries) d"
        more_queries = rearrange(query, f"{by_head} -> {by_group}", group=group)
        context = cuda_kernel(more_queries, key, value, None, scale, dropout, causal=False)
        return rearrange(context, f"{by_group} -> {by_head}", group=group)
    if attn_mask is not None:  # the fused kernels take no mask that is broadcast over the keys
        attn_mask = contiguous_rows(attn_mask.expand(-1, -1, -1, key.shape[2]))
    if is_grouped and (attn_mask is not None or query.itemsize > 2 or query.shape[3] > LARGEST_GROUPED_WIDTH):
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        is_grouped = False
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=is_grouped
    )


def math_kernel(
    query: Query, key: Key, value: Value, attn_mask: Tensor | None, scale: float, dropout: float, causal: bool = False
) -> Context:
    """Return the context, computed by PyTorch's kernel that stores the matrix of weights.

    It is called directly, because the context manager `torch.nn.attention.sdpa_kernel` would change the kernel of other
    threads too.
    """
    is_grouped = bool(key.shape[1] != query.shape[1])  # under torch.jit.trace, sizes are tensors
    run = torch.ops.aten._scaled_dot_product_attention_math
    context: Tensor = run(query, key, value, attn_mask, dropout, causal, scale=scale, enable_gqa=is_grouped)[0]
    return context


def pad_to_one_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value padded with zeros to the larger of their widths; on CUDA, to a multiple of 8.

    For other widths, PyTorch would store the whole matrix of weights.
    """
    d_key, d_value = key.shape[-1], value.shape[-1]
    width = max(d_key, d_value)
    if query.is_cuda:
        width += -width % 8
    if d_key < width:
        query, key = F.pad(query, (0, width - d_key)), F.pad(key, (0, width - d_key))
    if d_value < width:
        value = F.pad(value, (0, width - d_value))
    return query, key, value


def expand_batches(grid: Grid, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple([t if t.shape[0] == grid.batch else t.expand(grid.batch, -1, -1, -1) for t in tensors])
