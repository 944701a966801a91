"""The weights of a trace in few bytes, for a page: to four decimals, deflated, as text.

A layer is whole numbers of 1/10,000, laid out [heads keys queries]: queries look alike at many a key, so that
neighbours are nearly equal. All high bytes come first and then all low ones, for each kind compresses better alone;
then zlib and base64.

Four decimals of a long text in many heads take tens of megabytes, most of them for the last digits of weights near 0.
Where they would take more than `PAGE_BYTES`, weights below 0.01 are rounded to a coarser step, the finest that fits,
and the page says so; weights from 0.01 up keep their four decimals.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt16

from regard.attention.pattern import Pattern
from regard.errors import InputError
from regard.tracing.trace import Trace

UNITS = 10_000
"""Parts of 1 that a weight is counted in: four decimals."""

SMALL_BELOW = 100
"""Weights of fewer units than this, those below 0.01, may be rounded to a coarser step."""

SMALL_STEPS = (1, 5, 10, 20, 50)
"""The steps that small weights may be rounded to, in units; each divides SMALL_BELOW."""

PAGE_BYTES = 9_800_000
"""Bytes of weights in a page at most, as long as there is a coarser step."""

MAX_WEIGHTS = 200_000_000
"""Weights in one page at most; a browser holds two bytes for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The weights and masks of a trace as blocks of text, and which of them belong to each layer.

    Attributes:
        blocks: base64 text by the name of its block.
        layers: for each kind, for each layer: its number, how many heads it has, the names of the blocks of its
            weights and of its mask (None = no weight is masked), and how many masks that block has, one a head or one.
        small_step: weights below SMALL_BELOW units are rounded to this many; 1 = to four decimals like all others.
    """

    blocks: dict[str, str]
    layers: dict[str, list[dict[str, Any]]]
    small_step: int


def embed(trace: Trace) -> Embedded:
    """All weights and masks of a trace, to four decimals or, where they are too many, with the small ones coarser.

    Raises:
        InputError: more weights than a page takes, or NaN among them.
    """
    patterns = {(kind, n): step.pattern for kind in trace.kinds for n, step in trace.attended[kind].items()}
    n_weights = sum(pattern.shape.numel() for pattern in patterns.values())
    if n_weights > MAX_WEIGHTS:
        raise InputError(
            f"the trace has {n_weights:,} weights, more than the {MAX_WEIGHTS:,} that one page takes; "
            "trace fewer layers (layers=…) or a shorter text."
        )
    blocks: dict[str, str] = {}
    layers: dict[str, list[dict[str, Any]]] = {kind: [] for kind in trace.kinds}
    for (kind, n), pattern in patterns.items():
        layer = {"layer": n, "heads": pattern.n_heads, "weights": block_name(kind, n)}
        layers[kind].append(layer | embed_mask(pattern, blocks))
    step, weights = finest(patterns)
    return Embedded(blocks=blocks | weights, layers=layers, small_step=step)


def block_name(kind: str, layer: int) -> str:
    """What the block of a layer's weights is called."""
    return f"{kind}-{layer}"


def finest(patterns: Mapping[tuple[str, int], Pattern]) -> tuple[int, dict[str, str]]:
    """The finest step for small weights that fits into a page, and all weights rounded so."""
    for step in SMALL_STEPS:
        blocks: dict[str, str] = {}
        for (kind, layer), pattern in patterns.items():
            blocks[block_name(kind, layer)] = packed(rounded(pattern, step, f"{kind} layer {layer}"))
            if step != SMALL_STEPS[-1] and sum(map(len, blocks.values())) > PAGE_BYTES:
                break
        else:
            break
    return step, blocks


def rounded(pattern: Pattern, small_step: int, name: str) -> UInt16[np.ndarray, "heads queries keys"]:
    """A pattern's weights in whole units, the small ones in whole steps."""
    weights = np.asarray(pattern)[0].astype(np.float64) * UNITS
    if np.isnan(weights).any():
        raise InputError(
            f"{name} has NaN among its weights, and a page shows numbers only; mend the model's parameters."
        )
    units = np.rint(weights)
    # Steps are taken from the weight itself, not from its units: rounding twice would err by half a unit more.
    small = np.rint(weights / small_step) * small_step
    return np.where(weights < SMALL_BELOW, small, units).astype(np.uint16)


def packed(units: UInt16[np.ndarray, "heads queries keys"]) -> str:
    """Units as text: [heads keys queries], high bytes, then low bytes, deflated."""
    numbers = np.ascontiguousarray(units.transpose(0, 2, 1)).ravel()
    return deflated((numbers >> 8).astype(np.uint8).tobytes() + (numbers & 255).astype(np.uint8).tobytes())


def deflated(data: bytes) -> str:
    """Bytes in zlib's format, as base64 text."""
    # Filtered suits numbers that vary a little: 3 % smaller here than the default, and no slower.
    stream = zlib.compressobj(level=6, memLevel=9, strategy=zlib.Z_FILTERED)
    return base64.b64encode(stream.compress(data) + stream.flush()).decode()


def embed_mask(pattern: Pattern, blocks: dict[str, str]) -> dict[str, Any]:
    """Where a layer's mask is, put among the blocks unless one like it is there: a bit a weight, 1 = may look."""
    if pattern.mask is None:
        return {"mask": None, "masks": 0}
    keep = pattern.mask.keep(pattern.grid.whole(), pattern.device)[0].cpu().numpy()
    keep = np.broadcast_to(keep, (keep.shape[0], *pattern.shape[2:]))
    if keep.all():
        return {"mask": None, "masks": 0}
    text = deflated(np.packbits(keep).tobytes())
    name = next((name for name, block in blocks.items() if block == text), f"mask-{len(blocks)}")
    blocks[name] = text
    return {"mask": name, "masks": keep.shape[0]}
