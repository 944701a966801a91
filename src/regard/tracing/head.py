"""One head of a traced model. A head is indexed by tokens, and returns weights: `trace["L3H1"]["it", "snake"]`."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.strongest import strongest_first
from regard.effects.contributions import Contributions, OutputProjection, contributions
from regard.errors import InputError, nearest
from regard.tracing.merged_pattern import average_head
from regard.tracing.patterns_by_layer import missing_layer_error
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import TokenReference, token_position


@dataclass(frozen=True, slots=True, eq=False)
class KeyWeight:
    """The attention weight of a query on one key, and the key's position and token."""

    weight: float
    position: int
    token: Token

    def __repr__(self) -> str:
        return f"KeyWeight({self.token.text!r}, {self.weight:.4g}, position={self.position})"


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """One attention head of a traced model, with the tokens of its queries and of its keys.

    head["it"] is the tensor of the weights of the query `it` on all keys; head["it", "snake"] is its weight on the key
    `snake`, a float.

    Attributes:
        kind: the kind of attention: "encoder", "decoder" or "cross".
        layer: the layer's number in the model, from 0.
        head: the head's number in the layer, from 0; None for the average over the heads of the layer.
        pattern: the attention pattern of all heads of the layer; for the average, a pattern with one head.
        queries: the token of each query.
        keys: the token of each key.
        projection: the output projection of the layer's attention; None unless the trace was made with
            keep=("hidden",).
    """

    kind: str
    layer: int
    head: int | None
    pattern: Pattern
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    projection: OutputProjection | None = None

    @property
    def name(self) -> str:
        """The head's name as in the literature: "L3H1" is head 1 of layer 3, both counted from 0; or "L3average"."""
        return f"L{self.layer}average" if self.head is None else f"L{self.layer}H{self.head}"

    @property
    def number(self) -> int:
        """The index of the head in `pattern`: its number in the layer, or 0 for the average over the heads."""
        return self.head or 0

    @property
    def weights(self) -> Float[Tensor, "queries keys"]:
        """The weight of each query on each key in this head."""
        return self.pattern[0, self.number].detach()

    @overload
    def __getitem__(self, reference: tuple[TokenReference, TokenReference]) -> float: ...

    @overload
    def __getitem__(self, reference: TokenReference) -> Float[Tensor, " keys"]: ...

    def __getitem__(
        self, reference: TokenReference | tuple[TokenReference, TokenReference]
    ) -> Float[Tensor, " keys"] | float:
        if isinstance(reference, tuple):
            if len(reference) != 2:
                raise TypeError(f"a head takes a query, or a query and a key: head['it', 'snake']; got {reference!r}.")
            query, key = reference
            return float(self.row(query)[token_position(key, self.keys)])
        return self.row(reference)

    def row(self, query: TokenReference) -> Float[Tensor, " keys"]:
        """Return the weights of one query on all keys."""
        return self.pattern[0, self.number, token_position(query, self.queries)].detach()

    def top(self, query: TokenReference, n: int = 5) -> list[KeyWeight]:
        """Return the `n` keys on which one query has the largest weights, largest first; weights of 0 are left out."""
        if n < 1:
            raise InputError(f"n={n} is how many keys to return; it must be at least 1.")
        weights, keys = strongest_first(self.row(query), min(n, len(self.keys)))
        return [KeyWeight(w, k, self.keys[k]) for w, k in zip(weights.tolist(), keys.tolist(), strict=True) if w > 0]

    def contributions(self, query: TokenReference) -> Contributions:
        """Return the vector that each key adds to a query in this head: weight · value · W_O, and its norm.

        Raises:
            InputError: there is no such token, this is an average over heads, or the trace did not keep the output
                projection.

        Source: Kobayashi et al. 2020, "Attention is not only a weight", section 3.
        """
        if self.head is None:
            raise InputError(
                f"contributions are those of one head; {self.name} is an average over the heads of a layer."
            )
        if self.projection is None:
            raise no_states_error("contributions")
        position = token_position(query, self.queries)
        all_heads = contributions(self.pattern, position, self.projection)
        return Contributions(all_heads.vectors[self.head], all_heads.lengths[self.head])

    def figure(self, path: str | Path) -> Path:
        """Write a picture of the head's pattern to a file; `path` ends in .png, .svg or .pdf."""
        from regard.views.picture.one_head import write_head

        return write_head(self, Path(path))

    def _repr_png_(self) -> bytes:
        """Return a picture of the head's pattern, for a notebook."""
        from regard.views.picture.canvas import rendered
        from regard.views.picture.one_head import head_figure

        return rendered(head_figure(self, f"{self.kind} {self.name}"))

    def __repr__(self) -> str:
        return f"Head({self.name}, {self.kind}, queries={len(self.queries)}, keys={len(self.keys)})"


def no_states_error(method: str) -> InputError:
    return InputError(
        f"{method} needs the vectors of the layers, which this trace does not have; make the trace with "
        "keep=('hidden',), and do not join its words."
    )


AVERAGE = re.compile(r"L(\d+)average", re.IGNORECASE)


def head_named(name: str, heads_of: Callable[[str], Collection[Head]], example_kind: str) -> Head:
    """Return the head with a name such as "L3H1", "cross L3H1" or "L3average".

    `heads_of` returns the heads of one kind of attention, such as "cross"; for "", the heads of the trace's only kind.
    `example_kind` is a kind of attention in the trace, for the error message.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"a trace takes the name of a head, such as trace['L3H1']; got {name!r}: the pattern of a layer is "
            f"trace.{example_kind}[layer]."
        )
    *kind_words, short_name = name.split() or [""]  # an empty name is refused below, as no head has it
    heads = {head.name: head for head in heads_of(" ".join(kind_words))}
    if match := AVERAGE.fullmatch(short_name):
        layer, head_in_layer = int(match[1]), {head.layer: head for head in heads.values()}
        if layer not in head_in_layer:
            raise missing_layer_error(layer, head_in_layer, "average")
        one_head = head_in_layer[layer]
        return replace(one_head, head=None, pattern=average_head(one_head.pattern), projection=None)
    if short_name.upper() not in heads:
        names = list(heads)
        raise InputError(
            f"no head {short_name!r}; heads are named like L3H1 and run from {names[0]} to {names[-1]}; "
            f"nearest: {', '.join(nearest_heads(short_name, names))}."
        )
    return heads[short_name.upper()]


def nearest_heads(name: str, names: list[str]) -> list[str]:
    """Return the three of `names` that are nearest to a head's name, by layer number, then by head number.

    "L3" is taken as "L3H0"; another name that is not of the form "L3H1" is compared letter by letter.
    """
    match = re.fullmatch(r"L(\d+)(?:H(\d+))?", name.upper())
    if match is None:
        return nearest(name.upper(), names)
    layer, head = map(int, match.groups("0"))

    def distance(other: str) -> tuple[int, int]:
        other_layer, other_head = map(int, other[1:].split("H"))
        return abs(other_layer - layer), abs(other_head - head)

    return sorted(names, key=distance)[:3]
