"""The reference backend: the definition of attention as Python loops, one query after the other, in float64.

For each batch item, head and query:

    scores_j  = scale · query · key_j          for the keys j that the mask allows
    weights_j = exp(scores_j) / Σ exp(scores)
    context   = Σ weights_j · value_j

The tests compare the fast backends with `reference`, which shares no code with them.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.masks.mask import keep_of_tile
from regard.attention.scores.biases.bias import numbers_of_bias


def reference(
    query: Float[Tensor, "batch heads queries d_key"],
    key: Float[Tensor, "batch key_heads keys d_key"],
    value: Float[Tensor, "batch key_heads keys d_value"],
    *,
    keep: Bool[Tensor, "batch heads queries keys"] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Float[Tensor, "batch heads queries keys"] | None = None,
    temperature: float = 1.0,
    sinks: Float[Tensor, " heads"] | None = None,
) -> tuple[Float[Tensor, "batch heads queries d_value"], Float[Tensor, "batch heads queries keys"]]:
    """Return the context and the attention weights in float64, computed by Python loops.

    Args:
        keep: the mask, True = may attend; None = every query may attend to every key.
        scale: the factor of the dot products; None = 1 / sqrt(d_key).
        softcap: limits the scores by tanh, as in `ScaledDot`; None = no limit.
        bias: added to the scores; None = nothing is added.
        temperature: divides the scores, as in `Softmax`; 0 = all weight on the largest score.
        sinks: for each head, one more score in the softmax, which belongs to no key; None = not used.

    Source: Vaswani et al. 2017, equation 1.
    """
    n_batch, n_heads, n_queries, d_key = query.shape
    group = n_heads // key.shape[1]
    factor = 1 / math.sqrt(d_key) if scale is None else scale
    weights = torch.zeros(n_batch, n_heads, n_queries, key.shape[2], dtype=torch.float64)
    context = torch.zeros(n_batch, n_heads, n_queries, value.shape[3], dtype=torch.float64)
    for b in range(n_batch):
        for h in range(n_heads):
            queries, keys, values = (part.tolist() for part in (query[b, h], key[b, h // group], value[b, h // group]))
            allowed = None if keep is None else keep[b, h].tolist()
            for i in range(n_queries):
                visible = [j for j in range(len(keys)) if allowed is None or allowed[i][j]]
                scores = []
                for j in visible:
                    score = sum(x * y for x, y in zip(queries[i], keys[j], strict=True)) * factor
                    if softcap is not None:
                        score = softcap * math.tanh(score / softcap)
                    if bias is not None:
                        score += float(bias[b, h, i, j])
                    scores.append(score)
                sink = None if sinks is None else float(sinks[h])
                weight_of_key = dict(zip(visible, softmax(scores, temperature, sink), strict=True))
                for j, weight in weight_of_key.items():
                    weights[b, h, i, j] = weight
                for d in range(value.shape[3]):
                    context[b, h, i, d] = sum(weight * values[j][d] for j, weight in weight_of_key.items())
    return context, weights


def softmax(scores: list[float], temperature: float, sink: float | None) -> list[float]:
    with_sink = scores if sink is None else [*scores, sink]
    if not with_sink:
        return []
    largest = max(with_sink)
    if temperature == 0:
        return [(score == largest) / with_sink.count(largest) for score in scores]
    total = sum(math.exp((score - largest) / temperature) for score in with_sink)
    return [math.exp((score - largest) / temperature) / total for score in scores]


def unsupported_reason(call: Call, dropout: float) -> str | None:
    formula = call.formula
    if formula is None or formula.projection is not None or formula.other_score is not None:
        return "the reference computes only the softmax of scaled dot products"
    if dropout > 0:
        return "the reference has no dropout"
    return "the reference computes no gradients" if call.needs_gradients else None


def reference_context(call: Call, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    formula, grid, device = call.softmax_formula, call.grid, call.device
    all_weights = grid.whole()
    bias = None
    if formula.bias is not None:
        bias = numbers_of_bias(formula.bias, all_weights, device, torch.float64).expand(grid.shape)
    keep = None if call.mask is None else keep_of_tile(call.mask, all_weights, device).expand(grid.shape)
    query, key, value = (part.expand(grid.batch, -1, -1, -1) for part in (call.query, call.key, call.value))
    context, _ = reference(
        query,
        key,
        value,
        keep=keep,
        scale=formula.scale,
        softcap=formula.softcap,
        bias=bias,
        temperature=formula.temperature,
        sinks=formula.sinks,
    )
    return context.to(value)
