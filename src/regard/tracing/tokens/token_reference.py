"""Finds a token that the user names by its position or by its text: `it`, or "it:2" for the second `it`."""

from collections.abc import Callable, Sequence

from regard.errors import InputError, nearest
from regard.tracing.tokens.readable_tokens import Token

TokenReference = int | str
"""A token, given by its position or its text; "it:2" is the second token with the text `it`."""


def token_position(reference: TokenReference, tokens: Sequence[Token]) -> int:
    """Return the position of a token that is given by its position (negative: from the end) or by its text."""
    if isinstance(reference, int):
        if not -len(tokens) <= reference < len(tokens):
            raise InputError(f"no token {reference}: there are {len(tokens)}, counted from 0 to {len(tokens) - 1}.")
        return reference % len(tokens)
    if not isinstance(reference, str):
        raise TypeError(f"{reference!r} is not a token; give its position, such as 7, or its text, such as 'it'.")
    if positions := occurrences(reference, tokens):  # comes first: the text of a token may end in a colon and digits
        return positions[0]
    text, _, number = reference.rpartition(":")
    if number.isdecimal() and (positions := occurrences(text, tokens)):
        if 1 <= int(number) <= len(positions):
            return positions[int(number) - 1]
        names = text if len(positions) == 1 else f"{text}:1 to {text}:{len(positions)}"
        raise InputError(f"no token {reference!r}: {text!r} occurs {times(len(positions))}; take {names}.")
    if parts := tokens_spelling(reference, tokens):
        raise InputError(
            f"{reference!r} is {len(parts)} tokens here: {', '.join(parts)}; name one of them, or join them with "
            f"trace.words({reference!r})."
        )
    parts_of_medium = [token.text for token in tokens if token.place is not None]  # patches "2,3" or frames "0.02s"
    if parts_of_medium and reference[:1].isdigit():
        first, last = parts_of_medium[0], parts_of_medium[-1]
        raise InputError(f"no token {reference!r}: the parts of the picture or recording run from {first} to {last}.")
    close = nearest(reference, list(dict.fromkeys(token.text for token in tokens)))
    raise InputError(f"no token {reference!r} in the text; nearest: {', '.join(close)}.")


def query_position(reference: TokenReference, queries: Sequence[Token], keys: Sequence[Token]) -> int:
    """Return the position of a query; the message of the error says so if the reference names only a key."""
    try:
        return token_position(reference, queries)
    except InputError as error:
        if isinstance(reference, str) and occurrences(reference, keys):
            names = [reference_of(position, queries) for position in range(min(10, len(queries)))]
            if len(queries) > 10:
                names.append("…")
            raise InputError(f"{reference!r} is a key here, not a query; queries: {', '.join(names)}") from error
        raise


def reference_of(position: int, tokens: Sequence[Token]) -> str:
    """Return a name of a token: its text. If several tokens have this text, they are numbered: "it:1", "it:2".

    >>> tokens = [Token(text=text, piece=text, special=False) for text in ("it", "is", "as", "it")]
    >>> [reference_of(position, tokens) for position in range(4)]
    ['it:1', 'is', 'as', 'it:2']
    """
    text = tokens[position].text
    same = [i for i, token in enumerate(tokens) if token.text == text]
    return text if len(same) == 1 else f"{text}:{same.index(position) + 1}"


def occurrences(text: str, tokens: Sequence[Token]) -> list[int]:
    """Return the positions of the tokens that match a text: exactly, or else as a piece, as [UNK:…], or ignoring case.

    "[UNK:🙂]" is a token that stands for the letters 🙂, which the vocabulary lacks.
    """
    criteria: list[Callable[[Token], bool]] = [
        lambda token: token.text == text,
        lambda token: token.piece == text,
        lambda token: token.text == f"[UNK:{text}]",
        lambda token: token.text.casefold() == text.casefold(),
    ]
    for criterion in criteria:
        positions = [i for i, token in enumerate(tokens) if criterion(token)]
        if positions:
            return positions
    return []


def tokens_spelling(text: str, tokens: Sequence[Token]) -> list[str]:
    """Return the texts of the first consecutive tokens that spell `text` when joined, ignoring case and spaces.

    [] = there are no such tokens.
    """
    letters = "".join(text.split()).casefold()
    for start in range(len(tokens)):
        spelling = ""
        for stop in range(start, len(tokens)):
            spelling += tokens[stop].text.casefold()
            if spelling == letters:
                return [token.text for token in tokens[start : stop + 1]]
            if not letters.startswith(spelling):
                break
    return []


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
