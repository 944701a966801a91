"""Location scores: computed from the query and the position of each key; the key vectors are not used."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile, entries_at
from regard.attention.scores.score import DotScore, Key, Query, Scores, check_sizes


class Location(nn.Module, DotScore):
    """The score of each key is computed from the query and the position of the key; the key vector is not used.

        scores = W query            row j of W gives the score of the key at position j

    `attend` converts float16 or bfloat16 queries to float32 before they are multiplied by W.

    Departure: the paper ignores keys after the last row of W. Here, more keys than rows of W are an error.

    Args:
        d_query: width of the queries.
        max_keys: the largest number of keys, which is the number of rows of W.

    Raises:
        ValueError: a size is below 1; or, raised by `attend`, there are more than `max_keys` keys.

    >>> import torch
    >>> from regard import Location, attend
    >>> states, memory = torch.randn(1, 1, 3, 5), torch.randn(1, 1, 7, 11)
    >>> attend(states, memory, memory, score=Location(d_query=5, max_keys=13)).pattern
    Pattern(batch=1, heads=1, queries=3, keys=7, score=Location(d_query=5, max_keys=13))

    Source: Luong, Pham & Manning 2015, section 3.1, location-based function.
    """

    def __init__(self, d_query: int, max_keys: int) -> None:
        check_sizes(d_query=d_query, max_keys=max_keys)
        super().__init__()
        self.d_query, self.max_keys = d_query, max_keys
        self.weight = nn.Parameter(torch.empty(max_keys, d_query))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the matrix W by the Xavier uniform distribution (Glorot & Bengio 2010)."""
        nn.init.xavier_uniform_(self.weight)

    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "query_batch heads queries d_query"], Float[Tensor, "1 key_heads keys d_query"]]:
        rows = self.weight[: key.shape[2]].to(query)
        return query, rows.expand(1, key.shape[1], -1, -1)

    def forward(self, query: Query, key: Key, tile: Tile) -> Scores:
        return query @ entries_at(self.weight, 0, tile.keys).to(query).mT

    def check(self, grid: Grid) -> None:
        if grid.keys > self.max_keys:
            raise ValueError(
                f"there are {grid.keys} keys and this Location has scores for {self.max_keys} positions; "
                f"build it with max_keys={grid.keys} or more, or give fewer keys."
            )

    def check_widths(self, d_query: int, d_key: int) -> None:
        if d_query != self.d_query:
            raise ValueError(
                f"query has width {d_query}; this Location was built for queries of width {self.d_query}, and its "
                "parameters fit no others."
            )

    def extra_repr(self) -> str:
        return f"d_query={self.d_query}, max_keys={self.max_keys}"
