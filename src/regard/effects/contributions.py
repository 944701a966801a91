"""Contributions: the vector that each key adds to the query's token: weight · value · output projection.

    vector of key k, from head h = weight[q, k] · value[k] · W_O[h]

A large weight does not mean a large effect: the value of the key may have a small norm, as for separators.

Source: Kobayashi et al. 2020, "Attention is not only a weight", section 3.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.representation import Described


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OutputProjection(Described):
    """The output projection of multi-head attention: it maps the contexts of all heads to a vector of width d_model.

    Attributes:
        weight: the matrix W_O, split into one matrix for each head.
        bias: the vector that is added to the product with W_O; None = no bias.
    """

    weight: Float[Tensor, "heads d_value d_model"]
    bias: Float[Tensor, " d_model"] | None

    def to(self, dtype: torch.dtype) -> "OutputProjection":
        return OutputProjection(self.weight.to(dtype), None if self.bias is None else self.bias.to(dtype))

    def __call__(self, context: Float[Tensor, "1 heads queries d_value"]) -> Float[Tensor, "queries d_model"]:
        output = torch.einsum("hqv,hvd->qd", context[0], self.weight)
        return output if self.bias is None else output + self.bias


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions(Described):
    """The vectors that the keys add to the token of one query, in one head or in each head of a layer.

    Attributes:
        vectors: for each key, its attention weight · its value · W_O.
        lengths: the Euclidean norm of each vector.
    """

    vectors: Float[Tensor, "*heads keys d_model"]
    lengths: Float[Tensor, "*heads keys"]


def value_vectors(
    pattern: Pattern, weight: Float[Tensor, "heads d_value d_model"]
) -> Float[Tensor, "heads keys d_model"]:
    """Return value · W_O for each key in each head: the vector that a key of weight 1 adds to the query's token.

    `weight` is W_O; `pattern` has one batch item.
    """
    group = pattern.n_heads // pattern.value.shape[1]  # the number of query heads that share a value head
    return torch.einsum("hkv,hvd->hkd", pattern.value[0].repeat_interleave(group, dim=0).to(weight), weight)


@torch.no_grad()
def contributions(pattern: Pattern, query: int, projection: OutputProjection) -> Contributions:
    """Return the vectors that the keys add to one query, in each head of a layer; `pattern` has one batch item.

    They are computed in the type of the weights: float32, also for a model in a smaller type, or float64.
    """
    weights = pattern[0, :, query]  # [heads keys]
    vectors = weights[:, :, None] * value_vectors(pattern, projection.weight.to(weights))
    return Contributions(vectors, vectors.norm(dim=-1))
