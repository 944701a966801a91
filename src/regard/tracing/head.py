"""One head of a traced model, indexed by the tokens of its text: `trace["L3H1"]["it", "snake"]`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.strongest import strongest_first
from regard.errors import InputError, nearest
from regard.tracing.readable_tokens import Token

TokenReference = int | str
"""A token, given by its position or its text; "it:2" is the second token with the text `it`."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyWeight:
    """The weight of a query on one key, and the key's position and token."""

    weight: float
    position: int
    token: Token


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """One attention head of a traced model, with the tokens that are its queries and its keys.

    head["it"] is the tensor of weights of the query `it`; head["it", "snake"] is its weight on the key `snake`, a
    float.

    Attributes:
        kind: the kind of attention: "encoder", "decoder" or "cross".
        layer: the layer's number in the model, from 0.
        head: the head's number in the layer, from 0.
        pattern: the pattern of the whole layer, with all its heads.
        queries: the token of each query.
        keys: the token of each key.
    """

    kind: str
    layer: int
    head: int
    pattern: Pattern
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]

    @property
    def name(self) -> str:
        """The head's name as in the literature: L3H1 is head 1 of layer 3, both counted from 0."""
        return f"L{self.layer}H{self.head}"

    @property
    def weights(self) -> Float[Tensor, "queries keys"]:
        """The weight of each query on each key in this head."""
        return self.pattern[0, self.head].detach()

    def __getitem__(
        self, reference: TokenReference | tuple[TokenReference, TokenReference]
    ) -> Float[Tensor, " keys"] | float:
        if isinstance(reference, tuple):
            query, key = reference
            return float(self.row(query)[token_position(key, self.keys)])
        return self.row(reference)

    def row(self, query: TokenReference) -> Float[Tensor, " keys"]:
        """Return the weight of one query on each key."""
        return self.pattern[0, self.head, token_position(query, self.queries)].detach()

    def top(self, query: TokenReference, n: int = 5) -> list[KeyWeight]:
        """Return the `n` keys with the largest weights of one query, largest first; keys of weight 0 are left out."""
        weights, keys = strongest_first(self.row(query), min(n, len(self.keys)))
        return [KeyWeight(w, k, self.keys[k]) for w, k in zip(weights.tolist(), keys.tolist(), strict=True) if w > 0]

    def __repr__(self) -> str:
        return f"Head({self.name}, {self.kind}, queries={len(self.queries)}, keys={len(self.keys)})"


def token_position(reference: TokenReference, tokens: Sequence[Token]) -> int:
    """Return the position of a token that is given by its position (negative: from the end) or by its text.

    A text is compared with the tokens' texts, then with the tokenizer's names for them, then with the texts in any
    case.

    Raises:
        InputError: there is no such token, or the text is a word of several tokens; the message names the most similar
            tokens, or the tokens of the word.
    """
    if isinstance(reference, int):
        if not -len(tokens) <= reference < len(tokens):
            raise InputError(f"no token {reference}: there are {len(tokens)}, counted from 0 to {len(tokens) - 1}.")
        return reference % len(tokens)
    before, _, count = reference.rpartition(":")
    text, number = (before, int(count)) if count.isdecimal() else (reference, 1)
    for candidate, nth in ((reference, 1), (text, number)):
        positions = occurrences(candidate, tokens)
        if candidate and 1 <= nth <= len(positions):
            return positions[nth - 1]
        if candidate and positions and nth != 1:
            raise InputError(
                f"no token {reference!r}: {candidate!r} occurs {times(len(positions))}; "
                f"take {candidate}:1 to {candidate}:{len(positions)}."
            )
    if parts := tokens_spelling(reference, tokens):
        raise InputError(f"{reference!r} is {len(parts)} tokens here: {', '.join(parts)}; name one of them.")
    close = nearest(reference, list(dict.fromkeys(token.text for token in tokens)))
    raise InputError(f"no token {reference!r} in the text; nearest: {', '.join(close)}.")


def occurrences(text: str, tokens: Sequence[Token]) -> list[int]:
    """Return the positions of the tokens with this text, else with this `piece`, else with this text in any case."""
    criteria: list[Callable[[Token], bool]] = [
        lambda token: token.text == text,
        lambda token: token.piece == text,
        lambda token: token.text.casefold() == text.casefold(),
    ]
    matches = ([i for i, token in enumerate(tokens) if criterion(token)] for criterion in criteria)
    return next(filter(None, matches), [])


def tokens_spelling(word: str, tokens: Sequence[Token]) -> list[str]:
    """Return the texts of the first consecutive tokens that spell a word when joined; empty if no tokens do."""
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
    """Return a count as an adverb: "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
