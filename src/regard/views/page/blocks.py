"""Arrays of numbers as text for a web page: the bytes of an array, compressed by zlib, in base64.

If a number takes several bytes, the highest bytes of all numbers come first and the lowest bytes last, because similar
bytes compress better when they are neighbours. `front/src/trace/blocks.ts` decodes the text.
"""

import base64
import zlib

import numpy as np
from jaxtyping import Bool, Float, Int, UInt16


def deflated(data: bytes) -> str:
    # Z_FILTERED: the result is 3 % smaller than with the default strategy, and takes no longer.
    stream = zlib.compressobj(level=6, memLevel=9, strategy=zlib.Z_FILTERED)
    return base64.b64encode(stream.compress(data) + stream.flush()).decode()


def encode_units(units: UInt16[np.ndarray, "heads queries keys"]) -> str:
    """Encode weights, given as unsigned 16-bit integers, in the order head, key, query.

    Neighbouring queries often have similar weights on a key, so this order compresses better than head, query, key.
    """
    numbers = np.ascontiguousarray(units.transpose(0, 2, 1)).ravel()
    return deflated((numbers >> 8).astype(np.uint8).tobytes() + (numbers & 255).astype(np.uint8).tobytes())


def encode_integers(integers: Int[np.ndarray, "*shape"]) -> str:
    """Encode integers from -2^23 to 2^23 - 1 with three bytes for each."""
    numbers = integers.ravel()
    return deflated(b"".join(((numbers >> shift) & 255).astype(np.uint8).tobytes() for shift in (16, 8, 0)))


def encode_bits(bits: Bool[np.ndarray, "*shape"]) -> str:
    """Encode truth values with one bit for each: 1 = True."""
    return deflated(np.packbits(bits).tobytes())


def encode_shares(shares: Float[np.ndarray, "*shape"]) -> str:
    """Encode numbers with one byte for each: cut off at 0 and 1, and rounded to a multiple of 1/255."""
    return deflated(np.rint(np.clip(shares, 0, 1) * 255).astype(np.uint8).tobytes())
