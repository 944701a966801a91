"""Arrays as compact text for a web page: byte planes, compressed, in base64.

The bytes of equal rank follow one another: all high bytes come first, all low bytes last, because each kind compresses
better alone. `front/src/blocks.ts` decodes them.
"""

import base64
import zlib

import numpy as np
from jaxtyping import Bool, Float, Int, UInt16


def deflated(data: bytes) -> str:
    """Return bytes compressed in zlib's format, as base64 text."""
    # Z_FILTERED suits small random differences: 3 % smaller here than the default strategy, and no slower.
    stream = zlib.compressobj(level=6, memLevel=9, strategy=zlib.Z_FILTERED)
    return base64.b64encode(stream.compress(data) + stream.flush()).decode()


def encode_units(units: UInt16[np.ndarray, "heads queries keys"]) -> str:
    """Return integers of two bytes as text, transposed to [heads keys queries].

    Neighbouring queries often give a key similar weights, so that they compress better side by side.
    """
    numbers = np.ascontiguousarray(units.transpose(0, 2, 1)).ravel()
    return deflated((numbers >> 8).astype(np.uint8).tobytes() + (numbers & 255).astype(np.uint8).tobytes())


def encode_integers(integers: Int[np.ndarray, "*shape"]) -> str:
    """Return integers of three bytes, from -2^23 to 2^23 - 1, as text."""
    numbers = integers.ravel()
    return deflated(b"".join(((numbers >> shift) & 255).astype(np.uint8).tobytes() for shift in (16, 8, 0)))


def encode_bits(bits: Bool[np.ndarray, "*shape"]) -> str:
    """Return one bit for each truth value as text."""
    return deflated(np.packbits(bits).tobytes())


def encode_shares(shares: Float[np.ndarray, "*shape"]) -> str:
    """Return numbers from 0 to 1 as text, one byte each."""
    return deflated(np.rint(np.clip(shares, 0, 1) * 255).astype(np.uint8).tobytes())
