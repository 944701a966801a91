"""Hard attention: the weight of each query is 1 on one key and 0 on all others.

    weights = 1 at argmax(preference), 0 elsewhere

A `Choice` computes the preference, a number for each query and key:

    Largest()                the scores; no gradient
    Sampled(seed)            scores plus noise: the key is a sample of softmax; no gradient: train with `reinforce`
    StraightThrough(soft)    the weights of the normaliser `soft`, with the gradient of `soft`
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.constant import constant
from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.noise import check_seed, gumbel
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.softmax import Softmax
from regard.attention.representation import Described


class Choice(Described, ABC):
    """The base class of rules that choose one key for each query."""

    @abstractmethod
    def preference(self, masked_scores: Rows, tile: Tile) -> Rows:
        """Return one number for each query and key; the key with the query's largest number gets weight 1.

        The gradient with respect to the weights is passed on unchanged to these numbers (straight-through estimator). A
        choice that is to have no gradient returns detached numbers.

        Args:
            masked_scores: the scores, -∞ for masked keys.
            tile: the indices of the batch items, heads and queries of the scores; it contains all keys.
        """

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the choice does not fit the numbers of batch items, heads, queries and keys in `grid`."""


@dataclass(frozen=True, slots=True, repr=False)
class Largest(Choice):
    """Choose the key with the largest score; query and key get no gradient."""

    def preference(self, masked_scores: Rows, tile: Tile) -> Rows:
        return masked_scores.detach()


@dataclass(frozen=True, slots=True, repr=False)
class Sampled(Choice):
    """Sample a key with the probabilities softmax(scores / temperature); query and key get no gradient.

    The sample depends only on the seed and on the indices of batch item, head and query, so that a `Pattern` shows the
    choices that the context was computed with. The same seed always gives the same choices: use a new seed in each
    training or decoding step and in each layer.

    Args:
        seed: the seed of the samples, from 0 to 2⁶³ - 1.
        temperature: the divisor of the scores, above 0. Small = nearly always the key with the largest score; large =
            all keys with nearly the same probability.

    Raises:
        ValueError: seed or temperature is outside these ranges.
        TypeError: temperature is a tensor that requires gradients.

    Source: Xu et al. 2015, equations 8 and 9; sampling by the argmax of scores plus Gumbel noise: Maddison, Tarlow &
    Minka 2014, section 2.
    """

    seed: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        instead = "give float(temperature)"
        object.__setattr__(self, "temperature", constant("Sampled", "temperature", self.temperature, instead))
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature={self.temperature} divides the scores, so it must be above 0 and finite; "
                "for the largest score use Hard(Largest())."
            )

    def preference(self, masked_scores: Rows, tile: Tile) -> Rows:
        """Return scores / temperature + Gumbel noise; its argmax is a sample of softmax(scores / temperature)."""
        return masked_scores.detach() / self.temperature + gumbel(self.seed, tile, masked_scores)


@dataclass(frozen=True, slots=True, repr=False)
class StraightThrough(Choice):
    """Choose the key with the largest weight of another normaliser; the gradient is that of the other normaliser.

    Args:
        soft: the other normaliser. With `GumbelSoftmax(seed)`, the choice is a random sample.

    Raises:
        ValueError: `soft` mixes heads, as `TalkingHeads` does.

    Source: Bengio, Léonard & Courville 2013, section 4; with Gumbel-softmax: Jang, Gu & Poole 2017, section 2.2.
    """

    soft: Normaliser = Softmax()  # noqa: RUF009 (frozen, so safe to share)

    def __post_init__(self) -> None:
        if self.soft.across_heads:
            raise ValueError(
                f"StraightThrough({self.soft!r}) chooses a key in each head separately, so its normaliser must not mix "
                "heads; use TalkingHeads(n_heads, Hard(StraightThrough())) instead."
            )

    def preference(self, masked_scores: Rows, tile: Tile) -> Rows:
        keep = masked_scores != -math.inf
        return self.soft(masked_scores.masked_fill(~keep, 0.0), keep, tile)

    def check(self, grid: Grid) -> None:
        self.soft.check(grid)


@dataclass(frozen=True, slots=True, repr=False)
class Hard(Normaliser):
    """Hard attention: each query has weight 1 on one key, by default the first of the keys with the largest score.

    If the two largest scores differ only by rounding, either key may be chosen. `Softmax(temperature=0)` differs only
    if several keys have the largest score: it divides the weight among them.

    Args:
        choose: the rule that chooses the key: `Largest`, `Sampled` or `StraightThrough`.

    Raises:
        TypeError: choose is not a `Choice`.

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

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        return _OneHot.apply(self.choose.preference(masked_scores, tile))  # type: ignore[no-untyped-call]

    def check(self, grid: Grid) -> None:
        self.choose.check(grid)


class _OneHot(torch.autograd.Function):
    """A row becomes 1 at its first maximum, 0 elsewhere; a row with NaN becomes NaN. Gradients pass unchanged."""

    generate_vmap_rule = True

    @staticmethod
    def forward(preference: Tensor) -> Tensor:
        key = preference.argmax(dim=-1, keepdim=True)  # the first maximum, or a NaN if the row has one
        one_hot = torch.zeros_like(preference).scatter_(-1, key, 1.0)
        return one_hot.masked_fill_(preference.gather(-1, key).isnan(), math.nan)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Do nothing: the backward pass needs no saved tensors, but vmap requires this method."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]
