"""Movement: how each layer changes the vector of a token, split into heads, key tokens and feed-forward network.

    before + attention + feed_forward + rest = after           in every layer
    attention = sum over heads + bias = sum over key tokens + bias

In a pre-norm model `rest` is 0, since a layer only adds its parts to the token's vector. In a post-norm model such as
BERT, `rest` is the change made by the layer norms after the additions; in a model such as Gemma 2, which normalises
each part before it is added, `rest` is the change made by these norms. In the decoder of an encoder-decoder, `rest`
also contains what cross-attention adds.

Source: the residual stream of Elhage et al. 2021, "A mathematical framework for transformer circuits".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.representation import Described
from regard.effects.contributions import OutputProjection, contributions


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LayerStates(Described):
    """The vectors of all tokens before, inside and after one layer, and the layer's output projection.

    Attributes:
        before, after: the vectors before and after the layer.
        attention: the output of the layer's attention, including the bias of the output projection.
        feed_forward: the output of the layer's feed-forward network.
        projection: the output projection of the layer's attention.
    """

    before: Float[Tensor, "queries d_model"]
    attention: Float[Tensor, "queries d_model"]
    feed_forward: Float[Tensor, "queries d_model"]
    after: Float[Tensor, "queries d_model"]
    projection: OutputProjection

    def to(self, dtype: torch.dtype) -> "LayerStates":
        return LayerStates(
            before=self.before.to(dtype),
            attention=self.attention.to(dtype),
            feed_forward=self.feed_forward.to(dtype),
            after=self.after.to(dtype),
            projection=self.projection.to(dtype),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Movement(Described):
    """How each layer changes the vector of one token.

    Attributes:
        layers: the numbers of the layers; the first axis of all tensors.
        before: the token's vector before each layer.
        attention: the vector that the layer's attention adds.
        by_head: the vector that each head adds, without the bias of the output projection.
        by_source: the vector that each key token (source) adds, summed over all heads, also without the bias.
        feed_forward: the vector that the feed-forward network adds.
        rest: the remaining change, such as the change made by layer norms.
        after: the token's vector after each layer.
    """

    layers: tuple[int, ...]
    before: Float[Tensor, "layers d_model"]
    attention: Float[Tensor, "layers d_model"]
    by_head: Float[Tensor, "layers heads d_model"]
    by_source: Float[Tensor, "layers keys d_model"]
    feed_forward: Float[Tensor, "layers d_model"]
    rest: Float[Tensor, "layers d_model"]
    after: Float[Tensor, "layers d_model"]

    @property
    def bias(self) -> Float[Tensor, "layers d_model"]:
        """The bias of each layer's output projection: `attention` minus the sum of `by_head` over the heads."""
        return self.attention - self.by_head.sum(dim=1)


def movement(patterns: Mapping[int, Pattern], states: Sequence[LayerStates], token: int) -> Movement:
    """Return how each layer changes the vector of the token at a position.

    `patterns` are the layers' patterns by layer number, each with one batch item; `states` are in the same order. The
    result is in float64 for a model in float64, otherwise in float32.
    """
    added = [
        contributions(pattern, token, state.projection).vectors  # [heads keys d_model]
        for pattern, state in zip(patterns.values(), states, strict=True)
    ]
    parts = {
        name: torch.stack([getattr(state, name)[token] for state in states]).to(added[0])
        for name in ("before", "attention", "feed_forward", "after")
    }
    return Movement(
        layers=tuple(patterns),
        by_head=torch.stack([vectors.sum(dim=1) for vectors in added]),
        by_source=torch.stack([vectors.sum(dim=0) for vectors in added]),
        rest=parts["after"] - parts["before"] - parts["attention"] - parts["feed_forward"],
        **parts,
    )
