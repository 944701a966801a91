"""The parameters of softmax attention (scale, softcap, bias, temperature, sinks), read from score and normaliser.

scores  = softcap · tanh(scale · query · key / softcap) + bias
weights = softmax(scores / temperature)          a sink is one more score in a head's softmax, which belongs to no key
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.biases.bias import Bias
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import DotScore, Score


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxFormula:
    """The parameters of softmax attention, in the form that the kernels need.

    Attributes:
        scale: the factor of the dot products of queries and keys.
        softcap: the scaled dot products are bounded to ±softcap by tanh; None = no bound.
        bias: numbers added to the scores before the division by the temperature; None = no bias.
        temperature: the divisor of the scores; 0 = all weight on the largest score, shared by ties.
        sinks: an extra score in each head's softmax that belongs to no key; None = no sinks.
        projection: a score that maps queries and keys to vectors whose dot products are the scores; None = queries and
            keys are used unchanged.
        other_score: a score that is not a dot product; scale, softcap, bias and projection are then not used. None =
            the scores are dot products.
    """

    scale: float
    softcap: float | None
    bias: Float[Tensor, "*shape"] | Bias | None
    temperature: float
    sinks: Float[Tensor, " heads"] | None
    projection: DotScore | None = None
    other_score: Score | None = None

    @classmethod
    def of(cls, score: Score, normalise: Normaliser, d_key: int) -> "SoftmaxFormula | None":
        """Return the parameters of softmax attention for a score, a normaliser and keys of width `d_key`.

        Return None if the normaliser is not softmax.
        """
        if not isinstance(normalise, Softmax):
            return None
        temperature, sinks = normalise.temperature, normalise.sinks
        if isinstance(score, ScaledDot):
            return cls(score.factor(d_key), score.softcap, score.bias, temperature, sinks)
        if isinstance(score, DotScore):
            return cls(1.0, None, None, temperature, sinks, projection=score)
        return cls(1.0, None, None, temperature, sinks, other_score=score)

    def vectors(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        """Return the projected queries and keys, whose dot products are the scores.

        Without a projection, `query` and `key` are returned unchanged.
        """
        return (query, key) if self.projection is None else self.projection.as_dot(query, key)
