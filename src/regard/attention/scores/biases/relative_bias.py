"""T5's relative bias: a learned number for each head and each bucket (range) of distances between query and key."""

import math

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile, entries_at
from regard.attention.scores.biases.bias import Bias, BiasNumbers, distances


class RelativeBias(nn.Module, Bias):
    """T5's relative positions: a learned number, added to the score, for each head and bucket (range) of distances.

        scores += b_h[bucket(j - i)]

    i and j are the positions of query and key, and b_h are the learned numbers of head h, initialised to 0. Half of the
    buckets are for one small distance each: 0, 1, 2, …. Larger distances share buckets whose size grows exponentially.

    Args:
        n_heads: the number of heads.
        n_buckets: the number of buckets, for keys before and after the query together.
        max_distance: this distance and all larger distances share one bucket, or one in each direction.
        bidirectional: if True, half of the buckets are for keys after the query; if False, keys after the query count
            as distance 0.
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        ValueError: n_buckets is below 4 or odd (below 2 if bidirectional is False); or max_distance is not larger than
            the number of small distances that have a bucket each.

    >>> from regard import RelativeBias, ScaledDot, attend
    >>> bias = RelativeBias(n_heads=2, n_buckets=4, max_distance=8)
    >>> _ = torch.nn.init.constant_(bias.by_bucket[3], 1.5)  # keys 1 or more after the query (2: 0 after, not used)
    >>> query, key = torch.zeros(1, 2, 3, 5), torch.zeros(1, 2, 4, 5)
    >>> attend(query, key, key, score=ScaledDot(bias=bias)).pattern.scores(0, 0).tolist()
    [[0.0, 0.0, 1.5, 1.5], [0.0, 0.0, 0.0, 1.5], [0.0, 0.0, 0.0, 0.0]]

    Source: Raffel et al. 2020, section 2.1; the buckets as in T5's code.
    """

    def __init__(
        self,
        n_heads: int,
        *,
        n_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        offset: int | None = None,
    ) -> None:
        super().__init__()
        directions = 2 if bidirectional else 1
        if n_buckets < 2 * directions or n_buckets % directions:
            raise ValueError(
                f"n_buckets={n_buckets} with bidirectional={bidirectional}; it must be "
                + ("an even number of at least 4." if bidirectional else "at least 2.")
            )
        n_small = n_buckets // directions // 2
        if max_distance <= n_small:
            raise ValueError(
                f"max_distance={max_distance} must be above {n_small}: with n_buckets={n_buckets}, each of the first "
                f"{n_small} distances has its own bucket; use a larger max_distance or fewer buckets."
            )
        self.n_heads, self.n_buckets, self.max_distance = n_heads, n_buckets, max_distance
        self.bidirectional, self.offset = bidirectional, offset
        self.by_bucket = nn.Parameter(torch.empty(n_buckets, n_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the learned numbers to 0, so that the bias changes no score."""
        nn.init.zeros_(self.by_bucket)

    def forward(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> BiasNumbers:
        far = self.max_distance
        buckets = relative_buckets(torch.arange(-far, far + 1, device="cpu"), self.n_buckets, far, self.bidirectional)
        by_distance = self.by_bucket.to(device, dtype)[buckets.to(device)].T  # [heads distances], from -far to far
        index = distances(tile, device, self.offset).clamp(-far, far)[0, 0] + far
        numbers = entries_at(by_distance, 0, tile.heads).index_select(1, index.flatten())
        return numbers.reshape(1, len(tile.heads), *index.shape)

    def check(self, grid: Grid) -> None:
        if self.n_heads != grid.heads:
            raise ValueError(
                f"RelativeBias has numbers for {self.n_heads} heads and query has {grid.heads} heads; "
                f"build it with RelativeBias({grid.heads})."
            )

    def extra_repr(self) -> str:
        defaults = {"n_buckets": 32, "max_distance": 128, "bidirectional": True, "offset": None}
        changed = [f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join([f"n_heads={self.n_heads}", *changed])


def relative_buckets(
    distance: Int[Tensor, "*places"], n_buckets: int, max_distance: int, bidirectional: bool
) -> Int[Tensor, "*places"]:
    """Return, for each distance (key position - query position), the index of its bucket, from 0 to n_buckets - 1.

    The arguments are those of `RelativeBias`.

    >>> relative_buckets(torch.tensor([-90, -9, -1, 0, 1, 9, 90]), 8, 32, bidirectional=True)
    tensor([3, 3, 1, 0, 5, 7, 7])

    Source: Raffel et al. 2020, section 2.1.
    """
    if bidirectional:
        n_buckets //= 2
        magnitude, first_bucket = distance.abs(), (distance > 0) * n_buckets
    else:
        magnitude, first_bucket = (-distance).clamp(min=0), torch.zeros_like(distance)
    n_small = n_buckets // 2  # the first half of the buckets have one distance each: 0, 1, 2, …
    # Computed in float32 and in the order of T5's code. At the border of two buckets, rounding decides which bucket a
    # distance gets, so the rounding must be the same as in T5.
    growth = torch.log(magnitude.float() / n_small) / math.log(max_distance / n_small) * (n_buckets - n_small)
    shared_bucket = n_small + growth.clamp(min=0).to(torch.long)
    return first_bucket + torch.where(magnitude < n_small, magnitude, shared_bucket.clamp(max=n_buckets - 1))
