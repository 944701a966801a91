"""How each layer changes the hidden vector of each token, as JSON data from which a page draws arrows in a plane."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Shaped
from torch import Tensor

from regard.effects.plane import Plane
from regard.effects.plane_movement import Arrows, LayerArrows, layer_arrows
from regard.tracing.trace import Trace
from regard.views.page.vectors import encode_rounded, step_of

MOST_ARROWS = 8
"""An arrow shows what a head, or a key token, adds to a token's vector in a layer. At each token, at most this many
heads and key tokens have an arrow of their own; all other heads share one arrow, and all other key tokens share one."""

MAX_MOVES = 6_000
"""A page contains the changes of hidden vectors only if layers × tokens is at most this (about two megabytes)."""

BITS = 23
"""The coordinates, norms and angles of vectors and arrows are rounded to this many bits and a sign bit."""


def movement_records(trace: Trace, blocks: dict[str, str]) -> dict[str, Any] | None:
    """Return how each layer moves the tokens' vectors: {kind: record} for each kind of self-attention in the trace.

    None if the trace has no hidden vectors, or if layers × tokens is above MAX_MOVES.
    """
    kinds = [kind for kind in trace.kinds if kind != "cross"]
    if trace.states is None:
        return None
    n_moves = sum(len(state.before) for kind in kinds for state in trace.states[kind].values())
    if n_moves > MAX_MOVES:
        return None
    return {kind: movement_record(trace, kind, blocks) for kind in kinds}


def movement_record(trace: Trace, kind: str, blocks: dict[str, str]) -> dict[str, Any]:
    """Return how each layer of the encoder or decoder moves tokens: a `Movement`, see front/src/trace/data.ts.

    "shares" and "left_out" are `shares` and `n_left_out` of the plane (see `Plane`), "vectors" is the number of vectors
    through which it is laid; "arrays" has the fields of `LayerArrows`, stacked over the layers.
    """
    assert trace.states is not None
    states = trace.states[kind]
    first_layer, *_ = states.values()
    vectors = [first_layer.before, *(state.after for state in states.values())]
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
    """Stack the arrows of all layers; the first axis of each array is the layer.

    `group` is a field of `LayerArrows`: "parts", "heads" or "sources". A layer with fewer arrows than others is padded.
    The array "names" contains `Arrows.indices`, the index of the part, head or source (key token) of each arrow, and -2
    for padding.
    """
    groups: list[Arrows] = [getattr(layer, group) for layer in layers]
    n_arrows = max(arrows.indices.shape[1] for arrows in groups)
    paddings = [(0, n_arrows - arrows.indices.shape[1]) for arrows in groups]  # on each side of the axis of arrows
    # `F.pad` begins with the last axis: `places` is tokens × arrows × 3, `angles` and `indices` are tokens × arrows.
    layers_and_paddings = list(zip(groups, paddings, strict=True))
    return {
        "places": torch.stack([F.pad(arrows.places, (0, 0, *padding)) for arrows, padding in layers_and_paddings]),
        "angles": torch.stack([F.pad(arrows.angles, padding) for arrows, padding in layers_and_paddings]),
        "names": torch.stack([F.pad(arrows.indices, padding, value=-2) for arrows, padding in layers_and_paddings]),
    }


def array_record(name: str, array: Shaped[Tensor, "*shape"], blocks: dict[str, str]) -> dict[str, Any]:
    """Store an array in `blocks` as integers; return their shape, and the step by which the page multiplies them."""
    step = step_of(array, BITS) if array.is_floating_point() else 1.0
    blocks[name] = encode_rounded(array, step)
    return {"block": name, "step": step, "shape": list(array.shape)}
