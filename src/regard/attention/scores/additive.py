"""Additive scores: a small network of one hidden layer scores each key for a query.

    Additive    scores = v · tanh(W query + U key)
    Concat      scores = v · tanh(W [query ; key])

The hidden layer has queries × keys × d_hidden numbers. It is computed for a few queries at a time and never kept;
the backward pass computes it again. That of a single query, a step of a decoder, is no larger than the
projected keys: it is computed at once.

Source: Bahdanau, Cho & Bengio 2015, appendix A.1.2; Luong, Pham & Manning 2015, section 3.1, concat.
"""

import math
from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.gradients import checkpointed
from regard.attention.grid.grid import Tile, is_symbolic
from regard.attention.scores.prepared import Preparable
from regard.attention.scores.score import check_built_for, check_sizes

TILE_NUMBERS = 2**18
"""Numbers of the hidden layer that are computed at one time: 1 MiB of float32."""


def additive_scores(
    query: Float[Tensor, "batch heads queries d_hidden"],
    key: Float[Tensor, "batch heads keys d_hidden"],
    vector: Float[Tensor, " d_hidden"],
) -> Float[Tensor, "batch heads queries keys"]:
    """vector · tanh(query + key) for queries and keys that are projected already, tile by tile."""
    if is_symbolic(query.shape[2]) or query.shape[2] == 1:
        return hidden_layer(query, key, vector)
    places = TILE_NUMBERS // max(1, query.shape[0] * query.shape[1] * query.shape[3])
    side = max(1, math.isqrt(places))  # square tiles: a backward pass adds the fewest gradients up
    queries, keys = torch.split(query, side, dim=2), torch.split(key, side, dim=2)
    rows = [torch.cat([checkpointed(hidden_layer, q, k, vector) for k in keys], dim=3) for q in queries]
    return torch.cat(rows, dim=2)


def hidden_layer(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """The network of one tile."""
    return torch.tanh(query[:, :, :, None] + key[:, :, None]) @ vector


class Network(nn.Module, Preparable):
    """What `Additive` and `Concat` share: the network, whichever way its first matrix is kept."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        check_sizes(d_query=d_query, d_key=d_key, d_hidden=d_hidden)
        super().__init__()
        self.d_query, self.d_key, self.d_hidden = d_query, d_key, d_hidden
        self.vector = nn.Parameter(torch.empty(d_hidden))

    @abstractmethod
    def matrices(self) -> tuple[Float[Tensor, "d_hidden d_query"], Float[Tensor, "d_hidden d_key"]]:
        """W and U."""

    def reset_parameters(self) -> None:
        """From uniform distributions that keep the size of what comes in (Glorot & Bengio 2010).

        Departure: Bahdanau et al. start v at 0 and the matrices next to it, which needs their optimiser.
        """
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.xavier_uniform_(parameter)
        bound = 1 / math.sqrt(self.d_hidden)
        nn.init.uniform_(self.vector, -bound, bound)

    def prepare(self, key: Float[Tensor, "batch heads keys d_key"]) -> Float[Tensor, "batch heads keys d_hidden"]:
        """U key."""
        return key @ self.matrices()[1].to(key).mT

    def of_prepared(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_hidden"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and from keys that U has projected."""
        return additive_scores(query @ self.matrices()[0].to(query).mT, key, self.vector.to(query))

    forward = Preparable.__call__

    def check_widths(self, d_query: int, d_key: int) -> None:
        """The widths must be those of W and U."""
        check_built_for(self, (self.d_query, self.d_key), (d_query, d_key))

    def extra_repr(self) -> str:
        """The sizes."""
        return f"d_query={self.d_query}, d_key={self.d_key}, d_hidden={self.d_hidden}"


class Additive(Network):
    """Additive attention: a small network scores each key.

        scores = v · tanh(W query + U key)

    Suits queries and keys of different widths. Time grows with queries × keys × d_hidden, memory with neither product.
    One network serves all heads.

    Args:
        d_query, d_key: widths of the queries and of the keys.
        d_hidden: width of the hidden layer; W is [d_hidden d_query], U is [d_hidden d_key], v has d_hidden numbers.

    Raises:
        ValueError: a size below 1.

    >>> import torch
    >>> from regard import Additive, attend
    >>> states, memory = torch.randn(1, 1, 3, 5), torch.randn(1, 1, 7, 11)
    >>> attend(states, memory, memory, score=Additive(d_query=5, d_key=11, d_hidden=13)).pattern
    Pattern(batch=1, heads=1, queries=3, keys=7, score=Additive(d_query=5, d_key=11, d_hidden=13))

    Source: Bahdanau, Cho & Bengio 2015, appendix A.1.2.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__(d_query, d_key, d_hidden)
        self.query_weight = nn.Parameter(torch.empty(d_hidden, d_query))
        self.key_weight = nn.Parameter(torch.empty(d_hidden, d_key))
        self.reset_parameters()

    def matrices(self) -> tuple[Float[Tensor, "d_hidden d_query"], Float[Tensor, "d_hidden d_key"]]:
        """W and U."""
        return self.query_weight, self.key_weight


class Concat(Network):
    """Additive attention as Luong et al. write it: the network sees query and key as one vector.

        scores = v · tanh(W [query ; key])

    The same function as `Additive`, with W and U side by side in one matrix [d_hidden d_query+d_key].

    Args:
        d_query, d_key: widths of the queries and of the keys.
        d_hidden: width of the hidden layer.

    Raises:
        ValueError: a size below 1.

    >>> from regard import Concat
    >>> Concat(d_query=5, d_key=11, d_hidden=13)
    Concat(d_query=5, d_key=11, d_hidden=13)

    Source: Luong, Pham & Manning 2015, section 3.1, concat.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__(d_query, d_key, d_hidden)
        self.weight = nn.Parameter(torch.empty(d_hidden, d_query + d_key))
        self.reset_parameters()

    def matrices(self) -> tuple[Float[Tensor, "d_hidden d_query"], Float[Tensor, "d_hidden d_key"]]:
        """The part of W that meets the query, and the part that meets the key."""
        return self.weight[:, : self.d_query], self.weight[:, self.d_query :]
