"""Location-aware scores: an additive network whose input includes the attention weights of the previous decoding step.

These weights tell the network where the decoder attended before, so that it can tell similar keys apart.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.gradients import checkpointed
from regard.attention.grid.grid import Grid, Tile, all_indices, entries_at, is_symbolic
from regard.attention.scores.prepared import Preparable, Projected
from regard.attention.scores.score import Key, Query, Scores, check_sizes
from regard.attention.scores.tiling import TILE_NUMBERS
from regard.attention.stages import EqualFields


def location_features(
    previous: Float[Tensor, "batch heads queries keys"], filters: Float[Tensor, "n_filters width"]
) -> Float[Tensor, "batch heads queries keys n_filters"]:
    """Return the convolution of the filters with attention weights: for each key and filter, a sum over nearby keys.

    Before the first and after the last key, weights count as 0. As in `F.conv1d`, filters are not reversed.
    """
    rows = rearrange(previous, "batch heads queries keys -> (batch heads queries) 1 keys")
    features = F.conv1d(rows, filters[:, None], padding=filters.shape[1] // 2)
    batch, heads, queries, _ = previous.shape
    return rearrange(features, "(b h q) n_filters keys -> b h q keys n_filters", b=batch, h=heads, q=queries)


class LocationAware(nn.Module, Preparable):
    """Additive attention whose network also takes the attention weights of the previous decoding step as input.

        scores_ij = w · tanh(W query_i + V key_j + U f_ij + b)          f_i = F ∗ weights_{i-1}

    i is the decoding step, j is the key, and ∗ is a convolution over the keys; w, W, V, U, b and the filters F are
    learned. For the first decoding step, use the module itself as the score; previous weights are then 0. For each
    later step, use `score.after(weights)`, where `weights` are the attention weights of the step before, which the
    caller has stored. Gradients flow back through these weights.

    Masking the last keys gives the same scores as removing them. Masking a key between two others gives other scores
    than removing it: the filters then see a weight of 0 between the two neighbours.

    Args:
        d_query, d_key: widths of the queries and of the keys.
        d_hidden: width of the hidden layer.
        n_filters: the number of convolution filters in F.
        width: the number of keys that a filter spans, centred on the key that is scored; odd.

    Raises:
        ValueError: a size is below 1, or width is even.

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
            raise ValueError(f"width={width} is even, so a filter has no middle key; take {width - 1} or {width + 1}.")
        super().__init__()
        self.d_query, self.d_key, self.d_hidden, self.n_filters, self.width = d_query, d_key, d_hidden, n_filters, width
        # vector, query_weight, key_weight, place_weight, filters and bias are w, W, V, U, F and b in
        #     scores = w · tanh(W query + V key + U f + b)          f = F ∗ previous weights
        self.vector = nn.Parameter(torch.empty(d_hidden))
        self.query_weight = nn.Parameter(torch.empty(d_hidden, d_query))
        self.key_weight = nn.Parameter(torch.empty(d_hidden, d_key))
        self.place_weight = nn.Parameter(torch.empty(d_hidden, n_filters))
        self.filters = nn.Parameter(torch.empty(n_filters, width))
        self.bias = nn.Parameter(torch.empty(d_hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the matrices and the filters by the Xavier uniform distribution.

        The vector w is initialised uniformly in ±1 / √d_hidden, and the bias b to 0.
        """
        for matrix in (self.query_weight, self.key_weight, self.place_weight, self.filters):
            nn.init.xavier_uniform_(matrix)
        bound = 1 / math.sqrt(self.d_hidden)
        nn.init.uniform_(self.vector, -bound, bound)
        nn.init.zeros_(self.bias)

    def after(self, weights: Float[Tensor, "batch heads queries keys"]) -> "LocationAwareAfter":
        """Return the score object for the next decoding step, given the attention weights of the present step.

        Args:
            weights: for each query, its weights on all keys; every axis but keys may have size 1.
        """
        return LocationAwareAfter(self, weights)

    def forward(self, query: Query, key: Key, tile: Tile) -> Scores:
        return self.of_prepared(query, self.prepare(key), tile)

    def prepare(self, key: Key) -> Projected:
        return key @ self.key_weight.to(key).mT

    def of_prepared(self, query: Query, key: Projected, tile: Tile) -> Scores:
        return self.after(query.new_zeros(1, 1, 1, tile.grid.keys)).of_prepared(query, key, tile)

    def of_tile(self, query: Tensor, key: Tensor, previous: Tensor, tile: Tile) -> Tensor:
        """Return the scores of a tile (block of the weights).

        Args:
            query: the queries, multiplied by `query_weight`.
            key: the keys, multiplied by `key_weight`.
            previous: for each query, its attention weights on all keys in the previous decoding step.
        """
        features = entries_at(location_features(previous, self.filters.to(query)), 3, tile.keys)
        # the part of the hidden layer that depends on the attention weights of the previous decoding step
        location = features @ self.place_weight.to(query).mT
        hidden = torch.tanh(query[:, :, :, None] + key[:, :, None] + location + self.bias.to(query))
        return hidden @ self.vector.to(query)

    def extra_repr(self) -> str:
        n_filters, width = self.filters.shape
        sizes = f"d_query={self.d_query}, d_key={self.d_key}, d_hidden={self.d_hidden}"
        return f"{sizes}, n_filters={n_filters}, width={width}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocationAwareAfter(EqualFields, Preparable):
    """The score of a decoding step after the first.

    Attributes:
        previous: for each query, the attention weights of the previous step on all keys; every axis but keys may have
            size 1.
    """

    network: LocationAware
    previous: Float[Tensor, "batch heads queries keys"]

    @property
    def d_query(self) -> int:  # type: ignore[override]
        return self.network.d_query

    @property
    def d_hidden(self) -> int:  # type: ignore[override]
        return self.network.d_hidden

    def prepare(self, key: Key) -> Projected:
        return self.network.prepare(key)

    def of_prepared(self, query: Query, key: Projected, tile: Tile) -> Scores:
        query = query @ self.network.query_weight.to(query).mT
        previous = tile.part(keys=all_indices(tile.grid.keys)).select(self.previous).to(query)
        previous = previous.expand(*query.shape[:3], -1)
        if tile.grid.keys == 0:
            return query.new_zeros(tile.shape)
        # A single query needs no blocks: its hidden layer is no larger than the projected keys. A symbolic number of
        # queries cannot be divided, because no Python loop can run over it.
        if is_symbolic(query.shape[2]) or query.shape[2] == 1:
            return self.network.of_tile(query, key, previous, tile)
        numbers_per_query = len(tile.batch) * len(tile.heads) * tile.grid.keys * self.d_hidden
        queries_at_once = max(1, TILE_NUMBERS // max(1, numbers_per_query))
        parameters = list(self.network.parameters())
        blocks = zip(
            torch.split(query, queries_at_once, dim=2), torch.split(previous, queries_at_once, dim=2), strict=True
        )
        scores = [
            checkpointed(self.network.of_tile, block_query, key, block_previous, tile, reads=parameters)
            for block_query, block_previous in blocks
        ]
        return torch.cat(scores, dim=2)

    def check(self, grid: Grid) -> None:
        if not grid.admits(self.previous) or self.previous.shape[-1] != grid.keys:
            raise ValueError(
                f"the previous weights have shape {list(self.previous.shape)} for {grid}; give the weights of the "
                f"previous step, {list(grid.shape)}; every axis but the last may have size 1."
            )

    def check_widths(self, d_query: int, d_key: int) -> None:
        self.network.check_widths(d_query, d_key)

    def __repr__(self) -> str:
        return f"{self.network!r}.after(<{list(self.previous.shape)}>)"
