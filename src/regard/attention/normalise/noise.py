"""Reproducible noise: the random number for each weight depends only on the seed and on the indices of the weight.

A `Pattern` recomputes the attention weights whenever they are read, in blocks of any size, and the weights must be
the same each time. So each random number is a hash of the seed and the four indices (`mix`, γ as in SplitMix64):

    state = mix(mix(mix(mix(seed) + batch·γ) + head·γ) + query·γ)         one for each query
    bits  = mix(state + key·γ)                                            output number `key` of SplitMix64
    g     = -log(-log(u)),  u = (the first 52 bits + 1/2) / 2⁵²           standard Gumbel distribution

u is never rounded to 0 or 1, because float64 represents a number of 52 bits plus 1/2 exactly. A device without float64
uses float32 and the first 23 bits.

Source: Salmon et al. 2011 (Parallel random numbers: as easy as 1, 2, 3), section 2, for counter-based generators;
Steele, Lea & Flood 2014 (Fast splittable pseudorandom number generators), for mix and γ.
"""

import math

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Rows
from regard.attention.precision import widest_type

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
"""The constant γ of SplitMix64, 2⁶⁴ divided by the golden ratio, as a signed int64."""


def gumbel(seed: int, tile: Tile, like: Rows) -> Rows:
    """Return independent samples of the standard Gumbel distribution, one for each query and key of a tile.

    The result has the data type and device of `like`.
    """
    bits = hash_of_indices(seed, [tile.along(axis, like.device) for axis in range(4)])
    wide = widest_type(like.device)
    n_bits = round(-math.log2(torch.finfo(wide).eps))
    uniform = (shifted_right(bits, 64 - n_bits).to(wide) + 0.5) * 2.0**-n_bits
    return -(-uniform.log()).log().to(like)


# torch.compile does not compile custom operators. If torch 2.13 compiled this hash, the C++ code would compute wrong
# numbers (for 50 keys, for example) and write past the end of its memory.
@torch.library.custom_op("regard::hash_of_indices", mutates_args=())
def hash_of_indices(seed: int, indices: list[Tensor]) -> Tensor:
    """Return int64 hashes of the seed and the indices; the tensors (one for each axis) broadcast to each other."""
    state = mix(torch.full((1,) * indices[0].ndim, seed, dtype=torch.int64, device=indices[0].device))
    for along_axis in indices:
        state = mix(state + along_axis * GOLDEN)
    return state


@hash_of_indices.register_fake
def _(seed: int, indices: list[Tensor]) -> Tensor:
    return sum(indices[1:], start=indices[0])  # only the shape, the data type and the device of the result are used


def mix(state: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Return a hash of each number, computed by the finalizer of SplitMix64."""
    # The finalizer multiplies by two unsigned numbers; 2⁶⁴ is subtracted, because torch's int64 is signed.
    state = (state ^ shifted_right(state, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    state = (state ^ shifted_right(state, 27)) * (0x94D049BB133111EB - 2**64)
    return state ^ shifted_right(state, 31)


def shifted_right(state: Int[Tensor, "*shape"], by: int) -> Int[Tensor, "*shape"]:
    """Return int64 numbers shifted right by `by` bits, with zeros in the highest bits (a logical shift)."""
    return (state >> by) & (2 ** (64 - by) - 1)


def check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed={seed!r} must be a whole number from 0 to 2**63 - 1, such as the training step.")
