"""Contributions: the vector that each key adds to a token, its weight times its value times the output projection.

    vector of key k, from head h = weight[q, k] · value[k] · W_O[h]

A weight alone does not say how much a key matters: its value may be short, as that of a separator often is.

Source: Kobayashi et al. 2020, "Attention is not only a weight", section 3.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern


@dataclass(frozen=True, slots=True, eq=False)
class OutputProjection:
    """The linear layer that maps the contexts of all heads to the width of the model.

    Attributes:
        weight: the matrix W_O, a part for each head.
        bias: the bias; None = no bias.
    """

    weight: Float[Tensor, "heads d_value d_model"]
    bias: Float[Tensor, " d_model"] | None

    def __call__(self, context: Float[Tensor, "1 heads queries d_value"]) -> Float[Tensor, "queries d_model"]:
        """Return the output of attention for these contexts."""
        output = torch.einsum("hqv,hvd->qd", context[0], self.weight)
        return output if self.bias is None else output + self.bias


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """The vectors that the keys add to one query, in one head or in each head of a layer.

    Attributes:
        vectors: for each key, weight · value · W_O.
        lengths: the Euclidean length of each vector.
    """

    vectors: Float[Tensor, "*heads keys d_model"]
    lengths: Float[Tensor, "*heads keys"]


def contributions(pattern: Pattern, query: int, projection: OutputProjection) -> Contributions:
    """Return the vectors that the keys add to one query, for each head of a pattern with one batch item."""
    with torch.no_grad():
        weights = pattern[0, :, query].to(projection.weight)
        groups = pattern.n_heads // pattern.value.shape[1]
        values = pattern.value[0].repeat_interleave(groups, dim=0).to(projection.weight)
        vectors = torch.einsum("hk,hkv,hvd->hkd", weights, values, projection.weight)
    return Contributions(vectors, vectors.norm(dim=-1))
