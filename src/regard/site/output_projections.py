"""The output projections W_O of a model as a file of a site, from which the page computes what each head adds.

For each layer, in the order of the model's JSON record, the file has these arrays of little-endian float32. The page
shows only the first N_SHOWN numbers of a vector.

    columns    [heads × d_value, N_SHOWN]    the first columns of W_O
    gram       [heads × d_value, d_value]    W_O W_Oᵀ of each head: x · gram · x = |x · W_O|² for the head's context x
    bias       [N_SHOWN]                     the first numbers of the bias; missing if there is no bias
    weight     [heads × d_value, d_model]    W_O itself, from which the web worker computes the vector that a head adds

The worker keeps `weight` and gives the page only the other arrays, since W_O is d_model / d_value times as large as
`gram`.
"""

from pathlib import Path
from typing import Any

from einops import rearrange
from torch import Tensor

from regard.effects.contributions import OutputProjection
from regard.tracing.trace import Trace
from regard.views.page.outputs import N_SHOWN


def write_projections(first: Trace, path: Path) -> None:
    """Write the output projections in the trace of a model to a file; without output projections, the file is empty."""
    states = first.states or {}
    layers = [state for kind in first.kinds for state in states.get(kind, {}).values()]
    arrays = [array for state in layers for array in arrays_of(state.projection).values()]
    path.write_bytes(b"".join(array.numpy().astype("<f4").tobytes() for array in arrays))


def arrays_of(projection: OutputProjection) -> dict[str, Tensor]:
    """Return the arrays of one layer by their names: "columns", "gram", "bias" (if the layer has one) and "weight"."""
    weight = projection.weight.double()
    arrays = {
        "columns": rearrange(weight[:, :, :N_SHOWN], "heads d_value shown -> (heads d_value) shown"),
        "gram": rearrange(weight @ weight.mT, "heads row column -> (heads row) column"),
    }
    if projection.bias is not None:
        arrays["bias"] = projection.bias[:N_SHOWN].double()
    return arrays | {"weight": rearrange(weight, "heads d_value d_model -> (heads d_value) d_model")}


def projection_record(first: Trace, kind: str, layer: int) -> dict[str, Any] | None:
    """Return the JSON record of a layer's output projection, `LayerOutput` in front/src/trace/data.ts.

    The record gives the arrays names and shapes, in the order of the site's file, which has only numbers. None = the
    trace has no output projections.
    """
    if first.states is None:
        return None
    projection = first.states[kind][layer].projection
    arrays = {
        name: {"block": f"{kind} layer {layer} output {name}", "step": 1, "shape": list(array.shape)}
        for name, array in arrays_of(projection).items()
    }
    return {"width": projection.weight.shape[2], "weight": arrays.pop("weight"), "arrays": arrays}
