"""RoPE scaling: lower frequencies let rotary positions that were trained on short texts read longer ones.

    Interpolate     all frequencies divided by the factor                          Chen et al. 2023, equation 4
    LargerBase      the highest frequency kept, the lowest divided by the factor   "NTK-aware": Peng et al. 2024, 3.1
    Yarn            high ones kept, low ones divided, a ramp over the pairs        Peng et al. 2024, sections 3.2 to 3.4
    LlamaStretch    high ones kept, low ones divided, a ramp over the frequency    Llama 3.1's code

A frequency is the angle in radians by which a pair of numbers is rotated from one position to the next.

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

Frequencies = Float[Tensor, " pairs"]


@dataclass(frozen=True, slots=True, repr=False)
class Stretch(ABC):
    """A scaling of the frequencies of rotary positions.

    Args:
        factor: how many times longer than in training the texts may be.

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
    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        """Return the scaled frequencies, the highest first."""

    @property
    def size(self) -> float:
        """The factor that rotated vectors are multiplied by."""
        return 1.0

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True, repr=False)
class Interpolate(Stretch):
    """Linear interpolation: positions are divided by the factor, so that a longer text has the angles of a shorter one.

        angle of pair p at position m = m / factor · base^(-2p / d_rotary)

    Source: Chen et al. 2023, equation 4.
    """

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        """Return every frequency divided by the factor."""
        return frequencies / self.factor


@dataclass(frozen=True, slots=True, repr=False)
class LargerBase(Stretch):
    """NTK-aware interpolation: a larger base, which divides the lowest frequency by the factor and keeps the highest.

        base' = base · factor^(d_rotary / (d_rotary - 2))

    Source: Peng et al. 2024, section 3.1.
    """

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        """Return the frequency of pair p divided by factor^(p / (pairs - 1))."""
        pairs = torch.arange(len(frequencies)).to(frequencies)
        return frequencies * self.factor ** -(pairs / max(1, len(pairs) - 1))


@dataclass(frozen=True, slots=True, repr=False)
class Yarn(Stretch):
    """NTK-by-parts: pairs with many rotations within a text keep their frequency, pairs with few have it divided.

        frequency' = share · frequency + (1 - share) · frequency / factor
        share      = 1 for pairs with over `fast` rotations in max_tokens, 0 below `slow`, linear in the pair between
        vectors are multiplied by 0.1 · log(factor) + 1

    Args:
        max_tokens: the longest text in training.
        fast, slow: rotations within max_tokens from which a pair keeps its frequency, and to which it is divided.

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

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        """Return each frequency, weighted with itself divided by the factor."""
        d_rotary = 2 * len(frequencies)
        bounds = [
            d_rotary * math.log(self.max_tokens / (2 * math.pi * rotations)) / (2 * math.log(base))
            for rotations in (self.fast, self.slow)
        ]
        low, high = max(math.floor(bounds[0]), 0), min(math.ceil(bounds[1]), d_rotary - 1)
        high_above = high if high > low else low + 0.001  # a ramp without width is a step
        share = 1 - ((torch.arange(len(frequencies)).to(frequencies) - low) / (high_above - low)).clamp(0, 1)
        return frequencies * share + frequencies / self.factor * (1 - share)

    @property
    def size(self) -> float:
        """The factor of the vectors: larger scores keep attention as sharp as it was over shorter texts."""
        return 0.1 * math.log(self.factor) + 1


@dataclass(frozen=True, slots=True, repr=False)
class LlamaStretch(Stretch):
    """Llama 3.1's scaling: as `Yarn`, but the ramp is linear in the rotations of a pair, and vectors keep their length.

    Args:
        max_tokens: the longest text in training.
        fast, slow: rotations within max_tokens from which a pair keeps its frequency, and to which it is divided.

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

    def __call__(self, frequencies: Frequencies, base: float) -> Frequencies:
        """Return each frequency, weighted with itself divided by the factor."""
        rotations = self.max_tokens * frequencies / (2 * math.pi)
        share = ((rotations - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return frequencies * share + frequencies / self.factor * (1 - share)


def check_ramp(scaling: Stretch, max_tokens: int, fast: float, slow: float) -> None:
    """Raise ValueError unless there is a ramp between fast and slow pairs."""
    if max_tokens < 1 or not 0 < slow < fast:
        raise ValueError(
            f"{type(scaling).__name__} was given max_tokens={max_tokens}, fast={fast}, slow={slow}; "
            "max_tokens must be at least 1 and 0 < slow < fast."
        )
