"""How the layers of a model move a token's vector, and what moved it: each head, each source token, the feed-forward.

    before + attention + feed_forward + rest = after           in every layer
    attention = sum over heads + bias = sum over sources + bias

`rest` is what lies between these parts: 0 where the parts are only added (layer norm at their inputs), and the change
by the norms where these come after the addition, as in BERT.

Source: the residual stream of Elhage et al. 2021, "A mathematical framework for transformer circuits".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.effects.contributions import OutputProjection, contributions


@dataclass(frozen=True, slots=True, eq=False)
class LayerStates:
    """The vectors of all tokens before, inside and after a layer, and the layer's output projection.

    Attributes:
        before: the input of the layer.
        attention: the output of its attention, with the bias of the output projection.
        feed_forward: the output of its feed-forward part.
        after: the output of the layer.
    """

    before: Float[Tensor, "queries d_model"]
    attention: Float[Tensor, "queries d_model"]
    feed_forward: Float[Tensor, "queries d_model"]
    after: Float[Tensor, "queries d_model"]
    projection: OutputProjection


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """How the layers move the vector of one token.

    Attributes:
        layers: the numbers of the layers.
        before: the token's vector before each layer.
        attention: what the layer's attention adds.
        by_head: what each head adds, without the bias of the output projection.
        by_source: what each source token adds, in all heads together.
        feed_forward: what the feed-forward part adds.
        rest: what is left: the change by norms that come after an addition.
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


def movement(layers: Sequence[int], patterns: Sequence[Pattern], states: Sequence[LayerStates], token: int) -> Movement:
    """Return how layers move the vector of a token, from the pattern and the states of each layer."""
    added = [
        contributions(pattern, token, state.projection).vectors for pattern, state in zip(patterns, states, strict=True)
    ]
    parts = {
        name: torch.stack([getattr(state, name)[token] for state in states])
        for name in ("before", "attention", "feed_forward", "after")
    }
    return Movement(
        layers=tuple(layers),
        by_head=torch.stack([vectors.sum(dim=1) for vectors in added]),
        by_source=torch.stack([vectors.sum(dim=0) for vectors in added]),
        rest=parts["after"] - parts["before"] - parts["attention"] - parts["feed_forward"],
        **parts,
    )
