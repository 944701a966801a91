"""Encode for a page how each layer changes the hidden vector of each token.

The page draws these changes as arrows in a plane. Arrays of coordinates and angles are stored as integers; the page
multiplies the integers by a rounding step.
"""

from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from regard.effects.plane import Plane
from regard.effects.plane_movement import Arrows, LayerArrows, layer_arrows
from regard.tracing.trace import Trace
from regard.views.page.blocks import encode_integers
from regard.views.page.vectors import integers_of, step_of

MOST_ARROWS = 8
"""For each token and layer, at most this many heads, and at most this many source tokens, have an arrow of their own.

One more arrow is the sum of the other heads, or of the other source tokens.
"""

MAX_MOVES = 6_000
"""A page contains the changes of hidden vectors only if layers × tokens is at most this, about two megabytes."""

BITS = 23
"""The number of bits, without the sign bit, to which coordinates and angles of hidden vectors' changes are rounded."""


def movement_records(trace: Trace, blocks: dict[str, str]) -> dict[str, Any] | None:
    """Encode how the layers of a trace change the hidden vectors, and add the encoded arrays to `blocks`.

    Returns:
        A dict with the JSON records of the "encoder" and of the "decoder", as far as the trace has them. None if the
        trace has no hidden vectors, or if layers × tokens is above MAX_MOVES.
    """
    kinds = [kind for kind in trace.kinds if kind != "cross"]
    if trace.states is None:
        return None
    n_moves = sum(len(state.before) for kind in kinds for state in trace.states[kind].values())
    return {kind: movement_record(trace, kind, blocks) for kind in kinds} if n_moves <= MAX_MOVES else None


def movement_record(trace: Trace, kind: str, blocks: dict[str, str]) -> dict[str, Any]:
    """Encode how the layers of the encoder, or of the decoder, change the hidden vectors; return a JSON record.

    `front/src/trace/data.ts` describes the record. The encoded arrays are added to `blocks`.

    Args:
        kind: "encoder" or "decoder".
    """
    assert trace.states is not None
    states = trace.states[kind]
    first, *_ = states.values()
    vectors = [first.before, *(state.after for state in states.values())]
    plane = Plane.through(torch.cat(vectors).float())
    layers = [
        layer_arrows(trace.attended[kind][number].pattern, state, plane, MOST_ARROWS)
        for number, state in states.items()
    ]
    arrays = {
        name: torch.stack([getattr(layer, name) for layer in layers])
        for name in ("before", "after", "turned", "nearest", "nearest_angles")
    }
    for group in ("parts", "heads", "sources"):
        arrays |= {f"{group} {name}": table for name, table in stacked(layers, group).items()}
    return {
        "layers": list(states),
        "shares": list(plane.shares),
        "left_out": plane.n_left_out,
        "vectors": sum(map(len, vectors)),
        "arrays": {name: array_record(f"movement {kind} {name}", array, blocks) for name, array in arrays.items()},
    }


def stacked(layers: list[LayerArrows], group: str) -> dict[str, Tensor]:
    """Stack one group of arrows of all layers; return each field of `Arrows`, with the layers as its first axis.

    A layer with fewer arrows than others is filled up with empty arrows: their places and angles are 0, and their
    `names`, which are numbers (see `Arrows`), are -2.

    Args:
        group: the group of arrows, a field of `LayerArrows`: "parts", "heads" or "sources".
    """
    groups: list[Arrows] = [getattr(layer, group) for layer in layers]
    most = max(arrows.names.shape[1] for arrows in groups)
    missing = [most - arrows.names.shape[1] for arrows in groups]
    pad = torch.nn.functional.pad
    return {
        "places": torch.stack([pad(a.places, (0, 0, 0, n)) for a, n in zip(groups, missing, strict=True)]),
        "angles": torch.stack([pad(a.angles, (0, n)) for a, n in zip(groups, missing, strict=True)]),
        "names": torch.stack([pad(a.names, (0, n), value=-2) for a, n in zip(groups, missing, strict=True)]),
    }


def array_record(name: str, array: Shaped[Tensor, "*shape"], blocks: dict[str, str]) -> dict[str, Any]:
    """Encode an array of numbers as text, store the text as `blocks[name]`, and return a JSON record.

    The record has the array's name, rounding step and shape.
    """
    step = step_of(array, BITS) if array.is_floating_point() else 1.0
    blocks[name] = encode_integers(integers_of(array, step))
    return {"block": name, "step": step, "shape": list(array.shape)}
