"""Compares two traces of the same text: `regard.compare`.

The two traces may differ in the checkpoint of the model, its number type (as in a quantised model), the backend that
computes attention, or the changes to attention.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.representation import type_name
from regard.effects.distance import pattern_distance
from regard.errors import InputError
from regard.tracing.patterns_by_layer import head_name, largest_cells, layers_in_order
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import TokenReference, reference_of
from regard.tracing.trace import Trace
from regard.tracing.watching.watched import largest_magnitude


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """The differences between the attention patterns and outputs of two traces of the same text.

    The difference of two patterns at a query is the total variation: half the sum over the keys of |weight - other
    weight|, from 0 to 1. If the weights of a query sum to less than 1 (to 0 in a silenced head), the rest counts as the
    weight of one more key.

    Attributes:
        traces: the two traces.
        layers: for each row of `heads`, `queries` and `weights`, the kind of attention and the number of the layer, in
            the order in which the model computes the layers.
        tokens: for each kind of attention, the tokens of the queries.
        heads: for each head, the largest total variation over the queries; NaN where a layer has no head of this
            number, since it has fewer heads than another layer.
        queries: for each head, the position of the query with the largest total variation.
        weights: for each head, the largest |weight - other weight| over the queries and keys.
        output: the largest absolute difference of the models' outputs; None if a trace has no output, or if their
            shapes differ.
        at_most: the largest total variation that counts as no difference.
    """

    traces: tuple[Trace, Trace]
    layers: tuple[tuple[str, int], ...]
    tokens: Mapping[str, tuple[Token, ...]]
    heads: Float[Tensor, "layers heads"]
    queries: Int[Tensor, "layers heads"]
    weights: Float[Tensor, "layers heads"]
    output: float | None
    at_most: float

    @property
    def models(self) -> tuple[str, str]:
        """The names of the two models."""
        return self.traces[0].model, self.traces[1].model

    @property
    def first(self) -> tuple[str, str] | None:
        """The head and the query token where the two traces first differ, such as ("L3H1", "it").

        The layer is the first that has a head with a total variation above `at_most`; the head is the one with the
        largest total variation in this layer. None = no layer has such a head.
        """
        for row, distances in enumerate(self.heads.nan_to_num(0.0)):
            if float(distances.max()) > self.at_most:
                return self.head_and_query(row, int(distances.argmax()))
        return None

    def head_and_query(self, row: int, head: int) -> tuple[str, str]:
        """Return a head's name, and the query token whose weights differ most between the two compared traces.

        The head is number `head` of the layer `layers[row]`.
        """
        kind, _ = self.layers[row]
        tokens = self.tokens[kind]
        return head_name(self.layers, row, head), reference_of(int(self.queries[row, head]), tokens)

    def largest(self, n: int = 5) -> list[tuple[str, str, float]]:
        """Return, for the n heads that differ most, the name of the head, the query token and the total variation."""
        return [(*self.head_and_query(row, head), float(self.heads[row, head])) for row, head in self.largest_cells(n)]

    def largest_cells(self, n: int) -> list[tuple[int, int]]:
        """Return, for the n heads that differ most, the index of the layer in `layers`, and the number of the head."""
        return largest_cells(self.heads, n)

    def show(self) -> None:
        """Print where the two traces first differ, the heads that differ most, and a grid of all heads."""
        from regard.views.terminal.comparison import show

        show(self)

    def html(self, path: str | Path, token: TokenReference | None = None, head: str | None = None) -> Path:
        """Write a web page with the patterns of both compared traces side by side, on one scale; it works offline.

        Args:
            token, head: the query token and the head (such as "L3H1") that the page shows first. If both are None, the
                page shows those where the traces first differ. If the traces differ nowhere, or if only one argument is
                None, the page starts with a large weight on a distant token.
        """
        from regard.views.page.comparison import write_page

        return write_page(self, Path(path), token=token, head=head)

    def figure(self, path: str | Path) -> Path:
        """Write a picture of the differences of all heads to a file; `path` ends in .png, .svg or .pdf."""
        from regard.views.picture.comparison import write_figure

        return write_figure(self, Path(path))

    def _repr_html_(self) -> str:
        """Return the HTML page of the comparison inside an HTML frame, for a notebook."""
        from regard.views.page.notebook import comparison_frame

        return comparison_frame(self)

    def __repr__(self) -> str:
        largest = float(self.heads.nan_to_num(0.0).max())
        output = "" if self.output is None else f", output={self.output:.3g}"
        return f"Comparison({' | '.join(self.models)}, first={self.first}, largest={largest:.3g}{output})"


def compare(trace: Trace, other: Trace, *, at_most: float = 1e-3) -> Comparison:
    """Compare two traces of the same text: where their attention first differs, and by how much in each head.

    Args:
        trace, other: the two traces; their tokens, layers and numbers of heads must be the same.
        at_most: the largest total variation (see `Comparison`) that counts as no difference, from 0 to 1.

    Raises:
        InputError: the traces have different tokens, layers or numbers of heads, or `at_most` is not from 0 to 1.

    >>> import regard
    >>> text = "The snake is very dangerous because it has a venom."
    >>> cut = regard.trace("MiniLM", text, changes=[regard.Cut("it", "snake", heads=["L3H1"])])
    >>> regard.compare(regard.trace("MiniLM", text), cut).first
    ('L3H1', 'it')
    """
    if not 0 <= at_most <= 1:
        raise InputError(f"at_most={at_most:g}: a difference of attention is from 0 to 1.")
    check_comparable(trace, other)
    layers = layers_in_order(trace.attended)
    n_heads = max(trace.attended[kind][layer].pattern.n_heads for kind, layer in layers)
    distances = torch.full((len(layers), n_heads), torch.nan)
    weights = torch.full((len(layers), n_heads), torch.nan)
    queries = torch.zeros(len(layers), n_heads, dtype=torch.long)
    for row, (kind, layer) in enumerate(layers):
        distance = pattern_distance(trace.attended[kind][layer].pattern, other.attended[kind][layer].pattern)
        variation = distance.total_variation[0].cpu()  # of the only batch item: [heads queries]
        columns = slice(0, len(variation))  # the other columns stay NaN: this layer may have fewer heads than another
        distances[row, columns], queries[row, columns] = variation.max(dim=-1)
        weights[row, columns] = distance.largest[0].amax(dim=-1).cpu()
    query_tokens = {kind: trace.queries(kind) for kind in trace.kinds}
    output, other_output = trace.output, other.output
    difference = None
    if output is not None and other_output is not None and output.shape == other_output.shape:
        difference = largest_magnitude(output.cpu().double() - other_output.cpu().double())
    return Comparison(
        traces=(trace, other),
        layers=tuple(layers),
        tokens=query_tokens,
        heads=distances,
        queries=queries,
        weights=weights,
        output=difference,
        at_most=at_most,
    )


def check_comparable(trace: Trace, other: Trace) -> None:
    for one in (trace, other):
        if not isinstance(one, Trace):
            raise TypeError(f"compare takes two traces; got {type_name(one)}.")
    kinds = [", ".join(one.kinds) for one in (trace, other)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{trace.model} has {kinds[0]} attention, and {other.model} has {kinds[1]} attention; compare models of "
            "the same architecture."
        )
    for side in ("source", "target"):
        texts, other_texts = ([token.text for token in getattr(one, side)] for one in (trace, other))
        for position, (text, other_text) in enumerate(zip_longest(texts, other_texts)):
            if text != other_text:
                names = ["no token" if token is None else repr(token) for token in (text, other_text)]
                raise InputError(
                    f"the traces have different tokens: the {side} has {names[0]} and {names[1]} at position "
                    f"{position}; compare traces of the same text by models with the same tokenizer."
                )
    n_heads, other_n_heads = head_counts(trace), head_counts(other)
    for layer in {**n_heads, **other_n_heads}:
        n, other_n = n_heads.get(layer, "no"), other_n_heads.get(layer, "no")
        if n != other_n:
            raise InputError(
                f"the traces have {n} heads and {other_n} heads in {layer}; compare traces of the same architecture "
                "and of the same layers."
            )


def head_counts(trace: Trace) -> dict[str, int]:
    """Return the number of heads of each layer, by names such as "cross layer 3"."""
    steps = {f"{kind} layer {n}": step for kind in trace.kinds for n, step in trace.attended[kind].items()}
    return {layer: step.pattern.n_heads for layer, step in steps.items()}
