"""Check of the temperature, the divisor of the scores.

This file does not import PyTorch, so that the command `regard explain` starts at once.
"""

import math

LARGEST_FLOAT32 = 3.4028234663852886e38


def check_temperature(temperature: float) -> None:
    """Raise ValueError unless a temperature is 0 (all weight on the largest score), or positive and finite.

    Also raise ValueError if the temperature is so small that scores divided by it overflow float32.

    >>> check_temperature(-1.0)
    Traceback (most recent call last):
      ...
    ValueError: temperature=-1.0 divides the scores, so it must be 0 (all weight on the largest) or above.
    """
    if isinstance(temperature, str) or not temperature >= 0 or math.isinf(temperature):
        raise ValueError(
            f"temperature={temperature!r} divides the scores, so it must be 0 (all weight on the largest) or above."
        )
    if 0 < temperature * LARGEST_FLOAT32 < 1:
        raise ValueError(
            f"temperature={temperature} is so small that scores divided by it are infinite in float32; "
            "take 0 for all weight on the largest."
        )
