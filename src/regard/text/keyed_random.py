"""Random numbers that depend only on a key: a resumed training run draws the same numbers as an uninterrupted run.

A key is a tuple of numbers and names, such as (seed, epoch). A hash of the tuple seeds a Philox generator, whose stream
of random integers is the same in all versions of NumPy.

Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def philox(*key: int | str) -> np.random.Philox:
    return np.random.Philox(key=int.from_bytes(digest(key)))


def permutation(n: int, *key: int | str) -> Integers:
    """Return the numbers from 0 to n - 1 in a random order that depends only on the key.

    >>> permutation(7, 3).tolist()
    [5, 0, 3, 6, 1, 4, 2]
    """
    return np.argsort(philox(*key).random_raw(n), kind="stable")


def uniform_numbers(generator: np.random.Philox, n: int) -> NDArray[np.float64]:
    """Return n random numbers, uniformly distributed in [0, 1)."""
    first_53_bits = generator.random_raw(n) >> np.uint64(11)  # a float64 stores integers of 53 bits exactly
    return first_53_bits.astype(np.float64) / 2**53


def seed_of(*key: int) -> int:
    """Return a seed for `torch.Generator.manual_seed`, computed from a key; similar keys give unrelated seeds.

    >>> seed_of(1, 200, 0) == seed_of(1, 200, 0), seed_of(1, 200, 0) == seed_of(1, 201, 0)
    (True, False)
    """
    return int.from_bytes(digest(key)) >> 1  # 63 bits: also a signed 64-bit integer


def digest(key: tuple[int | str, ...]) -> bytes:
    return hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
