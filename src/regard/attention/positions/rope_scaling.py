"""Stretches: how rotary positions trained on short texts are made to read longer ones, by turning more slowly.

    Interpolate     every pair slower by the same factor                              Chen et al. 2023, equation 4
    LargerBase      the fast pairs hardly slower, the slowest by the whole factor     "NTK-aware": Peng et al. 2024, 3.1
    Yarn            fast pairs as they are, slow ones by the factor, a ramp between   Peng et al. 2024, section 3.2-3.4
    LlamaStretch    the same with a ramp in the wave length                           Llama 3.1's code

Source: Chen et al. 2023, "Extending Context Window of Large Language Models via Positional Interpolation"; Peng et al.
2024, "YaRN".
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.representation import describe

Speeds = Float[Tensor, " pairs"]


@dataclass(frozen=True, slots=True, repr=False)
class Stretch(ABC):
    """What becomes of the speeds at which the pairs of a rotary embedding turn.

    Args:
        factor: how many times longer than those of the training the texts may be.

    Raises:
        ValueError: a factor below 1.
    """

    factor: float

    def __post_init__(self) -> None:
        if not 1 <= self.factor < math.inf:
            raise ValueError(
                f"{type(self).__name__} was given factor={self.factor}; texts grow by a factor of at least 1."
            )

    @abstractmethod
    def __call__(self, speeds: Speeds, base: float) -> Speeds:
        """The speeds, fastest first, once they are stretched."""

    @property
    def size(self) -> float:
        """What the turned vectors are multiplied by."""
        return 1.0

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True, repr=False)
class Interpolate(Stretch):
    """Linear interpolation: positions are divided by the factor, so a longer text has the angles of a shorter one.

        angle of pair p at position m = m / factor · base^(-2p / d_rotary)

    Source: Chen et al. 2023, equation 4.
    """

    def __call__(self, speeds: Speeds, base: float) -> Speeds:
        """Every speed divided by the factor."""
        return speeds / self.factor


@dataclass(frozen=True, slots=True, repr=False)
class LargerBase(Stretch):
    """NTK-aware interpolation: a larger base, by which the slowest pair is slowed by the factor and the fastest not.

        base' = base · factor^(d_rotary / (d_rotary - 2))

    Source: Peng et al. 2024, section 3.1.
    """

    def __call__(self, speeds: Speeds, base: float) -> Speeds:
        """Pair p slowed by factor^(p / (pairs - 1))."""
        return speeds * self.factor ** -(torch.arange(len(speeds)).to(speeds) / max(1, len(speeds) - 1))


@dataclass(frozen=True, slots=True, repr=False)
class Yarn(Stretch):
    """NTK-by-parts: pairs that turn often within a text keep their speed, those that turn seldom are slowed.

        share kept = 1 for pairs of more than `fast` turns in max_tokens, 0 below `slow`, a line between, pair by pair
        vectors are made larger by 0.1 · log(factor) + 1

    Args:
        max_tokens: the longest text of the training.
        fast, slow: how many turns within max_tokens make a pair fast or slow.

    Raises:
        ValueError: a factor below 1; bounds that leave no ramp.

    Source: Peng et al. 2024, sections 3.2 and 3.4; the ramp over whole pairs is that of its code.
    """

    max_tokens: int
    fast: float = 32.0
    slow: float = 1.0

    def __post_init__(self) -> None:
        Stretch.__post_init__(self)
        check_ramp(self, self.max_tokens, self.fast, self.slow)

    def __call__(self, speeds: Speeds, base: float) -> Speeds:
        """Each speed between itself and itself divided by the factor."""
        d_rotary = 2 * len(speeds)
        bounds = [
            d_rotary * math.log(self.max_tokens / (2 * math.pi * turns)) / (2 * math.log(base))
            for turns in (self.fast, self.slow)
        ]
        low, high = max(math.floor(bounds[0]), 0), min(math.ceil(bounds[1]), d_rotary - 1)
        high_above = high if high > low else low + 0.001  # a step where the ramp has no width
        kept = 1 - ((torch.arange(len(speeds)).to(speeds) - low) / (high_above - low)).clamp(0, 1)
        return speeds * kept + speeds / self.factor * (1 - kept)

    @property
    def size(self) -> float:
        """Larger vectors make larger scores, which keeps attention as sharp as it was over shorter texts."""
        return 0.1 * math.log(self.factor) + 1


@dataclass(frozen=True, slots=True, repr=False)
class LlamaStretch(Stretch):
    """Llama 3.1's: as `Yarn`, but the line between fast and slow goes by the turns themselves, and no vector grows.

    Args:
        max_tokens: the longest text of the training.
        fast, slow: how many turns within max_tokens make a pair fast or slow.

    Raises:
        ValueError: a factor below 1; bounds that leave no ramp.

    Source: Grattafiori et al. 2024, section 3.4.2; the code of Llama 3.1.
    """

    max_tokens: int = 8192
    fast: float = 4.0
    slow: float = 1.0

    def __post_init__(self) -> None:
        Stretch.__post_init__(self)
        check_ramp(self, self.max_tokens, self.fast, self.slow)

    def __call__(self, speeds: Speeds, base: float) -> Speeds:
        """Each speed between itself and itself divided by the factor."""
        turns = self.max_tokens * speeds / (2 * math.pi)
        kept = ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return speeds * kept + speeds / self.factor * (1 - kept)


def check_ramp(stretch: Stretch, max_tokens: int, fast: float, slow: float) -> None:
    """Refuse bounds that leave no ramp between fast and slow pairs."""
    if max_tokens < 1 or not 0 < slow < fast:
        raise ValueError(
            f"{type(stretch).__name__} was given max_tokens={max_tokens}, fast={fast}, slow={slow}; "
            "max_tokens must be at least 1 and 0 < slow < fast."
        )
