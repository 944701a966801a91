"""The kinds of attention, the patterns of one kind by layer number, and the error message for a missing layer."""

from collections.abc import Collection, Mapping
from typing import NoReturn

from regard.attention.attend import Attended
from regard.attention.pattern import Pattern
from regard.errors import InputError

KINDS = ("encoder", "decoder", "cross")
"""The kinds of attention.

    encoder    a text attends to itself in both directions
    decoder    a text attends to itself, each token to earlier tokens and to itself
    cross      the target of an encoder-decoder attends to its source
"""

SIDES = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
"""For each kind of attention, the text to which its queries belong, and the text to which its keys belong."""

AttentionSteps = Mapping[str, Mapping[int, Attended]]
"""The attention calls of a model, by kind ("encoder", "decoder", "cross") and layer number."""


def counts_by_kind(attended: AttentionSteps) -> str:
    """Return the numbers of layers and heads of each kind of attention, such as "encoder=6x12"."""
    counts = []
    for kind in KINDS:
        if layers := attended.get(kind):
            n_heads = sorted({step.pattern.n_heads for step in layers.values()})
            counts.append(f"{kind}={len(layers)}x{'-'.join(map(str, n_heads))}")
    return ", ".join(counts)


class PatternsByLayer(dict[int, Pattern]):
    """A dict from layer number to pattern, for one kind of attention; a missing layer raises InputError."""

    def __init__(self, kind: str, patterns: dict[int, Pattern]) -> None:
        super().__init__(patterns)
        self.kind = kind

    def __missing__(self, layer: object) -> NoReturn:
        if not self:
            raise InputError(f"no layer {layer!r}: this trace has no {self.kind} attention.")
        if not isinstance(layer, int):
            raise InputError(f"no layer {layer!r}: a layer is a number from {min(self)} to {max(self)}.")
        raise missing_layer_error(layer, self, f"read {self.kind} attention of")


def missing_layer_error(layer: int, layers: Collection[int], use: str) -> InputError:
    """Return the InputError for a layer that is not in `layers`.

    Args:
        use: the verb in the message: "trace" gives "no layer 7 to trace".
    """
    near = min(layers, key=lambda candidate: abs(candidate - layer))
    return InputError(f"no layer {layer} to {use}: layers run from {min(layers)} to {max(layers)}; nearest: {near}.")
