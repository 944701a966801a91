"""Softmax: weights in proportion to the exponential of the scores."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.constant import constant
from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.temperature import check_temperature
from regard.attention.representation import type_name
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Softmax(EqualFields, Normaliser):
    """Weights in proportion to the exponential of the scores; they sum to 1 for each query, or less with sinks.

        weights = softmax(scores / temperature)         over the keys to which the query may attend

    Args:
        temperature: the divisor of the scores. 0 = all weight on the largest score, divided equally if several scores
            are the largest; large = nearly uniform weights.
        sinks: one extra score for each head. It takes part in the softmax but belongs to no key, so the weights of a
            query on the keys sum to less than 1. It is learned if it is an nn.Parameter. None = no sinks.

    Raises:
        ValueError: temperature is negative, infinite, or so small that scores divided by it overflow float32; or,
            raised by `attend`, sinks does not have one number for each head.
        TypeError: sinks is neither a tensor nor None; or temperature is a tensor that requires gradients.

    Source: Vaswani et al. 2017, equation 1; temperature: Hinton, Vinyals & Dean 2015, equation 1; sinks: gpt-oss model
    card 2025, section 2.3.
    """

    temperature: float = 1.0
    sinks: Float[Tensor, " heads"] | None = None

    def __post_init__(self) -> None:
        instead = "give float(temperature), or attend(query / temperature, …), which can be learned"
        object.__setattr__(self, "temperature", constant("Softmax", "temperature", self.temperature, instead))
        check_temperature(self.temperature)
        if self.sinks is not None and not isinstance(self.sinks, Tensor):
            raise TypeError(
                f"sinks is {type_name(self.sinks)}; it takes a tensor of one number for each head, or None."
            )

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        if self.sinks is None:
            return self._softmax(masked_scores)
        sinks = tile.select(self.sinks[:, None, None]).to(masked_scores).expand(*masked_scores.shape[:-1], 1)
        return self._softmax(torch.cat([masked_scores, sinks], dim=-1))[..., :-1]

    def _softmax(self, scores: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
        if self.temperature == 0:
            is_largest = (scores == scores.amax(dim=-1, keepdim=True)).to(scores)
            return is_largest / is_largest.sum(dim=-1, keepdim=True)
        if self.temperature != 1:  # a division by 1 would copy all scores
            scores = scores / self.temperature
        return torch.softmax(scores, dim=-1)

    def check(self, grid: Grid) -> None:
        if self.sinks is not None and self.sinks.shape != (grid.heads,):
            raise ValueError(
                f"sinks of shape {list(self.sinks.shape)} with {grid.heads} heads; give one number for each head."
            )
