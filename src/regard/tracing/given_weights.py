"""A pattern of weights that are given as numbers, and not computed from queries and keys."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Tile, with_four_axes
from regard.attention.pattern import Pattern
from regard.attention.representation import type_name
from regard.attention.scores.score import Score
from regard.errors import InputError
from regard.tracing.merged_pattern import Identity


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GivenWeights(Score):
    """Attention weights that are known already, as a score; the normaliser `Identity` returns them as weights.

    `may_attend` is the mask of the weights, True = may attend; None = True everywhere. Queries and keys have the shape
    of the weights, and numbers that are not used.
    """

    numbers: Float[Tensor, "batch heads queries keys"]
    may_attend: Bool[Tensor, "batch heads queries keys"] | None = None

    def __call__(
        self, query: Float[Tensor, "batch heads queries 1"], key: Float[Tensor, "batch heads keys 1"], tile: Tile
    ) -> Float[Tensor, "batch heads queries keys"]:
        return tile.select(self.numbers)

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        return None if self.may_attend is None else tile.select(self.may_attend)

    def __repr__(self) -> str:
        return "GivenWeights()"


def pattern_of_weights(
    weights: Float[Tensor, "batch heads queries keys"],
    may_attend: Bool[Tensor, "batch heads queries keys"] | None = None,
) -> Pattern:
    """Return a pattern of given weights; `may_attend` is their mask, None = True everywhere."""
    query, key = (weights.new_zeros(*weights.shape[:2], n, 1) for n in weights.shape[2:])  # only their shape is used
    score = GivenWeights(weights, may_attend)
    return Pattern(Call.of(query, key, value=key, score=score, mask=None, normalise=Identity()))


def pattern_of_item(weights: object, batch: int) -> Pattern:
    """Return a `Pattern` whose first batch item is item `batch` of `weights`, a `Pattern` or a tensor of floats."""
    if isinstance(weights, Tensor) and weights.is_floating_point():
        if not 2 <= weights.ndim <= 4 or not weights.numel():
            raise InputError(
                f"weights of shape {list(weights.shape)}; give [queries keys], [heads queries keys] or "
                "[batch heads queries keys], none of size 0."
            )
        weights = pattern_of_weights(with_four_axes(weights.detach().float()))
    if not isinstance(weights, Pattern):
        raise TypeError(f"weights is {type_name(weights)}; give a Pattern or a floating-point tensor of weights.")
    pattern = weights
    if not 0 <= batch < len(pattern):
        raise InputError(f"batch={batch} of a batch of {len(pattern)}; items are counted from 0.")
    if batch == 0:
        return pattern
    tile = pattern.grid.whole().part(batch=range(batch, batch + 1))
    keep = pattern.keep(tile)
    return pattern_of_weights(pattern.weights(tile).detach(), None if keep is None else keep.expand(tile.shape))
