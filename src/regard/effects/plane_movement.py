"""How one layer moves the vectors of all tokens, as arrows in a plane, each with its length and its angle.

    before + heads + bias + feed_forward + rest = after          as in `movement`, and so in the plane too

The angle of an arrow is that between the vector itself, in all its dimensions, and the whole move after - before: below
90 degrees it moves the token along, above it holds the token back.
"""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.effects.movement import LayerStates
from regard.effects.plane import Plane

QUERIES_AT_ONCE = 32
"""The number of tokens whose contributions from source tokens are in memory at one time."""

N_NEAREST = 5
"""The number of tokens that are named as the nearest of each token."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """Vectors that were added to each token.

    Attributes:
        places: how far each vector reaches along the axes of the plane, and its length in all dimensions.
        angles: the angle between each vector and the token's whole move, in degrees; 0 for a vector of length 0.
        names: the number of the head or of the source token; -1 = all that have no arrow of their own, together.
    """

    places: Float[Tensor, "tokens arrows 3"]
    angles: Float[Tensor, "tokens arrows"]
    names: Int[Tensor, "tokens arrows"]


@dataclass(frozen=True, slots=True, eq=False)
class LayerArrows:
    """The movement of all tokens in one layer.

    Attributes:
        before, after: the place of each token in the plane, and the length of its vector.
        turned: the angle between each token's vectors before and after, in degrees.
        parts: what attention, the bias of its output, the feed-forward part and the norms in between add, in this
            order; the bias is a part of attention.
        heads, sources: the longest of what heads and source tokens add, the longest first.
        nearest, nearest_angles: the tokens at the smallest angle to each token after the layer, and the angles.
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
def layer_arrows(pattern: Pattern, state: LayerStates, plane: Plane, most: int) -> LayerArrows:
    """Return the movement of all tokens in one layer.

    Args:
        most: the number of heads, and of source tokens, that have an arrow of their own; the others share one.
    """
    change = state.after - state.before
    groups = pattern.n_heads // pattern.value.shape[1]
    values = pattern.value[0].repeat_interleave(groups, dim=0).to(state.projection.weight)
    written = torch.einsum("hkv,hvd->hkd", values, state.projection.weight)  # what a weight of 1 adds
    weights = pattern[0].to(written)
    by_head = torch.einsum("hqk,hkd->qhd", weights, written)
    rest = state.after - state.before - state.attention - state.feed_forward
    parts = torch.stack([state.attention, state.attention - by_head.sum(dim=1), state.feed_forward, rest], dim=1)
    nearest, nearest_angles = nearest_tokens(state.after)
    return LayerArrows(
        before=placed(plane.points(state.before), state.before),
        after=placed(plane.points(state.after), state.after),
        turned=angle_between(state.before, state.after),
        parts=arrows(parts, change, plane, torch.arange(4).expand(len(change), 4)),
        heads=longest_heads(by_head, change, plane, most),
        sources=longest_sources(weights, written, by_head.sum(dim=1), change, plane, most),
        nearest=nearest,
        nearest_angles=nearest_angles,
    )


def longest_heads(
    by_head: Float[Tensor, "tokens heads d_model"], change: Float[Tensor, "tokens d_model"], plane: Plane, most: int
) -> Arrows:
    """Return the longest vectors that heads add to each token, and the sum of the others."""
    names = longest_first(by_head.norm(dim=-1), most)
    own = by_head.gather(1, names[:, :, None].expand(-1, -1, by_head.shape[2]))
    return with_others(own, names, by_head.sum(dim=1), by_head.shape[1], change, plane)


def longest_sources(
    weights: Float[Tensor, "heads queries keys"],
    written: Float[Tensor, "heads keys d_model"],
    total: Float[Tensor, "queries d_model"],
    change: Float[Tensor, "queries d_model"],
    plane: Plane,
    most: int,
) -> Arrows:
    """Return the longest vectors that source tokens add to each token in all heads, and the sum of the others.

    The lengths of all vectors come from the products of the heads' vectors, so that only the longest are computed:

        |sum over heads of w_h u_h|² = sum over heads h, g of w_h w_g (u_h · u_g)
    """
    products = torch.einsum("hkd,gkd->khg", written, written)
    by_key = rearrange(weights, "h q k -> k q h")
    squares = ((by_key @ products) * by_key).sum(dim=-1)
    names = longest_first(squares.T, most)
    own = []
    for start in range(0, len(names), QUERIES_AT_ONCE):
        keys = names[start : start + QUERIES_AT_ONCE]
        of_keys = weights[:, start : start + QUERIES_AT_ONCE].gather(2, keys.expand(len(weights), -1, -1))
        own.append(torch.einsum("hqk,hqkd->qkd", of_keys, written[:, keys]))
    return with_others(torch.cat(own), names, total, weights.shape[2], change, plane)


def longest_first(lengths: Float[Tensor, "tokens all"], most: int) -> Int[Tensor, "tokens some"]:
    """Return the places of the largest lengths of each token, the largest first; equal ones in their order."""
    return lengths.argsort(dim=-1, descending=True, stable=True)[:, :most]


def with_others(
    own: Float[Tensor, "tokens some d_model"],
    names: Int[Tensor, "tokens some"],
    total: Float[Tensor, "tokens d_model"],
    n_all: int,
    change: Float[Tensor, "tokens d_model"],
    plane: Plane,
) -> Arrows:
    """Return vectors as arrows; the last is what is left of the total, if there are more than these vectors."""
    if names.shape[1] < n_all:
        own = torch.cat([own, (total - own.sum(dim=1))[:, None]], dim=1)
        names = torch.cat([names, names.new_full((len(names), 1), -1)], dim=1)
    return arrows(own, change, plane, names)


def arrows(
    vectors: Float[Tensor, "tokens arrows d_model"],
    change: Float[Tensor, "tokens d_model"],
    plane: Plane,
    names: Int[Tensor, "tokens arrows"],
) -> Arrows:
    """Return vectors as arrows in a plane."""
    return Arrows(placed(plane.directions(vectors), vectors), angle_between(vectors, change[:, None]), names)


def placed(where: Float[Tensor, "*shape 2"], vectors: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape 3"]:
    """Return places in the plane with the lengths of the vectors behind them."""
    return torch.cat([where, vectors.norm(dim=-1, keepdim=True)], dim=-1)


def angle_between(a: Float[Tensor, "*#shape d_model"], b: Float[Tensor, "*#shape d_model"]) -> Float[Tensor, "*shape"]:
    """Return the angles between vectors, in degrees; 0 where a vector has length 0."""
    a, b = a.double(), b.double()
    lengths = a.norm(dim=-1) * b.norm(dim=-1)
    cosine = ((a * b).sum(dim=-1) / lengths.clamp(min=1e-300)).clamp(-1, 1)
    return torch.where(lengths > 0, cosine.acos() * (180 / math.pi), 0.0).float()


def nearest_tokens(
    vectors: Float[Tensor, "tokens d_model"],
) -> tuple[Int[Tensor, "tokens nearest"], Float[Tensor, "tokens nearest"]]:
    """Return the tokens whose vectors have the smallest angles to each token's, and these angles in degrees."""
    unit = vectors.double() / vectors.double().norm(dim=-1, keepdim=True).clamp(min=1e-300)
    cosines = (unit @ rearrange(unit, "tokens d -> d tokens")).fill_diagonal_(-2.0)
    n_nearest = min(N_NEAREST, len(vectors) - 1)
    found = cosines.argsort(dim=-1, descending=True, stable=True)[:, :n_nearest]
    return found, (cosines.gather(1, found).clamp(-1, 1).acos() * (180 / math.pi)).float()
