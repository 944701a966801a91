"""Queries and keys of a layer, from which a page computes the attention weights itself.

The page computes softmax(scale · query · key) with the layer's bias, mask, softcap (tanh limits the scores) and sinks
(an extra score in each softmax). Queries and keys are stored as integers, which the page multiplies by a rounding step,
a power of two. `coarsest_steps` looks for large steps with which no weight is wrong by more than `PRECISION`, because
small integers compress better.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention.call import Call, SoftmaxFormula
from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.biases.alibi import Alibi
from regard.attention.scores.biases.bias import numbers_of_bias, unrounded
from regard.attention.scores.biases.relative_bias import RelativeBias
from regard.attention.scores.dot import ScaledDot
from regard.views.page.blocks import encode_integers

PRECISION = 5e-6
"""The largest absolute error of a weight that may result from rounding queries and keys."""

FEWEST_BITS, MOST_BITS = 14, 23
"""The smallest and largest precision of a stored element of a query or key, in bits without the sign."""

WEIGHTS_AT_ONCE = 2**22
"""At most this many weights are computed at one time to measure the effect of rounding queries and keys."""

VALUE_BITS = 20
"""The number of bits, without the sign bit, to which numbers of value vectors are rounded. A fixed number suffices,
since no weight is computed from values."""


def vectors_of(name: str, pattern: Pattern, blocks: dict[str, str]) -> dict[str, Any] | None:
    """Return the JSON record of a layer; add the queries and keys of the first batch item to `blocks`.

    None if the page cannot compute the weights, because the weights are not the softmax of dot products, the bias
    depends on more than head and distance, the temperature is 0, a query or key contains NaN or infinity, or rounding
    to MOST_BITS bits changes a weight by more than PRECISION.

    Args:
        name: the name of the layer, with which the names of the arrays in `blocks` begin.
    """
    formula = pattern.call.formula
    if formula is None or formula.other_score is not None or formula.temperature == 0:
        return None
    bias = bias_by_distance(formula, pattern.grid)
    if formula.bias is not None and bias is None:
        return None
    # If the score has projections, such as query · W · key, `query` and `key` are the projected vectors.
    query, key = (vectors[:1].float() for vectors in formula.vectors(pattern.query, pattern.key))
    if not (torch.isfinite(query).all() and torch.isfinite(key).all()):
        return None
    steps = coarsest_steps(pattern, formula, query, key)
    if steps is None:
        return None
    return {
        "scale": formula.scale,
        "softcap": formula.softcap,
        "temperature": formula.temperature,
        "sinks": None if formula.sinks is None else formula.sinks.tolist(),
        "bias": None if bias is None else {"numbers": bias},
        "query": vectors_record(f"{name} query", query, steps[0], blocks),
        "key": vectors_record(f"{name} key", key, steps[1], blocks),
    }


def vectors_record(
    name: str, vectors: Float[Tensor, "*batch heads tokens width"], step: float, blocks: dict[str, str]
) -> dict[str, Any]:
    """Add vectors, rounded to multiples of `step`, to `blocks` as `name`, and return their JSON record."""
    blocks[name] = encode_rounded(vectors, step)
    return {"block": name, "step": step, "heads": vectors.shape[-3], "width": vectors.shape[-1]}


def coarsest_steps(pattern: Pattern, formula: SoftmaxFormula, query: Tensor, key: Tensor) -> tuple[float, float] | None:
    """Return the rounding steps of queries and keys; rounding then changes no weight by more than PRECISION.

    The search begins with large steps (FEWEST_BITS bits for each number) and adds bits until the change is small
    enough; None if even MOST_BITS bits do not suffice.
    """
    bits = FEWEST_BITS
    while bits <= MOST_BITS:
        query_step, key_step = step_of(query, bits), step_of(key, bits)
        rounded_query, rounded_key = (query / query_step).round() * query_step, (key / key_step).round() * key_step
        error = largest_error(pattern, formula, rounded_query, rounded_key)
        if error <= PRECISION:
            return query_step, key_step
        # A further bit of queries and keys halves the error of a weight. Add at least one, so that the loop ends.
        bits += max(1, math.ceil(math.log2(error / PRECISION))) if math.isfinite(error) else 1
    return None


def step_of(vectors: Tensor, bits: int) -> float:
    """Return the rounding step, a power of two, with which rounded numbers need at most `bits` bits and a sign bit."""
    largest = float(vectors.abs().max()) if vectors.numel() else 0.0
    _, exponent = math.frexp(largest)  # largest < 2^exponent
    return 2.0 ** (exponent - bits) if largest else 1.0


def encode_rounded(numbers: Shaped[Tensor, "*shape"], step: float) -> str:
    """Encode numbers as integers, which the page multiplies by `step`."""
    return encode_integers((numbers.detach().cpu() / step).round().to(torch.int32).numpy())


def largest_error(pattern: Pattern, formula: SoftmaxFormula, query: Tensor, key: Tensor) -> float:
    """Return the largest absolute difference between the pattern's weights and those of rounded queries and keys."""
    score = ScaledDot(formula.scale, formula.softcap, formula.bias)
    normalise = Softmax(formula.temperature, formula.sinks)
    value = pattern.value[:1].float()
    rounded = Pattern(Call.of(query, key, value, score, pattern.mask, normalise))
    n_rows = max(1, WEIGHTS_AT_ONCE // max(1, pattern.n_heads * pattern.shape[3]))
    errors = [
        float((rounded[0, :, start : start + n_rows] - pattern[0, :, start : start + n_rows]).abs().max())
        for start in range(0, pattern.shape[2], n_rows)
    ]
    return max(errors, default=0.0)


def with_infinity(bias: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
    """Return a bias with -∞ in place of the lowest numbers of its data type, by which transformers masks keys.

    Such keys have weight 0 in both cases. The numbers of a query that has no other key stay, since the softmax of
    numbers that are all the same gives it equal weights.
    """
    is_lowest = bias <= torch.finfo(bias.dtype).min / 2
    return bias.masked_fill(is_lowest & ~is_lowest.all(dim=-1, keepdim=True), -torch.inf)


def bias_by_distance(formula: SoftmaxFormula, grid: Grid) -> list[list[float | None]] | None:
    """Return, for each head, the bias of a score at each distance (key - query position), the lowest distance first.

    None in the lists replaces -∞, because JSON has no infinity. The result is None if there is no bias, or if the bias
    depends on more than head and distance. With 2 queries and 3 keys, for example, the distances are -2 to 1, since the
    queries are the last two of three tokens.
    """
    bias = with_infinity(formula.bias) if isinstance(formula.bias, Tensor) else formula.bias
    if bias is None or not isinstance(unrounded(bias), Alibi | RelativeBias | Tensor):
        return None

    # Distances fall from query to query and grow from key to key: the first key and the first query have all of them.
    def numbers_of(tile: Tile) -> Float[Tensor, "heads queries keys"]:
        return numbers_of_bias(bias, tile, torch.device("cpu"))[:1].detach().float().cpu().expand(1, *tile.shape[1:])[0]

    whole, first = grid.whole(), torch.tensor([0])
    of_key, of_query = numbers_of(whole.part(keys=first)), numbers_of(whole.part(queries=first))
    by_distance = torch.cat([of_key[:, :, 0].flip(-1), of_query[:, 0, 1:]], dim=-1)
    if isinstance(bias, Tensor):
        index = torch.arange(grid.keys) + torch.arange(grid.queries).flip(0)[:, None]
        heads = zip(numbers_of(whole), by_distance, strict=True)
        if not all(torch.equal(numbers, distances[index]) for numbers, distances in heads):
            return None
    return [[None if number == -math.inf else number for number in numbers] for numbers in by_distance.tolist()]
