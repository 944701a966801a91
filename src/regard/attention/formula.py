"""Softmax attention as kernels compute it: the numbers and tensors of one formula, read from score and normaliser.

scores  = softcap · tanh(scale · query · key / softcap) + bias
weights = softmax(scores / temperature)          with the head's sink as one more score, if there are sinks
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.biases.bias import Bias
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import DotScore, Score


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """The numbers and tensors that define softmax attention.

    Attributes:
        scale: multiplies the dot products of queries and keys.
        softcap: bounds the scaled dot products to ±softcap; None = no bound.
        bias: is added to the scores, before they are divided by the temperature; None = no bias.
        temperature: divides the scores; 0 = all weight on the largest score.
        sinks: one extra score for each head; None = no sinks.
        projection: maps queries and keys to vectors whose dot products are the scores; None = queries and keys are
            used as they are.
        other_score: computes scores that are not dot products; of the other attributes, only temperature and sinks
            then have an effect. None = the scores are dot products.
    """

    scale: float
    softcap: float | None
    bias: Float[Tensor, "*shape"] | Bias | None
    temperature: float
    sinks: Float[Tensor, " heads"] | None
    projection: DotScore | None = None
    other_score: Score | None = None

    @classmethod
    def of(cls, score: Score, normalise: Normaliser, d_key: int) -> "Formula | None":
        """Return the formula of a score and a normaliser for keys of width `d_key`.

        None if the normaliser is not softmax.
        """
        if not isinstance(normalise, Softmax):
            return None
        temperature, sinks = normalise.temperature, normalise.sinks
        if isinstance(score, ScaledDot):
            return cls(score.factor(d_key), score.softcap, score.bias, temperature, sinks)
        if isinstance(score, DotScore):
            return cls(1.0, None, None, temperature, sinks, projection=score)
        return cls(1.0, None, None, temperature, sinks, other_score=score)

    def bias_numbers(
        self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "#batch #heads #queries #keys"]:
        """Return the numbers that the bias adds to the scores of a tile; the bias must not be None.

        A `Bias` rule computes them on `device` in `dtype`; a bias tensor is indexed and keeps its own device and type.
        """
        assert self.bias is not None
        return self.bias(tile, device, dtype) if isinstance(self.bias, Bias) else tile.select(self.bias)

    def vectors(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        """Return the projected queries and keys, whose dot products give the scores.

        Without a projection, they are the arguments.
        """
        return (query, key) if self.projection is None else self.projection.as_dot(query, key)
