"""Encode the weights of layers that a page cannot compute from queries and keys: rounded to four decimals.

A layer is an array of integers, each a weight in units of 1/10,000.

Many heads and a long text would take tens of megabytes, mostly for the last digits of weights near 0. If the weights
would take more than `PAGE_BYTES`, weights below 0.01 are rounded to multiples of a larger step: the smallest of
`SMALL_STEPS` with which the weights fit. The page says so. Larger weights keep four decimals.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt16

from regard.attention.pattern import Pattern
from regard.errors import InputError
from regard.views.page.blocks import encode_units

UNITS = 10_000
"""The number of units in a weight of 1, which gives four decimals."""

SMALL_BELOW = 100
"""Weights below this number of units (below 0.01) may be rounded to a multiple of more than one unit."""

SMALL_STEPS = (1, 5, 10, 20, 50)
"""The steps, in units of 1/10,000, to whose multiples small weights may be rounded; each divides SMALL_BELOW."""

PAGE_BYTES = 9_800_000
"""The most bytes that the weights of a page may take, unless even the largest of SMALL_STEPS needs more."""


def encode_finest(patterns: Mapping[str, Pattern]) -> tuple[int, dict[str, str]]:
    """Encode the weights of layers as exactly as the size of a page allows.

    Returns:
        The step, in units of 1/10,000, to whose multiples weights below 0.01 are rounded; and the encoded weights of
            each layer by name.

    Raises:
        InputError: a weight is NaN.
    """
    for step in SMALL_STEPS:
        blocks: dict[str, str] = {}
        for name, pattern in patterns.items():
            blocks[name] = encode_units(quantised(pattern, step, name))
            if step != SMALL_STEPS[-1] and sum(map(len, blocks.values())) > PAGE_BYTES:
                break
        else:
            break
    return step, blocks


def quantised(pattern: Pattern, small_step: int, name: str) -> UInt16[np.ndarray, "heads queries keys"]:
    """Return the weights of a pattern as integers, in units of 1/10,000.

    Args:
        small_step: weights below SMALL_BELOW units are rounded to multiples of this number.
        name: the name of the layer, for the error message.
    """
    weights = np.asarray(pattern)[0].astype(np.float64) * UNITS
    if np.isnan(weights).any():
        raise InputError(
            f"the weights of {name} contain NaN, which a page cannot show; check the model's parameters for NaN."
        )
    units = np.rint(weights)
    # Rounding the rounded units to steps, instead of the weights, could add an error of half a unit.
    small = np.rint(weights / small_step) * small_step
    return np.where(weights < SMALL_BELOW, small, units).astype(np.uint16)
