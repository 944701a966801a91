"""Shaw's relative keys: a learned vector for the distance between query and key is added to the key."""

import math

import torch
from torch import nn

from regard.attention.grid.grid import Tile
from regard.attention.scores.biases.bias import distances
from regard.attention.scores.score import Key, Query, Score, Scores, check_built_for, check_sizes


class Shaw(nn.Module, Score):
    """Relative positions in the keys: a learned vector for each distance between query and key is added to the key.

        scores = scale · query · (key + a[clip(j - i, -max_distance, max_distance)])

    i and j are the positions of query and key, and a[d] is the learned vector for the distance d. All heads share the
    vectors.

    Departure: the paper also adds learned vectors to the values (equation 3), with little gain (section 4.3). Here the
    values are not changed, so that the context is the weighted sum of the values.

    Args:
        d_key: width of queries and keys.
        max_distance: all keys at this distance or farther before the query share one vector; all keys at this distance
            or farther after the query share another.
        scale: the factor of the scores; None = 1 / sqrt(d_key).
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        ValueError: d_key or max_distance is below 1; or, raised by `attend`, queries or keys have another width.

    Source: Shaw, Uszkoreit & Vaswani 2018, equations 4 and 5.
    """

    def __init__(self, d_key: int, max_distance: int, *, scale: float | None = None, offset: int | None = None) -> None:
        super().__init__()
        check_sizes(d_key=d_key, max_distance=max_distance)
        self.d_key, self.max_distance, self.scale, self.offset = d_key, max_distance, scale, offset
        self.by_distance = nn.Parameter(torch.empty(2 * max_distance + 1, d_key))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the learned vectors by the Xavier uniform distribution (Glorot & Bengio 2010)."""
        nn.init.xavier_uniform_(self.by_distance)

    def forward(self, query: Query, key: Key, tile: Tile) -> Scores:
        # each query times each learned vector, without a tensor of queries × keys × d_key numbers
        products = query @ self.by_distance.to(query).T
        distance = distances(tile, query.device, self.offset).clamp(-self.max_distance, self.max_distance)
        relative = products.gather(3, (distance + self.max_distance).expand(*query.shape[:2], -1, -1))
        return (query @ key.mT + relative) * (1 / math.sqrt(self.d_key) if self.scale is None else self.scale)

    def check_widths(self, d_query: int, d_key: int) -> None:
        check_built_for(self, (self.d_key, self.d_key), (d_query, d_key))

    def extra_repr(self) -> str:
        arguments = {"d_key": self.d_key, "max_distance": self.max_distance, "scale": self.scale, "offset": self.offset}
        return ", ".join(f"{name}={value}" for name, value in arguments.items() if value is not None)
