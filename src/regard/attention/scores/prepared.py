"""Prepared keys: a decoder that attends to the same keys at every step projects these keys only once.

projected = score.prepare(key)                                      once
scores = attend(query, projected, value, score=Prepared(score))     in each step
"""

from abc import abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.scores.score import Key, Query, Score, Scores, check_built_for
from regard.attention.stages import EqualFields

Projected = Float[Tensor, "batch heads keys d_hidden"]
"""Keys that a learned matrix has projected to the width d_hidden."""


class Preparable(Score):
    """The base class of scores that project the keys by a learned matrix, independently of the queries."""

    d_query: int
    d_key: int
    d_hidden: int

    @abstractmethod
    def prepare(self, key: Key) -> Projected:
        """Return the projected keys, which can be used with the queries of many decoding steps."""

    @abstractmethod
    def of_prepared(self, query: Query, key: Projected, tile: Tile) -> Scores:
        """Return the score of every query with every key, given keys that `prepare` has projected."""

    def __call__(self, query: Query, key: Key, tile: Tile) -> Scores:
        return self.of_prepared(query, self.prepare(key), tile)

    def check_widths(self, d_query: int, d_key: int) -> None:
        check_built_for(self, (self.d_query, self.d_key), (d_query, d_key))


@dataclass(frozen=True, slots=True, eq=False)
class Prepared(EqualFields, Score):
    """A score for keys that `score.prepare` has projected already, so that `attend` does not project them again.

    >>> import torch
    >>> from regard import Additive, attend
    >>> states, memory, score = torch.randn(1, 1, 3, 5), torch.randn(1, 1, 7, 11), Additive(5, 11, 13)
    >>> key = score.prepare(memory)
    >>> attended = attend(states, key, memory, score=Prepared(score))
    >>> torch.allclose(attended.context, attend(states, memory, memory, score=score).context, atol=1e-6)
    True
    """

    score: Preparable

    def __call__(self, query: Query, key: Projected, tile: Tile) -> Scores:
        return self.score.of_prepared(query, key, tile)

    def check(self, grid: Grid) -> None:
        self.score.check(grid)

    def check_widths(self, d_query: int, d_key: int) -> None:
        check_built_for(self, (self.score.d_query, self.score.d_hidden), (d_query, d_key))
