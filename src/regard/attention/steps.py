"""Every intermediate result of one head's attention."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """Every intermediate result of the attention of one head, for one query (without a queries axis) or several.

    With the default score and normaliser:

        products           Q Kᵀ; for scores that are not `ScaledDot`, the scores
        scores             products · scale, then softcap and bias if they are given
        masked             scores, with -∞ where the mask is False
        weights            softmax(masked / temperature), row by row
        weighted_values    each value times its weight
        context            weights V, the sum of the weighted values

    Source: Vaswani et al. 2017, figure 2 (left) and equation 1.
    """

    query: Float[Tensor, "*queries d_query"]
    key: Float[Tensor, "keys d_key"]
    value: Float[Tensor, "keys d_value"]
    products: Float[Tensor, "*queries keys"]
    scores: Float[Tensor, "*queries keys"]
    masked: Float[Tensor, "*queries keys"]
    weights: Float[Tensor, "*queries keys"]
    weighted_values: Float[Tensor, "*queries keys d_value"]
    context: Float[Tensor, "*queries d_value"]
