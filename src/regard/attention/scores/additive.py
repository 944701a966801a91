"""Additive scores: a small network of one hidden layer scores each key for a query."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.grid.grid import Tile
from regard.attention.scores.prepared import Preparable, Projected
from regard.attention.scores.score import Key, Query, Scores, check_sizes
from regard.attention.scores.tiling import in_tiles


def additive_scores(
    query: Float[Tensor, "batch heads queries d_hidden"],
    key: Float[Tensor, "batch heads keys d_hidden"],
    vector: Float[Tensor, " d_hidden"],
) -> Scores:
    """Return v · tanh(W query + U key) for every query and key, given W query, U key and the vector v."""
    hidden = torch.tanh(query[:, :, :, None] + key[:, :, None])
    return hidden @ vector


class Additive(nn.Module, Preparable):
    """Additive attention: a small network scores each key.

        scores = v · tanh(W query + U key)

    Queries and keys may have different widths. All heads share one network. Time is proportional to queries × keys ×
    d_hidden. Memory grows linearly with the numbers of queries and keys, since the hidden layer is computed block by
    block.

    Args:
        d_query, d_key: widths of the queries and of the keys.
        d_hidden: width of the hidden layer; W is [d_hidden d_query], U is [d_hidden d_key], v is [d_hidden].

    Raises:
        ValueError: a size is below 1.

    >>> import torch
    >>> from regard import Additive, attend
    >>> states, memory = torch.randn(1, 1, 3, 5), torch.randn(1, 1, 7, 11)
    >>> attend(states, memory, memory, score=Additive(d_query=5, d_key=11, d_hidden=13)).pattern
    Pattern(batch=1, heads=1, queries=3, keys=7, score=Additive(d_query=5, d_key=11, d_hidden=13))

    Source: Bahdanau, Cho & Bengio 2015, appendix A.1.2.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        check_sizes(d_query=d_query, d_key=d_key, d_hidden=d_hidden)
        super().__init__()
        self.d_query, self.d_key, self.d_hidden = d_query, d_key, d_hidden
        # scores = v · tanh(W query + U key), where v is `vector`, W is `query_weight` and U is `key_weight`
        self.vector = nn.Parameter(torch.empty(d_hidden))
        self.query_weight = nn.Parameter(torch.empty(d_hidden, d_query))
        self.key_weight = nn.Parameter(torch.empty(d_hidden, d_key))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the matrices W and U by the Xavier uniform distribution (Glorot & Bengio 2010).

        The vector v is initialised uniformly in ±1 / √d_hidden.

        Departure: Bahdanau et al. initialise v to 0 and the matrices near 0, and train with Adadelta.
        """
        nn.init.xavier_uniform_(self.query_weight)
        nn.init.xavier_uniform_(self.key_weight)
        nn.init.uniform_(self.vector, -1 / math.sqrt(self.d_hidden), 1 / math.sqrt(self.d_hidden))

    def forward(self, query: Query, key: Key, tile: Tile) -> Scores:
        return self.of_prepared(query, self.prepare(key), tile)

    def prepare(self, key: Key) -> Projected:
        return key @ self.key_weight.to(key).mT

    def of_prepared(self, query: Query, key: Projected, tile: Tile) -> Scores:
        query = query @ self.query_weight.to(query).mT
        return in_tiles(additive_scores, query, key, self.vector.to(query))  # blocks of queries × keys

    def extra_repr(self) -> str:
        return f"d_query={self.d_query}, d_key={self.d_key}, d_hidden={self.d_hidden}"
