"""Numbers that look drawn and follow from a key alone, each computed by itself, wherever it is looked at.

Source: a permutation is a Feistel network (Luby & Rackoff 1988), walked until it lands inside (Black & Rogaway 2002,
section 3); its rounds mix as SplitMix64 does (Steele, Lea & Flood 2014, figure 14).
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

ROUNDS = 4
"""Of the Feistel network: so many make it look drawn to everybody."""

Numbers = NDArray[np.int64]


def permuted(places: Numbers, n: int, key: tuple[int, ...]) -> Numbers:
    """Where some places of a permutation of n lead, each computed by itself; each key is another permutation.

    >>> permuted(np.arange(7), 7, key=(3,)).tolist()
    [4, 0, 6, 2, 1, 5, 3]
    """
    digits = max(1, ((n - 1).bit_length() + 1) // 2)
    keys = [key_of(*key, turn) for turn in range(ROUNDS)]
    found, outside = places.astype(np.uint64), np.ones(len(places), dtype=bool)
    while outside.any():
        found[outside] = feistel(found[outside], digits, keys)
        outside = found >= n
    return found.astype(np.int64)


def feistel(numbers: NDArray[np.uint64], digits: int, keys: list[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of the numbers of 2 · digits binary digits."""
    half, shift = np.uint64(2**digits - 1), np.uint64(digits)
    left, right = numbers >> shift, numbers & half
    for key in keys:
        left, right = right, left ^ (mixed(right + key) & half)
    return (left << shift) | right


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output for these states: every bit of it depends on every bit of them."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def shares(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """A number between 0 and 1 for each of some numbers, 1 left out."""
    return (mixed(numbers) >> np.uint64(11)).astype(np.float64) / 2**53


def key_of(*values: int | str) -> np.uint64:
    """One number that follows from some values, and is like drawn."""
    return np.frombuffer(digest_of(values), dtype="<u8")[0]


def seed_of(*numbers: int) -> int:
    """A seed for PyTorch from several numbers, unlike that of any others near them.

    >>> seed_of(1, 200, 0) == seed_of(1, 200, 0), seed_of(1, 200, 0) == seed_of(1, 201, 0)
    (True, False)
    """
    return int.from_bytes(digest_of(numbers)) >> 1


def digest_of(values: tuple[int | str, ...]) -> bytes:
    """Eight bytes that follow from some values, the same on every machine."""
    return hashlib.blake2b(repr(values).encode(), digest_size=8).digest()
