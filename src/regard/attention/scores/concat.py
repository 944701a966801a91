"""Concat scores: additive attention whose network takes the concatenation of query and key."""

import math

import torch
from torch import nn

from regard.attention.grid.grid import Tile
from regard.attention.scores.additive import additive_scores
from regard.attention.scores.prepared import Preparable, Projected
from regard.attention.scores.score import Key, Query, Scores, check_sizes
from regard.attention.scores.tiling import in_tiles


class Concat(nn.Module, Preparable):
    """Additive attention: a small network whose input is the concatenation of query and key.

        scores = v · tanh(W [query ; key]) = v · tanh(W_query query + W_key key)

    `Additive` computes the same function with two separate matrices. Here W_query and W_key are the two parts of one
    matrix W, [d_hidden d_query+d_key].

    Args:
        d_query, d_key: widths of the queries and of the keys.
        d_hidden: width of the hidden layer.

    Raises:
        ValueError: a size is below 1.

    >>> from regard import Concat
    >>> Concat(d_query=5, d_key=11, d_hidden=13)
    Concat(d_query=5, d_key=11, d_hidden=13)

    Source: Luong, Pham & Manning 2015, section 3.1, concat.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        check_sizes(d_query=d_query, d_key=d_key, d_hidden=d_hidden)
        super().__init__()
        self.d_query, self.d_key, self.d_hidden = d_query, d_key, d_hidden
        # scores = v · tanh(W [query ; key]), where v is `vector` and W is `weight`
        self.vector = nn.Parameter(torch.empty(d_hidden))
        self.weight = nn.Parameter(torch.empty(d_hidden, d_query + d_key))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the matrix W by the Xavier uniform distribution (Glorot & Bengio 2010).

        The vector v is initialised uniformly in ±1 / √d_hidden.
        """
        nn.init.xavier_uniform_(self.weight)
        nn.init.uniform_(self.vector, -1 / math.sqrt(self.d_hidden), 1 / math.sqrt(self.d_hidden))

    def forward(self, query: Query, key: Key, tile: Tile) -> Scores:
        return self.of_prepared(query, self.prepare(key), tile)

    def prepare(self, key: Key) -> Projected:
        return key @ self.weight[:, self.d_query :].to(key).mT

    def of_prepared(self, query: Query, key: Projected, tile: Tile) -> Scores:
        query = query @ self.weight[:, : self.d_query].to(query).mT
        return in_tiles(additive_scores, query, key, self.vector.to(query))

    def extra_repr(self) -> str:
        return f"d_query={self.d_query}, d_key={self.d_key}, d_hidden={self.d_hidden}"
