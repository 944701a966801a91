"""The names of a model's vectors, as outputs of its ONNX graphs and as blocks (arrays) in the data of a page."""

PARTS = "query", "key", "value"
"""The names of the vectors from which the page computes a layer's attention."""

WEIGHTS = "weights"
"""The name of the attention weights of a layer. The page needs them if it cannot compute them from queries and keys."""

HIDDEN = "before", "attention", "feed_forward", "after"
"""The names of a layer's hidden vectors: the fields of `LayerStates` (in effects/movement.py)."""


def block_name(kind: str, layer: int, part: str) -> str:
    """Return the name of the vectors or weights (`part`) of a layer, such as "encoder layer 0 query".

    `kind` is that of the layer's attention, "encoder", "decoder" or "cross"; `layer` counts from 0.
    """
    return f"{kind} layer {layer} {part}"
