"""Encode the weights of a trace as compact text for a web page: rounded to four decimals, compressed, in base64.

A layer is an array of integers, each a weight in units of 1/10,000. Its axes are [heads keys queries], because
neighbouring queries often give a key similar weights. All high bytes come before all low bytes, because each kind
compresses better alone.

Many heads and a long text would take tens of megabytes, mostly for the last digits of weights near 0. If the weights
would take more than `PAGE_BYTES`, those below 0.01 are rounded to a coarser step, the finest that fits, and the page
says so; larger weights keep four decimals.
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
"""The number of units in a weight of 1, which gives four decimals."""

SMALL_BELOW = 100
"""Weights of fewer units than this (below 0.01) may be rounded to a coarser step."""

SMALL_STEPS = (1, 5, 10, 20, 50)
"""The steps, in units, to which small weights may be rounded; each divides SMALL_BELOW."""

PAGE_BYTES = 9_800_000
"""The most bytes of weights in a page, unless even the coarsest step needs more."""

MAX_WEIGHTS = 200_000_000
"""The most weights in one page; a browser stores two bytes for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The weights and masks of a trace as blocks of text, and the blocks of each layer.

    Attributes:
        blocks: base64 text by the name of its block.
        layers: by kind of attention, a record for each layer: "layer", its number; "heads", its number of heads;
            "weights", the block of its weights; "mask", the block of its masks, or None if no weight is masked;
            "masks", the number of masks in that block: one for each head, or one for all heads.
        small_step: the step, in units, to which weights below SMALL_BELOW are rounded; 1 = four decimals.
    """

    blocks: dict[str, str]
    layers: dict[str, list[dict[str, Any]]]
    small_step: int


def embed(trace: Trace) -> Embedded:
    """Encode all weights and masks of a trace.

    Raises:
        InputError: the trace has more weights than a page takes, or a NaN among them.
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
    step, weights = encode_finest(patterns)
    return Embedded(blocks=blocks | weights, layers=layers, small_step=step)


def block_name(kind: str, layer: int) -> str:
    return f"{kind}-{layer}"


def encode_finest(patterns: Mapping[tuple[str, int], Pattern]) -> tuple[int, dict[str, str]]:
    """Return the finest step of small weights that fits into a page, and the blocks of all weights at that step."""
    for step in SMALL_STEPS:
        blocks: dict[str, str] = {}
        for (kind, layer), pattern in patterns.items():
            blocks[block_name(kind, layer)] = encode_units(quantised(pattern, step, f"{kind} layer {layer}"))
            if step != SMALL_STEPS[-1] and sum(map(len, blocks.values())) > PAGE_BYTES:
                break
        else:
            break
    return step, blocks


def quantised(pattern: Pattern, small_step: int, name: str) -> UInt16[np.ndarray, "heads queries keys"]:
    """Return a pattern's weights as integers of units; weights below SMALL_BELOW are multiples of `small_step`.

    Args:
        name: names the layer in the message of an error.
    """
    weights = np.asarray(pattern)[0].astype(np.float64) * UNITS
    if np.isnan(weights).any():
        raise InputError(
            f"{name} has NaN among its weights, and a page shows numbers only; mend the model's parameters."
        )
    units = np.rint(weights)
    # Rounding the rounded units to steps, instead of the weights, could add an error of half a unit.
    small = np.rint(weights / small_step) * small_step
    return np.where(weights < SMALL_BELOW, small, units).astype(np.uint16)


def encode_units(units: UInt16[np.ndarray, "heads queries keys"]) -> str:
    """Return integers as text: transposed to [heads keys queries], high bytes, then low bytes, deflated, in base64."""
    numbers = np.ascontiguousarray(units.transpose(0, 2, 1)).ravel()
    return deflated((numbers >> 8).astype(np.uint8).tobytes() + (numbers & 255).astype(np.uint8).tobytes())


def deflated(data: bytes) -> str:
    """Return bytes compressed in zlib's format, as base64 text."""
    # Z_FILTERED suits small random differences: 3 % smaller here than the default strategy, and no slower.
    stream = zlib.compressobj(level=6, memLevel=9, strategy=zlib.Z_FILTERED)
    return base64.b64encode(stream.compress(data) + stream.flush()).decode()


def embed_mask(pattern: Pattern, blocks: dict[str, str]) -> dict[str, Any]:
    """Add a layer's mask to `blocks`, one bit for each query and key (1 = the query may attend to the key).

    Nothing is added if `blocks` has an equal mask, or if the mask hides nothing.

    Returns:
        The entries "mask" and "masks" of the layer's record (see `Embedded`).
    """
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
