"""RoPE scaling lowers the frequencies of rotary positions, so that a model can read longer texts than in training.

    Interpolate     divides all frequencies by the factor                                Chen et al. 2023, equation 4
    LargerBase      keeps the highest frequency, divides the lowest by the factor        Peng et al. 2024, section 3.1
    Yarn            keeps high frequencies, divides low frequencies by the factor        Peng et al. 2024, 3.2 to 3.4
    LlamaStretch    keeps high frequencies, divides low frequencies by the factor        Llama 3.1's code

A frequency is the angle, in radians, by which a pair of numbers is rotated from one position to the next. The factor is
the greatest length of a text divided by the greatest length in training. Between high and low frequencies, `Yarn` and
`LlamaStretch` interpolate: `Yarn` linearly in the index of the pair, `LlamaStretch` linearly in the frequency.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.representation import Described

Frequencies = Float[Tensor, " pairs"]
"""For each pair of numbers in a query or key, the angle in radians by which it is rotated per position."""


@dataclass(frozen=True, slots=True, repr=False)
class Stretch(Described, ABC):
    """The base class of RoPE scalings: a rule that lowers the frequencies of rotary positions.

    Args:
        factor: the greatest length of a text divided by the greatest length in training; at least 1.

    Raises:
        ValueError: factor is below 1, infinite or NaN.
    """

    factor: float

    def __post_init__(self) -> None:
        if not 1 <= self.factor < math.inf:
            raise ValueError(
                f"{type(self).__name__} was given factor={self.factor}; the factor must be finite and at least 1."
            )

    @abstractmethod
    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        """Return the scaled frequencies, in radians per position.

        Args:
            frequencies: the frequencies before scaling, base^(-2p / d_rotary) for each pair p.
            base: the number in this formula; only `Yarn` needs it.
        """

    @property
    def size(self) -> float:
        """The number by which rotated queries and keys are multiplied; always 1, except in `Yarn`."""
        return 1.0


@dataclass(frozen=True, slots=True, repr=False)
class Interpolate(Stretch):
    """Linear interpolation: all positions are divided by the factor, so that they stay in the range seen in training.

        angle of pair p at position m = (m / factor) · base^(-2p / d_rotary)

    Args:
        factor: the greatest length of a text divided by the greatest length in training; at least 1.

    Source: Chen et al. 2023, equation 4.
    """

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        return frequencies / self.factor


@dataclass(frozen=True, slots=True, repr=False)
class LargerBase(Stretch):
    """NTK-aware interpolation: a larger base of the rotary frequencies.

    The highest frequency is unchanged, and the lowest is divided by the factor.
        base' = base · factor^(d_rotary / (d_rotary - 2))

    Args:
        factor: the greatest length of a text divided by the greatest length in training; at least 1.

    Source: Peng et al. 2024, section 3.1.
    """

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        # base'^(-2p / d_rotary) = base^(-2p / d_rotary) · factor^(-2p / (d_rotary - 2)), and d_rotary is 2 · len(pairs)
        pairs = torch.arange(len(frequencies), device="cpu").to(frequencies)
        return frequencies * self.factor ** -(pairs / max(1, len(pairs) - 1))


@dataclass(frozen=True, slots=True, repr=False)
class Yarn(Stretch):
    """YaRN: keep high frequencies, divide low frequencies by the factor, and interpolate for those in between.

        frequency' = share · frequency + (1 - share) · frequency / factor

    A pair of numbers rotates max_tokens · frequency / 2π times within max_tokens. The share of a pair is 1 if it
    rotates at least `fast` times and 0 if it rotates at most `slow` times; in between, it is linear in the index of the
    pair. Queries and keys are multiplied by 0.1 · log(factor) + 1.

    Args:
        factor: the greatest length of a text divided by max_tokens; at least 1.
        max_tokens: the longest text in training, in tokens.
        fast: a pair that rotates at least this many times within max_tokens keeps its frequency.
        slow: the frequency of a pair that rotates at most this many times within max_tokens is divided by the factor.

    Raises:
        ValueError: factor or max_tokens is below 1, or 0 < slow < fast is not true.

    Source: Peng et al. 2024, sections 3.2 and 3.4; as in the paper's code, the interpolation begins and ends at a
    whole index.
    """

    max_tokens: int
    fast: float = 32.0
    slow: float = 1.0

    def __post_init__(self) -> None:
        Stretch.__post_init__(self)
        check_fast_and_slow(self)

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        d_rotary = 2 * len(frequencies)
        low = max(math.floor(self._pair_that_rotates(self.fast, d_rotary, base)), 0)
        # the paper's code has this bound, although there are only d_rotary / 2 pairs
        high = min(math.ceil(self._pair_that_rotates(self.slow, d_rotary, base)), d_rotary - 1)
        width = high - low if high > low else 0.001  # not 0, because it is a divisor
        share = 1 - ((torch.arange(len(frequencies), device="cpu").to(frequencies) - low) / width).clamp(0, 1)
        return frequencies * share + frequencies / self.factor * (1 - share)

    @property
    def size(self) -> float:
        return 0.1 * math.log(self.factor) + 1  # so that attention stays sharp over more keys

    def _pair_that_rotates(self, times: float, d_rotary: int, base: float) -> float:
        """Return the index (not rounded) of the pair that rotates this many times within max_tokens.

        It is the p for which max_tokens · base^(-2p / d_rotary) / 2π = times.
        """
        return d_rotary * math.log(self.max_tokens / (2 * math.pi * times)) / (2 * math.log(base))


@dataclass(frozen=True, slots=True, repr=False)
class LlamaStretch(Stretch):
    """Llama 3.1's scaling: keep high frequencies, divide low frequencies, and interpolate for those in between.

        frequency' = share · frequency + (1 - share) · frequency / factor

    A pair of numbers rotates max_tokens · frequency / 2π times within max_tokens. The share of a pair is 1 if it
    rotates at least `fast` times and 0 if it rotates at most `slow` times; in between, it is linear in the number of
    rotations.

    Args:
        factor: the greatest length of a text divided by max_tokens; at least 1.
        max_tokens: the longest text in training, in tokens.
        fast: a pair that rotates at least this many times within max_tokens keeps its frequency.
        slow: the frequency of a pair that rotates at most this many times within max_tokens is divided by the factor.

    Raises:
        ValueError: factor or max_tokens is below 1, or 0 < slow < fast is not true.

    Source: Grattafiori et al. 2024, section 3.4.2; the code of Llama 3.1.
    """

    max_tokens: int = 8192
    fast: float = 4.0
    slow: float = 1.0

    def __post_init__(self) -> None:
        Stretch.__post_init__(self)
        check_fast_and_slow(self)

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        rotations = self.max_tokens * frequencies / (2 * math.pi)
        share = ((rotations - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return frequencies * share + frequencies / self.factor * (1 - share)


def check_fast_and_slow(scaling: Yarn | LlamaStretch) -> None:
    if scaling.max_tokens < 1 or not 0 < scaling.slow < scaling.fast:
        raise ValueError(
            f"{type(scaling).__name__} was given max_tokens={scaling.max_tokens}, fast={scaling.fast}, "
            f"slow={scaling.slow}; max_tokens must be at least 1 and 0 < slow < fast."
        )
