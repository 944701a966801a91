"""Changes to the attention of a model: hide one token from another, silence a head, or sharpen its weights.

Masks and scores are changed before the softmax, so the weights on the remaining keys still sum to 1; a silenced head
has no remaining keys. A fourth change, `Interchange`, replaces the output of a head; see `interchange.py`.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks import Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.score import Score
from regard.effects.interchange import Interchange
from regard.errors import InputError


@dataclass(frozen=True, slots=True)
class Cut:
    """A change of attention: a query token, or every query token, cannot attend to a key token.

    Attributes:
        query: the position of the query token in its text; or the text of the token, in functions that know the text;
            None = every query token, which masks the key token.
        key: the position or the text of the key token.
        heads: the names of the heads that this change applies to, such as "L3H1" or "cross L3H1"; None = all heads.
    """

    query: int | str | None
    key: int | str
    heads: Collection[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.heads, str):
            raise TypeError(f"heads={self.heads!r} is not a list of heads; give heads=[{self.heads!r}].")


@dataclass(frozen=True, slots=True)
class Silence:
    """A change of attention: a head, or each head of a layer, attends to no key, so the output of the head is 0.

    Attributes:
        head: the name of a head, such as "L3H1" or "cross L3H1", or of a layer, such as "L3".
    """

    head: str


@dataclass(frozen=True, slots=True)
class Sharpen:
    """A change of attention: the scores of a head, or of all heads of a layer, are divided by a temperature.

    A temperature below 1 makes the weights more peaked; above 1, more uniform.

    Attributes:
        head: the name of a head, such as "L3H1" or "cross L3H1", or of a layer, such as "L3".
        temperature: the number by which the scores are divided, from 0.000001 to 1,000,000.

    Raises:
        ValueError: the temperature is not from 0.000001 to 1,000,000.
    """

    head: str
    temperature: float

    def __post_init__(self) -> None:
        if not 1e-6 <= self.temperature <= 1e6:
            raise ValueError(f"temperature={self.temperature} of Sharpen must be from 0.000001 to 1,000,000.")


Change = Cut | Silence | Sharpen | Interchange


def check_list_of_changes(changes: object) -> None:
    if isinstance(changes, Change):
        raise TypeError(f"changes is {changes!r}; it takes a list: changes=[{changes!r}].")


Edge = tuple[int | None, int | None, int | None]
"""Indices (head, query, key): in this head, the query cannot attend to the key.

None in place of an index means every head, every query or every key.
"""


@dataclass(frozen=True, slots=True, repr=False)
class WithoutEdges(Mask):
    """A mask that is False at each `Edge` (head, query, key) in `edges`, and True elsewhere."""

    edges: tuple[Edge, ...]

    def keep(self, tile: Tile, device: torch.device) -> Bool[Tensor, "#batch #heads #queries #keys"]:
        is_cut = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=device)
        for edge in self.edges:
            is_on_edge = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
            for axis, index in enumerate(edge, start=1):  # axis 0 is the batch
                if index is not None:
                    indices = tile.along(axis, device)  # indices in the grid, shaped to broadcast to the tile
                    is_on_edge = is_on_edge & (indices == index)
            is_cut = is_cut | is_on_edge
        return ~is_cut


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SharpenedScore(Score):
    score: Score
    temperatures: Float[Tensor, " heads"]

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        scores = self.score(query, key, tile)
        temperatures = tile.select(self.temperatures[:, None, None])  # of the tile's heads, for all queries and keys
        return scores / temperatures.to(scores)

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        return self.score.keep(tile)

    def check(self, grid: Grid) -> None:
        self.score.check(grid)

    def check_widths(self, d_query: int, d_key: int) -> None:
        self.score.check_widths(d_query, d_key)

    def of_type(self, query: Tensor) -> Score:  # each call converts the temperatures to the type of the scores
        return replace(self, score=self.score.of_type(query))


HEADS = re.compile(r"(?:(?P<kind>encoder|decoder|cross)\s*)?(?:L(?P<layer>\d+)(?:H(?P<head>\d+))?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HeadSet:
    """The heads that a name selects: "L3H1" one head, "L3" a layer, "cross" all cross-attention.

    A field that is None selects every kind ("encoder", "decoder", "cross"), every layer or every head.
    """

    kind: str | None = None
    layer: int | None = None
    head: int | None = None

    @classmethod
    def of(cls, name: str) -> "HeadSet":
        match = HEADS.fullmatch(name.strip()) if isinstance(name, str) else None
        if match is None or not name.strip():
            raise InputError(
                f"no heads {name!r}: heads are named like 'L3H1' or 'cross L3H1', a layer 'L3', and a kind 'cross'."
            )
        kind, layer, head = match["kind"], match["layer"], match["head"]
        return cls(
            kind=None if kind is None else kind.lower(),
            layer=None if layer is None else int(layer),
            head=None if head is None else int(head),
        )

    def has_heads_in(self, kind: str, layer: int) -> bool:
        return self.kind in (None, kind) and self.layer in (None, layer)


def heads_of(change: Change) -> list[HeadSet]:
    if isinstance(change, Cut):
        return [HeadSet()] if change.heads is None else [HeadSet.of(name) for name in change.heads]
    return [HeadSet.of(change.head)]


def named_tokens(change: Change) -> list[int | str]:
    if isinstance(change, Cut):
        return [change.key] if change.query is None else [change.query, change.key]
    pairs = (change.token_pairs or []) if isinstance(change, Interchange) else []
    return [token for pair in pairs for token in pair]


def changed_call(
    call: Call, changes: Sequence[Change], kind: str, layer: int, first_query: int, first_key: int = 0
) -> Call:
    """Return an attention call of a layer with changes applied to its mask, score and normaliser.

    Tokens are given by position. `first_query` is the position in the text of the first query of the call; it is above
    0 if the model generates token by token, since a call then has only the newest query. `first_key` is the position of
    the first key; it is above 0 if the cache has only the keys of a sliding window. An `Interchange` in `changes` has
    no effect here: it changes the result of the call (`interchanged`).
    """
    edges, temperatures = list[Edge](), torch.ones(call.grid.heads, dtype=torch.float64)
    for change in changes:
        for heads in heads_of(change):
            if not heads.has_heads_in(kind, layer):
                continue
            if heads.head is not None and heads.head >= call.grid.heads:
                n_heads = call.grid.heads
                raise InputError(f"no head H{heads.head}: the layer has {n_heads} heads, H0 to H{n_heads - 1}.")
            if isinstance(change, Cut):  # the index of a token outside of this call equals no index of a query or key
                query = None if change.query is None else int(change.query) - first_query
                edges.append((heads.head, query, int(change.key) - first_key))
            elif isinstance(change, Silence):
                edges.append((heads.head, None, None))
            elif isinstance(change, Sharpen):
                sharpened = slice(None) if heads.head is None else heads.head
                temperatures[sharpened] *= change.temperature
    score, mask, normalise = call.score, call.mask, call.normalise
    if edges:
        cut = WithoutEdges(tuple(edges))
        mask = cut if mask is None else mask & cut
    if bool((temperatures != 1).any()):
        score = SharpenedScore(score, temperatures)
        if isinstance(normalise, Softmax) and normalise.sinks is not None:  # a sink is one more score of a head
            normalise = replace(normalise, sinks=normalise.sinks / temperatures.to(normalise.sinks))
    return call.changed(score=score, mask=mask, normalise=normalise)
