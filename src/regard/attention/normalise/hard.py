"""Hard attention: each query takes the value of one key, and of no other.

    weights = 1 at argmax(preference), 0 elsewhere

A `Choice` decides which key is chosen, and whether a gradient passes:

    Largest()                the largest score; no gradient reaches query and key
    Sampled(seed)            drawn with the probabilities of softmax; no gradient either: train with `reinforce`
    StraightThrough(soft)    the largest weight of another normaliser, with that normaliser's gradient

Source: Xu et al. 2015, section 4.1.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.noise import check_seed, gumbel
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.softmax import Softmax
from regard.attention.representation import describe


class Choice(ABC):
    """A rule that chooses one key for each query."""

    @abstractmethod
    def preference(self, masked: Rows, tile: Tile) -> Rows:
        """Return numbers of which the largest is chosen; the gradient of the weights is passed to them unchanged."""

    def check(self, grid: Grid) -> None:  # noqa: B027 (most choices fit every grid)
        """Raise ValueError, naming what would fit, if this choice does not fit the grid."""

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True, repr=False)
class Largest(Choice):
    """The key with the largest score. No gradient reaches query and key."""

    def preference(self, masked: Rows, tile: Tile) -> Rows:
        """Return the scores."""
        return masked.detach()


@dataclass(frozen=True, slots=True, repr=False)
class Sampled(Choice):
    """A key drawn with the probabilities softmax(scores / temperature). No gradient reaches query and key.

    The draw is a function of the seed and of the places in the grid, so that the pattern shows exactly the choices
    that the context was computed with. For fresh draws give another seed: one for each step of training or decoding
    and for each layer.

    Args:
        seed: from 0 to 2⁶³ - 1.
        temperature: above 0; large = nearly any key.

    Raises:
        ValueError: another seed or temperature.

    Source: Xu et al. 2015, equations 8 and 9; drawn by the largest of noisy scores: Maddison, Tarlow & Minka 2014,
    section 2.
    """

    seed: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature={self.temperature} divides the scores, so it must be above 0 and finite; "
                "for the largest score use Hard(Largest())."
            )

    def preference(self, masked: Rows, tile: Tile) -> Rows:
        """Return scores plus noise; the largest falls on each key with the key's softmax probability."""
        return masked.detach() / self.temperature + gumbel(self.seed, tile, masked)


@dataclass(frozen=True, slots=True, repr=False)
class StraightThrough(Choice):
    """The key with the largest weight of another normaliser; the backward pass uses that normaliser's gradient.

    Args:
        soft: e.g. `GumbelSoftmax(seed)`, with which the key is drawn instead of being the largest.

    Source: Bengio, Léonard & Courville 2013, section 4; with Gumbel-softmax: Jang, Gu & Poole 2017, section 2.2.
    """

    soft: Normaliser = Softmax()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if self.soft.across_heads:
            raise ValueError(
                f"StraightThrough({self.soft!r}) would choose for each head by itself; let the heads talk "
                "about choices instead, as in TalkingHeads(n_heads, Hard(StraightThrough()))."
            )

    def preference(self, masked: Rows, tile: Tile) -> Rows:
        """Return the weights of the other normaliser."""
        return self.soft.weights(masked, tile)

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the other normaliser does not fit the grid."""
        self.soft.check(grid)


@dataclass(frozen=True, slots=True, repr=False)
class Hard(Normaliser):
    """All weight on one key for each query: by default the largest score; of equal scores, the first.

    Of scores that differ only by rounding, either may be the largest.

    >>> import torch
    >>> from regard import Hard, Sampled, attend
    >>> scores = torch.tensor([2.0, 0.0, 2.0, 1.0])[None, None, None]
    >>> attend(torch.ones(1, 1, 1, 1), scores.mT, scores.mT, normalise=Hard()).pattern[0, 0, 0]
    tensor([1., 0., 0., 0.])
    >>> Hard(Sampled(seed=7))
    Hard(choose=Sampled(seed=7))

    Source: Xu et al. 2015, section 4.1.
    """

    choose: Choice = Largest()

    def __post_init__(self) -> None:
        if not isinstance(self.choose, Choice):
            raise TypeError(
                f"choose is {self.choose!r}; it takes Largest(), Sampled(seed=…) or StraightThrough(Softmax())."
            )

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return 1 for the chosen key of each row and 0 for the others."""
        return _Chosen.apply(self.choose.preference(masked, tile))  # type: ignore[no-untyped-call]

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the choice does not fit the grid."""
        self.choose.check(grid)


class _Chosen(torch.autograd.Function):
    """1 at the largest number of each row, 0 elsewhere; the backward pass passes the gradient on unchanged."""

    generate_vmap_rule = True

    @staticmethod
    def forward(preference: Tensor) -> Tensor:
        key = preference.argmax(dim=-1, keepdim=True)  # the first of equals; a NaN where there is one
        chosen = torch.zeros_like(preference).scatter_(-1, key, 1.0)
        return chosen.masked_fill_(preference.gather(-1, key).isnan(), math.nan)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Save nothing for the backward pass."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]
