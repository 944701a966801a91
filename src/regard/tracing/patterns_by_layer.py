"""The kinds of attention, the patterns of one kind by layer number, and errors about layers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.pattern import Pattern
from regard.errors import InputError
from regard.tracing.tokens.readable_tokens import Token

KINDS = ("encoder", "decoder", "cross")
"""The kinds of attention.

    encoder    a text attends to itself in both directions
    decoder    a text attends to itself, each token to earlier tokens and to itself
    cross      the target of an encoder-decoder attends to its source
"""


@dataclass(frozen=True, slots=True)
class Sides:
    """The texts to which the queries and the keys of an attention call belong: "source" or "target"."""

    queries: str
    keys: str


SIDES = {"encoder": Sides("source", "source"), "decoder": Sides("target", "target"), "cross": Sides("target", "source")}
"""The sides of each kind of attention."""

AttentionSteps = Mapping[str, Mapping[int, Attended]]
"""The attention calls (steps) of a model, by kind ("encoder", "decoder", "cross") and layer number."""


def layers_in_order(attended: AttentionSteps) -> list[tuple[str, int]]:
    """Return the kind of attention and the number of each layer, in the order in which a model computes the layers.

    The encoder comes first. Then, layer by layer, self-attention of the decoder comes before cross-attention.
    """

    def rank(place: tuple[str, int]) -> tuple[bool, int, int]:
        kind, layer = place
        return kind != "encoder", layer, KINDS.index(kind)

    return sorted([(kind, layer) for kind in KINDS for layer in attended.get(kind, ())], key=rank)


def head_name(layers: Sequence[tuple[str, int]], row: int, head: int) -> str:
    """Return the name of a head of the layer `layers[row]`: "L3H1", or "cross L3H1" if there are several kinds."""
    kind, layer = layers[row]
    return f"{kind} L{layer}H{head}" if len({kind for kind, _ in layers}) > 1 else f"L{layer}H{head}"


def largest_cells(numbers: Float[Tensor, "layers heads"], n: int) -> list[tuple[int, int]]:
    """Return the row and the column of the n largest numbers, largest first; NaN is left out."""
    flat = numbers.nan_to_num(-torch.inf).flatten()
    order = flat.sort(descending=True, stable=True).indices[:n].tolist()
    return [divmod(cell, numbers.shape[1]) for cell in order if flat[cell] > -torch.inf]


def counts_by_kind(attended: AttentionSteps) -> str:
    """Return the numbers of layers and heads of each kind of attention: "encoder=6x12"; "6x8-12" = 8 or 12 heads."""
    counts = []
    for kind in KINDS:
        if layers := attended.get(kind):
            n_heads = sorted({step.pattern.n_heads for step in layers.values()})
            counts.append(f"{kind}={len(layers)}x{'-'.join(map(str, n_heads))}")
    return ", ".join(counts)


class PatternsByLayer(dict[int, Pattern]):
    """The patterns of one kind of attention, by layer number; a missing layer raises InputError."""

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
    """Return the InputError for a layer that is not in `layers`; `use` is a verb, as in "no layer 7 to trace".

    The message names the nearest layer; a negative `layer` counts from the end.
    """
    wanted = layer if layer >= 0 else max(layers) + 1 + layer
    nearest = min(layers, key=lambda candidate: abs(candidate - wanted))
    return InputError(f"no layer {layer} to {use}: layers run from {min(layers)} to {max(layers)}; nearest: {nearest}.")


def several_kinds_error(kinds: Sequence[str]) -> InputError:
    return InputError(f"this trace has {', '.join(kinds)} attention; say which, as in 'cross L0H0' or kind='cross'.")


def several_stages_error(sources: Mapping[int, tuple[Token, ...]]) -> InputError:
    """Return the InputError for a method that needs the same tokens in all layers, given the tokens of each layer.

    In models that merge patches, such as Swin, each stage (some successive layers) has its own tokens.
    """
    stages: dict[tuple[Token, ...], list[int]] = {}
    for layer, tokens in sources.items():
        stages.setdefault(tokens, []).append(layer)
    found = ", ".join(f"{len(tokens)} in {layers_label(layers)}" for tokens, layers in stages.items())
    return InputError(
        f"the layers of this trace have different tokens ({found}); use a part of it, such as "
        f"trace.stage({next(iter(sources))})."
    )


def layers_label(numbers: Sequence[int]) -> str:
    """Return consecutive layer numbers in words.

    >>> layers_label([2]), layers_label([2, 3, 4])
    ('layer 2', 'layers 2 to 4')
    """
    return f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {numbers[0]} to {numbers[-1]}"
