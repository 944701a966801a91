"""Attention weights, rounded to four decimals, of layers whose weights a page cannot compute itself.

The weights of many heads and a long text would take tens of megabytes, mostly for the last digits of weights near 0. If
the weights would take more than `PAGE_BYTES`, weights below 0.01 are rounded more: to multiples of the smallest step in
`SMALL_STEPS` with which all weights fit. The page then says so. Weights from 0.01 keep four decimals.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt16

from regard.attention.pattern import Pattern
from regard.errors import InputError
from regard.views.page.blocks import encode_units

UNITS = 10_000
"""The integer for a weight of 1: weights are stored in units of 1/10,000."""

SMALL_BELOW = 100
"""The integer for a weight of 0.01; smaller weights are rounded to multiples of a number in `SMALL_STEPS`."""

SMALL_STEPS = (1, 5, 10, 20, 50)
"""The possible rounding steps of weights below 0.01, in units of 1/10,000. 0.01 itself is a multiple of every step."""

PAGE_BYTES = 9_800_000
"""If the encoded weights of a page take more bytes than this, they are rounded with the next step of `SMALL_STEPS`."""


def encode_with_finest_step(patterns: Mapping[str, Pattern]) -> tuple[int, dict[str, str]]:
    """Encode the weights of layers, given by name, with the smallest rounding step that PAGE_BYTES allows.

    If no step makes them small enough, the largest step is used.

    Returns:
        The rounding step of weights below 0.01, in units of 1/10,000; and the encoded weights by layer name.
    """
    for step in SMALL_STEPS:
        blocks = {name: encode_units(quantised(pattern, step, name)) for name, pattern in patterns.items()}
        if sum(map(len, blocks.values())) <= PAGE_BYTES:
            break
    return step, blocks


def quantised(pattern: Pattern, small_step: int, name: str) -> UInt16[np.ndarray, "heads queries keys"]:
    """Return weights as integers in units of 1/10,000; weights below 0.01 are rounded to multiples of `small_step`."""
    weights = np.asarray(pattern)[0].astype(np.float64) * UNITS
    if np.isnan(weights).any():
        raise InputError(
            f"the weights of {name} contain NaN, which a page cannot show; check the model's parameters for NaN."
        )
    units = np.rint(weights)
    # `weights` are rounded, not `units`: two roundings would have a larger error, by up to half a unit.
    small = np.rint(weights / small_step) * small_step
    return np.where(weights < SMALL_BELOW, small, units).astype(np.uint16)
