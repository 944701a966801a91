"""Converts the vectors of the tokens in each layer to and from the JSON of a trace file."""

from collections.abc import Callable, Mapping

from torch import Tensor

from regard.attention.attend import Attended
from regard.effects.contributions import OutputProjection
from regard.effects.movement import LayerStates
from regard.json_file import Json

STATES = ("before", "attention", "feed_forward", "after")


def states_to_json(states: Mapping[str, Mapping[int, LayerStates]], add: Callable[[Tensor], str]) -> Json:
    """Return the vectors of all tokens in each layer as JSON; `add` stores a tensor and returns its name."""
    return {
        kind: {
            str(layer): {
                **{name: add(getattr(state, name)) for name in STATES},
                "weight": add(state.projection.weight),
                "bias": None if state.projection.bias is None else add(state.projection.bias),
            }
            for layer, state in layers.items()
        }
        for kind, layers in states.items()
    }


def states_from_json(
    document: Json, tensors: Mapping[str, Tensor], attended: Mapping[str, Mapping[int, Attended]]
) -> dict[str, dict[int, LayerStates]] | None:
    """Return the vectors of all tokens in each layer from the JSON of `states_to_json`; None if `document` is None.

    Raise ValueError if the shapes of the vectors do not fit the attention calls in `attended`.
    """
    if document is None:
        return None
    return {
        kind: {layer: layer_states(document[kind][str(layer)], tensors, call) for layer, call in layers.items()}
        for kind, layers in attended.items()
    }


def layer_states(document: Json, tensors: Mapping[str, Tensor], attended: Attended) -> LayerStates:
    """Return the vectors of all tokens in one layer; raise ValueError if they do not fit the attention call."""
    weight = tensors[document["weight"]]
    bias = None if document["bias"] is None else tensors[document["bias"]]
    vectors = {name: tensors[document[name]] for name in STATES}
    _, heads, queries, d_value = attended.context.shape
    # the output projection is [heads d_value d_model]
    fits = weight.shape[:2] == (heads, d_value) and (bias is None or bias.shape == weight.shape[2:])
    if not fits or any(tensor.shape != (queries, weight.shape[2]) for tensor in vectors.values()):
        raise ValueError("the vectors of a layer do not fit its attention.")
    numbers = [*vectors.values(), weight, *([] if bias is None else [bias])]
    if not all(tensor.is_floating_point() and bool(tensor.isfinite().all()) for tensor in numbers):
        raise ValueError("the vectors of a layer must be finite floating-point numbers.")
    return LayerStates(**vectors, projection=OutputProjection(weight, bias))
