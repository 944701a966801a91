"""Random numbers that belong to places: each weight of the grid has its own, whatever part of the grid is asked for.

A pattern is computed anew whenever it is looked at, block by block, so its noise must not depend on what was drawn
before. Here a number is a hash of the seed and of (batch, head, query, key):

    state = mix(mix(mix(mix(seed) + batch·γ) + head·γ) + query·γ)         one for each query
    bits  = mix(state + key·γ)                                            the query's own SplitMix64 generator
    g     = -log(-log(u)),  u = (the first 52 bits + 1/2) / 2⁵²           the standard Gumbel distribution

No u is 0 or 1, as float64 holds the 53 bits of the sum. Where a device has float32 alone, 23 bits take their place.

Source: Salmon et al. 2011 (Parallel random numbers: as easy as 1, 2, 3), section 2, for generators that count
instead of stepping; Steele, Lea & Flood 2014 (Fast splittable pseudorandom number generators), for mix and γ.
"""

import math

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Rows
from regard.attention.precision import widest_type

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
"""γ, the golden ratio's bits, as the signed number that an int64 holds."""


def gumbel(seed: int, tile: Tile, like: Rows) -> Rows:
    """Noise from the standard Gumbel distribution for each place of a tile, of the type and device of `like`."""
    state = mix(torch.full((1, 1, 1, 1), seed, dtype=torch.int64, device=like.device))
    for axis in range(4):
        state = mix(state + tile.along(axis, like.device) * GOLDEN)
    wide = widest_type(like.device)
    n_bits = round(-math.log2(torch.finfo(wide).eps))
    uniform = (shifted(state, 64 - n_bits).to(wide) + 0.5) * 2.0**-n_bits
    return -(-uniform.log()).log().to(like)


def mix(state: Int[Tensor, "*places"]) -> Int[Tensor, "*places"]:
    """SplitMix64's finaliser: every bit of the state decides about half of all bits."""
    state = (state ^ shifted(state, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    state = (state ^ shifted(state, 27)) * (0x94D049BB133111EB - 2**64)
    return state ^ shifted(state, 31)


def shifted(state: Int[Tensor, "*places"], by: int) -> Int[Tensor, "*places"]:
    """The bits moved to the right, with zeros after them, as an unsigned number's."""
    return (state >> by) & (2 ** (64 - by) - 1)


def check_seed(seed: int) -> None:
    """Refuse a seed that is no whole number of 63 bits."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed={seed!r} must be a whole number from 0 to 2**63 - 1, such as the training step.")
