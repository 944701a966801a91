"""Arrays of numbers as text for a web page: the bytes of an array, compressed by zlib, in base64.

If a number takes several bytes, the highest bytes of all numbers come first and the lowest bytes last, because similar
bytes compress better when they are neighbours. `front/src/trace/blocks.ts` decodes the text.
"""

import base64
import zlib

import numpy as np
from jaxtyping import Bool, Float, Integer, UInt16


def deflated(data: bytes) -> str:
    # Z_FILTERED: the result is 3 % smaller than with the default strategy, and takes no longer.
    stream = zlib.compressobj(level=6, memLevel=9, strategy=zlib.Z_FILTERED)
    return base64.b64encode(stream.compress(data) + stream.flush()).decode()


def encode_units(units: UInt16[np.ndarray, "heads queries keys"]) -> str:
    """Encode weights, given as unsigned 16-bit integers, in the order head, key, query.

    Neighbouring queries often have similar weights on a key, so this order compresses better than head, query, key.
    """
    return encode_integers(units.transpose(0, 2, 1), n_bytes=2)


def encode_integers(integers: Integer[np.ndarray, "*shape"], n_bytes: int = 3) -> str:
    """Encode integers with `n_bytes` bytes for each; three bytes suffice for -2^23 to 2^23 - 1."""
    numbers = integers.ravel()
    low_to_high = [((numbers >> (8 * byte)) & 255).astype(np.uint8).tobytes() for byte in range(n_bytes)]
    return deflated(b"".join(reversed(low_to_high)))


def encode_bits(bits: Bool[np.ndarray, "*shape"]) -> str:
    """Encode truth values with one bit for each: 1 = True."""
    return deflated(np.packbits(bits).tobytes())


def encode_shares(shares: Float[np.ndarray, "*shape"]) -> str:
    """Encode numbers with one byte for each: cut off at 0 and 1, and rounded to a multiple of 1/255."""
    return deflated(np.rint(np.clip(shares, 0, 1) * 255).astype(np.uint8).tobytes())
