"""Random numbers that follow from a key alone: a training that is resumed draws what it would have drawn.

Every key has a stream of Philox of its own, which NumPy keeps the same in all its versions.

Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel Random Numbers: As Easy as 1, 2, 3".
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def philox(*key: int | str) -> np.random.Philox:
    """Return the generator of a key; it gives the same stream on every machine."""
    return np.random.Philox(key=int.from_bytes(digest(key)))


def permutation(n: int, *key: int | str) -> Numbers:
    """Return the numbers from 0 to n - 1 in a random order; it needs 8 bytes for each.

    >>> permutation(7, 3).tolist()
    [5, 0, 3, 6, 1, 4, 2]
    """
    return np.argsort(philox(*key).random_raw(n), kind="stable")


def uniform(generator: np.random.Philox, n: int) -> NDArray[np.float64]:
    """Return the next n random numbers from 0 to 1, 1 excluded."""
    return (generator.random_raw(n) >> np.uint64(11)).astype(np.float64) / 2**53


def seed_of(*key: int) -> int:
    """Return a seed for PyTorch; similar keys have unrelated seeds.

    >>> seed_of(1, 200, 0) == seed_of(1, 200, 0), seed_of(1, 200, 0) == seed_of(1, 201, 0)
    (True, False)
    """
    return int.from_bytes(digest(key)) >> 1


def digest(key: tuple[int | str, ...]) -> bytes:
    """Return a hash of a key in eight bytes, the same on every machine."""
    return hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
