"""Biases as rules: numbers added to the scores that follow from where a query and a key stand.

    Alibi          scores += -slope_h · |i - j|
    RelativeBias   scores += b_h[bucket(j - i)]

A rule is asked for one tile of the grid at a time, so no queries × keys tensor ever exists. As for masks, queries are
taken to be the *last* tokens: query i stands at position i + keys - queries, unless `offset` says where the first one
stands.

Source: Press, Smith & Lewis 2022, section 3; Raffel et al. 2020, section 2.1.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.grid import Grid, Tile, take
from regard.attention.introduce import introduce

Biased = Float[Tensor, "#batch #heads #queries #keys"]


class Bias(ABC):
    """A rule that gives, for every query and key, a number to be added to their score."""

    @abstractmethod
    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """The numbers of one tile, computed in this type; they broadcast over the tile."""

    def check(self, grid: Grid) -> None:  # noqa: B027 (a rule may fit every grid)
        """Raise ValueError, naming what would fit, if this bias does not fit the grid."""

    def __repr__(self) -> str:
        return introduce(self)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Alibi(Bias):
    """Attention with linear biases: the further away a key, the lower its score, in each head by another slope.

        scores += -slope_h · |i - j|          slope_h = 2^(-8 h / heads) for h = 1 … heads

    Under `Causal()` these are the distances of the paper; without a mask they count in both directions. Head counts
    that are no power of two take the slopes of the power below and then every second one of the power above, as the
    paper's code does.

    Args:
        slopes: one for each head; None = those above.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        TypeError: slopes that are no tensor.
        ValueError: at the call, slopes that are not one for each head.

    >>> from regard import Alibi, Causal, ScaledDot, attend
    >>> x = torch.zeros(1, 8, 3, 4)
    >>> attend(x, x, x, score=ScaledDot(bias=Alibi()), mask=Causal()).pattern.scores(0, 0, 2)
    tensor([-1.0000, -0.5000,  0.0000])

    Source: Press, Smith & Lewis 2022, section 3.
    """

    slopes: Float[Tensor, " heads"] | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.slopes, Tensor | None):
            raise TypeError(
                f"Alibi was given slopes={self.slopes!r}; it takes a tensor of one number for each head, or None for "
                "the paper's: Alibi() fits any number of heads."
            )

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """Minus the distance, times the slope of the head."""
        slopes = alibi_slopes(tile.grid.heads) if self.slopes is None else self.slopes
        slopes = take(slopes.to(device, dtype), 0, tile.heads)[:, None, None]
        return -slopes * distances(tile, device, self.offset).abs().to(dtype)

    def check(self, grid: Grid) -> None:
        """Slopes that are given must be one for each head."""
        if self.slopes is not None and self.slopes.shape != (grid.heads,):
            raise ValueError(
                f"Alibi was given slopes of shape {list(self.slopes.shape)} for {grid.heads} heads; "
                f"give one for each head, [{grid.heads}], or None for the paper's."
            )


class RelativeBias(nn.Module, Bias):
    """T5's relative positions: one learned number for each head and each bucket of distances.

        scores += b_h[bucket(j - i)]

    Near distances have a bucket each; further ones share buckets that grow as the logarithm of the distance, and all
    from `max_distance` on share the last. The numbers start at 0, where they change nothing.

    Args:
        bidirectional: half of the buckets are for keys after the query; without it those all count as distance 0.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: too few buckets, an odd number of them for two directions, or a max_distance within the near ones.

    >>> from regard import RelativeBias, ScaledDot, attend
    >>> bias = RelativeBias(n_heads=2, n_buckets=4, max_distance=8)
    >>> _ = torch.nn.init.constant_(bias.by_bucket[3], 1.5)        # keys that are 1 or more after the query
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
                f"n_buckets={n_buckets} cannot be shared out; "
                + (
                    "two directions take an even number of buckets, at least 4."
                    if bidirectional
                    else "take at least 2."
                )
            )
        near = n_buckets // directions // 2
        if max_distance <= near:
            raise ValueError(
                f"max_distance={max_distance} lies within the first {near} distances, which have a bucket each of "
                f"n_buckets={n_buckets}; take a larger max_distance or fewer buckets."
            )
        self.n_heads, self.n_buckets, self.max_distance = n_heads, n_buckets, max_distance
        self.bidirectional, self.offset = bidirectional, offset
        self.by_bucket = nn.Parameter(torch.empty(n_buckets, n_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All numbers 0."""
        nn.init.zeros_(self.by_bucket)

    def forward(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """The number of each distance's bucket, for each head."""
        far = self.max_distance
        buckets = relative_buckets(torch.arange(-far, far + 1), self.n_buckets, far, self.bidirectional)
        by_distance = self.by_bucket.to(device, dtype)[buckets.to(device)].T
        index = distances(tile, device, self.offset).clamp(-far, far)[0, 0] + far
        picked = take(by_distance, 0, tile.heads).index_select(1, index.flatten())
        return picked.reshape(1, len(tile.heads), *index.shape)

    def check(self, grid: Grid) -> None:
        """There must be numbers for each head."""
        if self.n_heads != grid.heads:
            raise ValueError(
                f"RelativeBias has numbers for {self.n_heads} heads and query has {grid.heads} heads; "
                f"build it with RelativeBias({grid.heads})."
            )

    def extra_repr(self) -> str:
        """Sizes and whatever is not its default."""
        defaults = {"n_buckets": 32, "max_distance": 128, "bidirectional": True, "offset": None}
        given = {name: getattr(self, name) for name, default in defaults.items() if getattr(self, name) != default}
        return ", ".join(f"{name}={value}" for name, value in {"n_heads": self.n_heads, **given}.items())


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rounded(Bias):
    """A rule's numbers in the type and place of a query: what a kernel of that type adds, so what a pattern shows."""

    bias: Bias
    dtype: torch.dtype
    device: torch.device

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """The rule's numbers, computed in float32 or better and rounded once."""
        wide = torch.promote_types(self.dtype, torch.float32)
        return self.bias(tile, self.device, wide).to(self.dtype)

    def check(self, grid: Grid) -> None:
        """The rule itself must fit."""
        self.bias.check(grid)

    def __repr__(self) -> str:
        return repr(self.bias)


def unrounded(bias: Tensor | Bias | None) -> Tensor | Bias | None:
    """The rule of a bias itself, without what rounds it."""
    return bias.bias if isinstance(bias, Rounded) else bias


def distances(tile: Tile, device: torch.device, offset: int | None = None) -> Int[Tensor, "1 1 queries keys"]:
    """How far each key of a tile stands after each query; negative where it stands before it."""
    first = tile.grid.offset if offset is None else offset
    return tile.along(3, device) - tile.along(2, device) - first


def alibi_slopes(n_heads: int) -> Float[Tensor, " heads"]:
    """The slopes of `Alibi`, in float64.

    >>> alibi_slopes(3)
    tensor([0.0625, 0.0039, 0.2500], dtype=torch.float64)

    Source: Press, Smith & Lewis 2022, section 3; `get_slopes` of its code where n_heads is no power of two.
    """
    below = 1 << max(0, n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / below) for h in range(1, below + 1)]
    between = [2 ** (-8 * h / (2 * below)) for h in range(1, 2 * below + 1, 2)]
    return torch.tensor((slopes + between)[:n_heads], dtype=torch.float64)


def relative_buckets(
    distance: Int[Tensor, "*places"], n_buckets: int, max_distance: int, bidirectional: bool
) -> Int[Tensor, "*places"]:
    """The bucket that each distance (key minus query) falls into.

    >>> relative_buckets(torch.tensor([-90, -9, -1, 0, 1, 9, 90]), 8, 32, bidirectional=True)
    tensor([3, 3, 1, 0, 5, 7, 7])

    Source: Raffel et al. 2020, section 2.1.
    """
    if bidirectional:
        n_buckets //= 2
    first = (distance > 0) * n_buckets if bidirectional else torch.zeros_like(distance)
    steps = distance.abs() if bidirectional else (-distance).clamp(min=0)
    near = n_buckets // 2
    # In float32 and in T5's order of operations: where a bucket ends exactly at a distance, rounding decides.
    growth = torch.log(steps.float() / near) / math.log(max_distance / near) * (n_buckets - near)
    far = near + growth.clamp(min=0).to(torch.long)
    return first + torch.where(steps < near, steps, far.clamp(max=n_buckets - 1))
