"""The movement of all tokens in one layer, as arrows in a plane.

    before + heads + bias + feed_forward + rest = after

`before` and `after` are a token's vector before and after the layer. The other terms are what parts of the layer add to
it: attention adds `heads` + `bias` (of the output projection); `rest` is the change made by layer norms and, in the
decoder of an encoder-decoder, by cross-attention.

An arrow is such an added vector, projected onto the plane; the equation holds for the projections too. The angle of an
arrow is computed in all d_model dimensions, between the added vector and the total change after - before: below 90
degrees the part acts in the direction of the total change, above 90 degrees against it.
"""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.effects.contributions import value_vectors
from regard.effects.movement import LayerStates
from regard.effects.plane import Plane

QUERIES_AT_ONCE = 32
"""The number of queries for which the longest added vectors are computed at once; more queries need more memory."""

N_NEAREST = 5
"""For each token, this many tokens with the most similar vectors are found."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """Vectors that were added to the vectors of tokens, projected onto a plane.

    Attributes:
        places: for each vector, its two coordinates in the plane, and its norm in all dimensions.
        angles: the angle in degrees between each vector and the total change of the token's vector in the layer; 0 for
            a vector of norm 0.
        indices: for each vector, the index of the head, key token or part of the layer that added it; -1 = the vector
            is the sum over all heads or key tokens without an arrow of their own.
    """

    places: Float[Tensor, "tokens arrows 3"]
    angles: Float[Tensor, "tokens arrows"]
    indices: Int[Tensor, "tokens arrows"]


@dataclass(frozen=True, slots=True, eq=False)
class LayerArrows:
    """The movement of all tokens in one layer, as arrows in a plane.

    Attributes:
        before, after: for each token, the two coordinates of its vector in the plane, and the norm of the vector.
        turned: for each token, the angle between its vectors before and after the layer, in degrees.
        parts: four arrows for each token: `heads` + `bias`, `bias`, `feed_forward` and `rest` of the equation above.
        heads, sources: the longest vectors that heads, or key tokens (sources), add to each token, longest first, and
            the sum of the vectors of the other heads or key tokens.
        nearest, nearest_angles: for each token, the positions of the tokens whose vectors after the layer have the
            smallest angles to its vector, and these angles in degrees.
    """

    before: Float[Tensor, "tokens 3"]
    after: Float[Tensor, "tokens 3"]
    turned: Float[Tensor, " tokens"]
    parts: Arrows
    heads: Arrows
    sources: Arrows
    nearest: Int[Tensor, "tokens nearest"]
    nearest_angles: Float[Tensor, "tokens nearest"]


@torch.no_grad()
def layer_arrows(pattern: Pattern, state: LayerStates, plane: Plane, n_longest: int) -> LayerArrows:
    """Return the movement of all tokens in one layer, as arrows in a plane; `pattern` has one batch item.

    The `n_longest` heads that add the longest vectors to a token have one arrow each; all other heads have one arrow
    together. Likewise, the `n_longest` key tokens that add the longest vectors have one arrow each, and all other key
    tokens have one arrow together.
    """
    state = state.to(pattern.call.weights_dtype)
    change = state.after - state.before
    key_vectors = value_vectors(pattern, state.projection.weight)
    weights = pattern[0].to(key_vectors)
    by_head = torch.einsum("hqk,hkd->qhd", weights, key_vectors)
    total = by_head.sum(dim=1)  # the sum over all heads, and also over all key tokens
    bias = state.attention - total
    rest = change - state.attention - state.feed_forward
    parts = torch.stack([state.attention, bias, state.feed_forward, rest], dim=1)

    def arrows(vectors: Tensor, indices: Tensor) -> Arrows:
        places = with_norms(plane.coordinates(vectors), vectors)
        return Arrows(places, angle_between(vectors, change[:, None]), indices)

    nearest, nearest_angles = nearest_tokens(state.after)
    return LayerArrows(
        before=with_norms(plane.points(state.before), state.before),
        after=with_norms(plane.points(state.after), state.after),
        turned=angle_between(state.before, state.after),
        parts=arrows(parts, torch.arange(4).expand(len(change), 4)),
        heads=arrows(*longest_heads(by_head, n_longest)),
        sources=arrows(*longest_sources(weights, key_vectors, total, n_longest)),
        nearest=nearest,
        nearest_angles=nearest_angles,
    )


Longest = tuple[Float[Tensor, "tokens arrows d_model"], Int[Tensor, "tokens arrows"]]
"""The longest vectors that heads or key tokens add to each token, longest first, then the sum of all other vectors.
The second tensor has the index of the head or key token that adds each vector, and -1 for the sum."""


def longest_heads(by_head: Float[Tensor, "tokens heads d_model"], n_longest: int) -> Longest:
    """Return the `n_longest` longest vectors that the heads add to each token, and the sum of the other vectors."""
    indices = by_head.norm(dim=-1).argsort(dim=-1, descending=True, stable=True)[:, :n_longest]
    longest = by_head.take_along_dim(indices[:, :, None], dim=1)
    return with_sum_of_others(longest, indices, by_head.sum(dim=1), by_head.shape[1])


def longest_sources(
    weights: Float[Tensor, "heads queries keys"],
    key_vectors: Float[Tensor, "heads keys d_model"],
    total: Float[Tensor, "queries d_model"],
    n_longest: int,
) -> Longest:
    """Return the `n_longest` longest vectors that the key tokens add to each query token, and the sum of the others.

    The vector of one key is the sum over the heads h of w_h u_h: weight times key vector. There are queries × keys such
    vectors, too many to store. So only their norms are computed, from the dot products of the key vectors, and then the
    longest vectors themselves:

        |Σ_h w_h u_h|² = Σ_h Σ_g w_h w_g (u_h · u_g)

    Args:
        weights: the attention weights, w in the equation.
        key_vectors: value · W_O of each key in each head, u in the equation.
        total: for each query token, the sum of the vectors that all key tokens add.
    """
    products = torch.einsum("hkd,gkd->khg", key_vectors, key_vectors)
    weights_by_key = rearrange(weights, "h q k -> k q h")
    products_with_sum = weights_by_key @ products  # [keys queries heads]: u_g · Σ_h w_h u_h for each head g
    squared_norms = rearrange((products_with_sum * weights_by_key).sum(dim=-1), "k q -> q k")
    indices = squared_norms.argsort(dim=-1, descending=True, stable=True)[:, :n_longest]
    longest = []
    for start in range(0, len(indices), QUERIES_AT_ONCE):
        queries = slice(start, start + QUERIES_AT_ONCE)
        keys = indices[queries]
        weights_of_keys = weights[:, queries].take_along_dim(keys[None], dim=2)  # [heads queries n_longest]
        vectors_of_keys = key_vectors[:, keys]  # [heads queries n_longest d_model]
        longest.append(torch.einsum("hqk,hqkd->qkd", weights_of_keys, vectors_of_keys))
    return with_sum_of_others(torch.cat(longest), indices, total, weights.shape[2])


def with_sum_of_others(
    longest: Float[Tensor, "tokens some d_model"],
    indices: Int[Tensor, "tokens some"],
    total: Float[Tensor, "tokens d_model"],
    n_all: int,
) -> Longest:
    """Append the sum of the vectors that are not in `longest`, and the index -1; nothing if `longest` has all vectors.

    `total` is the sum of all `n_all` vectors that are added to each token.
    """
    if indices.shape[1] == n_all:
        return longest, indices
    others = (total - longest.sum(dim=1))[:, None]
    return torch.cat([longest, others], dim=1), torch.cat([indices, indices.new_full((len(indices), 1), -1)], dim=1)


def with_norms(
    coordinates: Float[Tensor, "*shape 2"], vectors: Float[Tensor, "*shape d_model"]
) -> Float[Tensor, "*shape 3"]:
    """Return the two coordinates of each vector in a plane, followed by its norm in all dimensions."""
    return torch.cat([coordinates, vectors.norm(dim=-1, keepdim=True)], dim=-1)


def angle_between(a: Float[Tensor, "*#shape d_model"], b: Float[Tensor, "*#shape d_model"]) -> Float[Tensor, "*shape"]:
    """Return the angles between the vectors in `a` and `b`, in degrees; 0 if a vector is 0."""
    a, b = a.double(), b.double()
    lengths = a.norm(dim=-1) * b.norm(dim=-1)
    cosine = ((a * b).sum(dim=-1) / lengths.clamp(min=1e-300)).clamp(-1, 1)
    return torch.where(lengths > 0, cosine.acos() * (180 / math.pi), 0.0).float()


def nearest_tokens(
    vectors: Float[Tensor, "tokens d_model"],
) -> tuple[Int[Tensor, "tokens nearest"], Float[Tensor, "tokens nearest"]]:
    """Return the positions of the `N_NEAREST` other tokens with the most similar vectors, for each token.

    Similar means a small angle between the vectors; the second result is these angles in degrees.
    """
    unit = vectors.double() / vectors.double().norm(dim=-1, keepdim=True).clamp(min=1e-300)
    # -2 is below every cosine, so no token becomes its own neighbour
    cosines = (unit @ rearrange(unit, "tokens d -> d tokens")).fill_diagonal_(-2.0)
    n_nearest = min(N_NEAREST, len(vectors) - 1)
    nearest = cosines.argsort(dim=-1, descending=True, stable=True)[:, :n_nearest]
    return nearest, (cosines.gather(1, nearest).clamp(-1, 1).acos() * (180 / math.pi)).float()
