"""Location-aware scores: an additive network that also sees where the step before looked, around each key.

    scores_ij = w · tanh(W query_i + V key_j + U f_ij + b)          f_i = F ∗ weights_{i-1}

So a decoder can tell which of several alike places it has read, and go on from there.

Source: Chorowski et al. 2015, where attention by content is made location-aware.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.gradients import checkpointed
from regard.attention.grid.grid import Grid, Tile, all_positions, is_symbolic, select_positions
from regard.attention.scores.prepared import Preparable
from regard.attention.scores.score import check_built_for, check_sizes
from regard.attention.scores.tiling import TILE_NUMBERS


def location_aware_scores(
    query: Float[Tensor, "batch heads queries d_hidden"],
    key: Float[Tensor, "batch heads keys d_hidden"],
    location: Float[Tensor, "batch heads queries keys d_hidden"],
    vector: Float[Tensor, " d_hidden"],
    bias: Float[Tensor, " d_hidden"],
) -> Float[Tensor, "batch heads queries keys"]:
    """Return w · tanh(W query + V key + U f + b), given W query, V key, U f, w and b."""
    hidden = torch.tanh(query[:, :, :, None] + key[:, :, None] + location + bias)
    return hidden @ vector


def location_features(
    previous: Float[Tensor, "batch heads queries keys"], filters: Float[Tensor, "n_filters width"]
) -> Float[Tensor, "batch heads queries keys n_filters"]:
    """Return f = F ∗ previous: for each key, each filter's sum of the previous weights around the key.

    Beyond the first and the last key the weights are 0. As in every convolutional network, filters are not reversed.
    """
    rows = rearrange(previous, "batch heads queries keys -> (batch heads queries) 1 keys")
    features = F.conv1d(rows, filters[:, None], padding=filters.shape[1] // 2)
    batch, heads, queries, _ = previous.shape
    return rearrange(features, "(b h q) n_filters keys -> b h q keys n_filters", b=batch, h=heads, q=queries)


class LocationAware(nn.Module, Preparable):
    """Additive attention that sees where the step before looked.

        scores_ij = w · tanh(W query_i + V key_j + U f_ij + b)          f_i = F ∗ weights_{i-1}

    The module alone is the score of a first step, before which nothing was looked at: weights 0. `after` gives the
    score of a later one; the weights are yours to keep, and a gradient goes back through them.

    Keys that are masked at the end are as good as absent. One that is masked in between is not: it has no weight, but
    its neighbours stand as far apart as before.

    Args:
        d_query, d_key: widths of the queries and of the keys.
        d_hidden: width of the hidden layer.
        n_filters: how many filters F has.
        width: how many keys a filter sees, the key itself in the middle; odd.

    Raises:
        ValueError: a size below 1, or an even width.

    >>> import torch
    >>> from regard import LocationAware, attend
    >>> score, memory = LocationAware(d_query=5, d_key=11, d_hidden=13), torch.randn(1, 1, 7, 11)
    >>> first = attend(torch.randn(1, 1, 1, 5), memory, memory, score=score)
    >>> second = attend(torch.randn(1, 1, 1, 5), memory, memory, score=score.after(first.pattern.dense()))
    >>> second.pattern.shape
    torch.Size([1, 1, 1, 7])

    Source: Chorowski et al. 2015, where attention by content is made location-aware.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int, *, n_filters: int = 10, width: int = 15) -> None:
        check_sizes(d_query=d_query, d_key=d_key, d_hidden=d_hidden, n_filters=n_filters, width=width)
        if width % 2 == 0:
            raise ValueError(
                f"width={width} has no middle, where the key itself stands; take {width - 1} or {width + 1}."
            )
        super().__init__()
        self.d_query, self.d_key, self.d_hidden = d_query, d_key, d_hidden
        self.vector = nn.Parameter(torch.empty(d_hidden))
        self.query_weight = nn.Parameter(torch.empty(d_hidden, d_query))
        self.key_weight = nn.Parameter(torch.empty(d_hidden, d_key))
        self.place_weight = nn.Parameter(torch.empty(d_hidden, n_filters))
        self.filters = nn.Parameter(torch.empty(n_filters, width))
        self.bias = nn.Parameter(torch.empty(d_hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters from uniform distributions that keep the variance of the input, and set b to 0."""
        for matrix in (self.query_weight, self.key_weight, self.place_weight, self.filters):
            nn.init.xavier_uniform_(matrix)
        bound = 1 / math.sqrt(self.d_hidden)
        nn.init.uniform_(self.vector, -bound, bound)
        nn.init.zeros_(self.bias)

    def after(self, weights: Float[Tensor, "batch heads queries keys"]) -> "LocationAwareAfter":
        """Return the score of a step that follows a step with these weights.

        Args:
            weights: for each query, the weights of the step before it.
        """
        return LocationAwareAfter(self, weights)

    def forward(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scores of a tile in a first step."""
        return self.of_prepared(query, self.prepare(key), tile)

    def prepare(self, key: Float[Tensor, "batch heads keys d_key"]) -> Float[Tensor, "batch heads keys d_hidden"]:
        """Return V key, which a decoder computes once and reads at every step."""
        return key @ self.key_weight.to(key).mT

    def of_prepared(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_hidden"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scores of a tile in a first step, given V key."""
        return self.after(query.new_zeros(1, 1, 1, tile.grid.keys)).of_prepared(query, key, tile)

    def of_tile(self, query: Tensor, key: Tensor, previous: Tensor, tile: Tile) -> Tensor:
        """Return the scores of a tile, given W query, V key and the previous weights over all keys."""
        features = select_positions(location_features(previous, self.filters.to(query)), 3, tile.keys)
        location = features @ self.place_weight.to(query).mT
        return location_aware_scores(query, key, location, self.vector.to(query), self.bias.to(query))

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Raise ValueError unless queries and keys have the widths of W and V."""
        check_built_for(self, (self.d_query, self.d_key), (d_query, d_key))

    def extra_repr(self) -> str:
        """Return the arguments that repr shows."""
        n_filters, width = self.filters.shape
        sizes = f"d_query={self.d_query}, d_key={self.d_key}, d_hidden={self.d_hidden}"
        return f"{sizes}, n_filters={n_filters}, width={width}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocationAwareAfter(Preparable):
    """`LocationAware` for a step that follows another one.

    Attributes:
        network: the module that holds the parameters.
        previous: for each query, the weights of the step before it; all axes but that of the keys may have size 1.
    """

    network: LocationAware
    previous: Float[Tensor, "batch heads queries keys"]

    @property
    def d_query(self) -> int:  # type: ignore[override]
        """Width of the queries that the network was built for."""
        return self.network.d_query

    @property
    def d_hidden(self) -> int:  # type: ignore[override]
        """Width of the hidden layer and of prepared keys."""
        return self.network.d_hidden

    def prepare(self, key: Float[Tensor, "batch heads keys d_key"]) -> Float[Tensor, "batch heads keys d_hidden"]:
        """Return V key."""
        return self.network.prepare(key)

    def of_prepared(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_hidden"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scores of a tile, given V key; the hidden layer is computed for a few queries at a time."""
        query = query @ self.network.query_weight.to(query).mT
        previous = tile.part(keys=all_positions(tile.grid.keys)).select(self.previous).to(query)
        previous = previous.expand(*query.shape[:3], -1)
        if query.shape[2] == 0 or tile.grid.keys == 0:
            return query.new_zeros(tile.shape)
        if is_symbolic(query.shape[2]) or query.shape[2] == 1:  # a hidden layer no larger than the projected keys
            return self.network.of_tile(query, key, previous, tile)
        numbers = len(tile.batch) * len(tile.heads) * tile.grid.keys * self.d_hidden
        rows = max(1, TILE_NUMBERS // max(1, numbers))
        parts = zip(torch.split(query, rows, dim=2), torch.split(previous, rows, dim=2), strict=True)
        return torch.cat([checkpointed(self.network.of_tile, q, key, p, tile) for q, p in parts], dim=2)

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless the previous weights fit the grid."""
        if not grid.admits(self.previous) or self.previous.shape[-1] != grid.keys:
            raise ValueError(
                f"weights of shape {list(self.previous.shape)} for {grid}; give those of the step before each query, "
                f"{list(grid.shape)}; axes of size 1 serve all but the keys."
            )

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Raise ValueError unless queries and keys have the widths that the network was built for."""
        self.network.check_widths(d_query, d_key)

    def __repr__(self) -> str:
        return f"{self.network!r}.after(<{list(self.previous.shape)}>)"
