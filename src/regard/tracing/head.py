"""One head of a traced model, asked in the words of its text: `trace["L3H1"]["it", "snake"]`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.errors import InputError, nearest
from regard.tracing.tokens import Token

Place = int | str
"""A token: its position, or its text; "it:2" is the second `it`."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """One key that a query looks at, and how strongly."""

    weight: float
    position: int
    token: Token


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Who looks at whom in one head: rows are the tokens that look (queries), columns those looked at (keys).

    head["it"] is the row of weights of `it`; head["it", "snake"] is one weight, a float.
    """

    kind: str
    layer: int
    head: int
    pattern: Pattern
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]

    @property
    def name(self) -> str:
        """As in the literature: L3H1, both counted from 0."""
        return f"L{self.layer}H{self.head}"

    @property
    def weights(self) -> Float[Tensor, "queries keys"]:
        """All weights of the head."""
        return self.pattern[0, self.head].detach()

    def __getitem__(self, place: Place | tuple[Place, Place]) -> Float[Tensor, " keys"] | float:
        if isinstance(place, tuple):
            query, key = place
            return float(self.row(query)[find(key, self.keys)])
        return self.row(place)

    def row(self, query: Place) -> Float[Tensor, " keys"]:
        """The weights with which one token looks at each key."""
        return self.pattern[0, self.head, find(query, self.queries)].detach()

    def top(self, query: Place, n: int = 5) -> list[Look]:
        """The keys that one token looks at most, strongest first."""
        weights, keys = self.row(query).topk(min(n, len(self.keys)))
        return [Look(w, k, self.keys[k]) for w, k in zip(weights.tolist(), keys.tolist(), strict=True) if w > 0]

    def __repr__(self) -> str:
        return f"Head({self.name}, {self.kind}, queries={len(self.queries)}, keys={len(self.keys)})"


def find(place: Place, tokens: Sequence[Token]) -> int:
    """The position of a token, given as itself or by its text; upper and lower case only matter where both occur.

    Raises:
        InputError: no such token, with the nearest ones; or a word that is several tokens, with their names.
    """
    if isinstance(place, int):
        if not -len(tokens) <= place < len(tokens):
            raise InputError(f"no token {place}: there are {len(tokens)}, counted from 0 to {len(tokens) - 1}.")
        return place % len(tokens)
    text, _, count = place.rpartition(":") if place.rpartition(":")[2].isdecimal() else (place, "", "1")
    for wanted, number in ((place, 1), (text, int(count))):
        found = occurrences(wanted, tokens)
        if wanted and 1 <= number <= len(found):
            return found[number - 1]
        if wanted and found and number != 1:
            raise InputError(
                f"no token {place!r}: {wanted!r} occurs {times(len(found))}; take {wanted}:1 to {wanted}:{len(found)}."
            )
    if parts := spelled(place, tokens):
        raise InputError(f"{place!r} is {len(parts)} tokens here: {', '.join(parts)}; name one of them.")
    close = nearest(place, list(dict.fromkeys(token.text for token in tokens)))
    raise InputError(f"no token {place!r} in the text; nearest: {', '.join(close)}.")


def occurrences(text: str, tokens: Sequence[Token]) -> list[int]:
    """Where a text occurs as a token: as the text has it, else as the model's piece, else in any case."""
    readings: list[Callable[[Token], bool]] = [
        lambda token: token.text == text,
        lambda token: token.piece == text,
        lambda token: token.text.casefold() == text.casefold(),
    ]
    found = ([i for i, token in enumerate(tokens) if reads(token)] for reads in readings)
    return next(filter(None, found), [])


def spelled(word: str, tokens: Sequence[Token]) -> list[str]:
    """The texts of consecutive tokens that together spell a word; none if there are no such."""
    for start in range(len(tokens)):
        spelling = ""
        for stop in range(start, len(tokens)):
            spelling += tokens[stop].text
            if spelling.casefold() == word.casefold():
                return [token.text for token in tokens[start : stop + 1]]
            if not word.casefold().startswith(spelling.casefold()):
                break
    return []


def times(count: int) -> str:
    """How often, in words."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
