"""How each layer changes the hidden vector of each token, for arrows that a page draws in a plane."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Shaped
from torch import Tensor

from regard.effects.plane import Plane
from regard.effects.plane_movement import Arrows, LayerArrows, layer_arrows
from regard.tracing.trace import Trace
from regard.views.page.blocks import encode_integers
from regard.views.page.vectors import integers_of, step_of

MOST_ARROWS = 8
"""An arrow shows what one head adds to a token's vector. In a layer, at most this many heads have an arrow of their own
at each token; the other heads share one arrow. The same holds for the key tokens to which the token attends."""

MAX_MOVES = 6_000
"""A page contains the changes of hidden vectors only if layers × tokens is at most this (about two megabytes)."""

BITS = 23
"""The number of bits, without the sign bit, to which coordinates, norms and angles are rounded."""


def movement_records(trace: Trace, blocks: dict[str, str]) -> dict[str, Any] | None:
    """Return {kind: `movement_record`} for the kinds "encoder" and "decoder", as far as the trace has them.

    None if the trace has no hidden vectors, or if layers × tokens is above MAX_MOVES.
    """
    kinds = [kind for kind in trace.kinds if kind != "cross"]
    if trace.states is None:
        return None
    n_moves = sum(len(state.before) for kind in kinds for state in trace.states[kind].values())
    return {kind: movement_record(trace, kind, blocks) for kind in kinds} if n_moves <= MAX_MOVES else None


def movement_record(trace: Trace, kind: str, blocks: dict[str, str]) -> dict[str, Any]:
    """Return how each layer of a kind moves the tokens' vectors, as a `Movement` (see front/src/trace/data.ts)."""
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
    """Stack the arrows of all layers; the first axis of each array is the layer.

    `group` is a field of `LayerArrows`: "parts", "heads" or "sources". A layer with fewer arrows than others is padded;
    padding has the index -2 in "names".
    """
    groups: list[Arrows] = [getattr(layer, group) for layer in layers]
    most = max(arrows.indices.shape[1] for arrows in groups)
    padded = [(arrows, (0, most - arrows.indices.shape[1])) for arrows in groups]
    return {
        "places": torch.stack([F.pad(arrows.places, (0, 0, *space)) for arrows, space in padded]),
        "angles": torch.stack([F.pad(arrows.angles, space) for arrows, space in padded]),
        "names": torch.stack([F.pad(arrows.indices, space, value=-2) for arrows, space in padded]),
    }


def array_record(name: str, array: Shaped[Tensor, "*shape"], blocks: dict[str, str]) -> dict[str, Any]:
    """Store an array in `blocks` as integers; return their shape, and the step by which the page multiplies them."""
    step = step_of(array, BITS) if array.is_floating_point() else 1.0
    blocks[name] = encode_integers(integers_of(array, step))
    return {"block": name, "step": step, "shape": list(array.shape)}
