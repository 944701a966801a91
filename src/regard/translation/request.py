"""What a translator is asked: a text as its model reads it, and what the translation must begin with."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.attention.representation import type_name
from regard.text.vocabulary import EOS


@dataclass(frozen=True, slots=True)
class Request:
    """One text to translate, as the model reads it."""

    place: int
    source: str
    ids: tuple[int, ...]
    prefix: tuple[int, ...]
    unknown: tuple[str, ...]
    left_out: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read but EOS."""
        return self.ids == (EOS,)


def check_texts(texts: Sequence[str], what: str, first: int) -> None:
    """Refuse what is no text, by the number of its line."""
    for number, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise TypeError(f"{what} of line {number} is {type_name(text)}; it takes a str.")


def prefix_for_each(prefix: str | Sequence[str] | None, texts: Sequence[str], first: int = 1) -> Sequence[str]:
    """A prefix for each text.

    Raises:
        ValueError: there are not as many.
        TypeError: one that is no str.
    """
    if prefix is None or isinstance(prefix, str):
        return [prefix or ""] * len(texts)
    check_texts(prefix, "the prefix", first)
    if len(prefix) != len(texts):
        raise ValueError(f"got {len(prefix)} prefixes for {len(texts)} texts; give one for all, or one for each.")
    return prefix
