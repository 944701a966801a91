"""Location scores: where a query looks follows from the query alone, whatever the keys hold.

scores = W query            key j's score is row j
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile, select_positions
from regard.attention.scores.score import DotScore, check_sizes


class Location(nn.Module, DotScore):
    """A score for each place in the source, from the query only.

        scores = W query            key j's score is row j

    Half-precision inputs are matched in float32, as the pattern shows them.

    Departure: the paper leaves the keys past the last row of W out; here they are refused, so that none is lost unseen.

    Args:
        d_query: width of the queries.
        max_keys: how many places W has scores for; fewer keys use its first rows.

    Raises:
        ValueError: a size below 1.

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
        self.weight = nn.Parameter(torch.empty(max_keys, d_query))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """From a uniform distribution that keeps the size of what comes in (Glorot & Bengio 2010)."""
        nn.init.xavier_uniform_(self.weight)

    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "query_batch heads queries d_query"], Float[Tensor, "1 key_heads keys d_query"]]:
        """The query as it is, and a row of W in place of each key."""
        rows = self.weight[: key.shape[2]].to(query)
        return query, rows.expand(1, key.shape[1], -1, -1)

    def forward(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile: the rows of W for the places of its keys."""
        return query @ select_positions(self.weight, 0, tile.keys).to(query).mT

    def check(self, grid: Grid) -> None:
        """There must be a row of W for each key."""
        if grid.keys > len(self.weight):
            raise ValueError(
                f"there are {grid.keys} keys and this Location has scores for {len(self.weight)} places; "
                f"build it with max_keys={grid.keys} or more, or cut the keys."
            )

    def check_widths(self, d_query: int, d_key: int) -> None:
        """The queries' width must be that of W; the keys' is not used."""
        if d_query != self.weight.shape[1]:
            raise ValueError(
                f"query has width {d_query}; this Location was built for queries of width {self.weight.shape[1]}, "
                "and its parameters fit no others."
            )

    def extra_repr(self) -> str:
        """The width, and the most keys."""
        return f"d_query={self.weight.shape[1]}, max_keys={len(self.weight)}"
