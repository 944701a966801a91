"""The check of the temperature, in a file without PyTorch, so that the command `regard explain` starts at once."""

import math

LARGEST_FLOAT32 = 3.4028234663852886e38


def check_temperature(temperature: float) -> None:
    # `not temperature >= 0` is also true for NaN
    if isinstance(temperature, str) or not temperature >= 0 or math.isinf(temperature):
        raise ValueError(
            f"temperature={temperature!r} divides the scores, so it must be 0 (all weight on the largest) or above."
        )
    if 0 < temperature * LARGEST_FLOAT32 < 1:  # 1 / temperature overflows float32
        raise ValueError(
            f"temperature={temperature} is so small that scores divided by it are infinite in float32; "
            "take 0 for all weight on the largest."
        )
