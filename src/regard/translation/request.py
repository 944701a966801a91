"""Requests: texts to translate as ids, each with the target pieces that its translation must begin with."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.attention.representation import type_name
from regard.errors import InputError
from regard.text.vocabulary import EOS, UNK, Vocabulary


@dataclass(frozen=True, slots=True)
class Request:
    """One text to translate.

    Attributes:
        index: the index of the text among all texts of the call.
        source: the text.
        ids: the ids of its pieces, EOS last.
        prefix: the ids of the target pieces that the translation must begin with, without BOS.
        unknown: the characters of the text that the vocabulary does not know.
        left_out: the number of pieces at the end of the text that are not read.
    """

    index: int
    source: str
    ids: tuple[int, ...]
    prefix: tuple[int, ...]
    unknown: tuple[str, ...]
    left_out: int

    @property
    def empty(self) -> bool:
        """Whether the text has no piece before EOS."""
        return self.ids == (EOS,)


def read_requests(
    texts: Sequence[str],
    prefixes: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    limit: int,
    *,
    first: int,
    truncate: bool,
    target_name: str = "prefix",
) -> list[Request]:
    """Cut texts into pieces and return a request for each; check the lengths of texts and target pieces.

    Args:
        prefixes: for each text, the ids of its target pieces.
        vocabulary: the vocabulary of the source language.
        limit: the largest number of pieces that the model reads, and that it writes.
        first: the line number of the first text, for messages.
        truncate: leave out the end of a text that is too long.
        target_name: what a message calls the target pieces.

    Raises:
        InputError: a text or its target is too long.
    """
    requests = []
    encoded = vocabulary.encode_all(texts)
    for index, (text, pieces, prefix) in enumerate(zip(texts, encoded, prefixes, strict=True)):
        ids = pieces if text.strip() else []
        if len(ids) > limit and not truncate:
            raise InputError(
                f"line {first + index} has {len(ids):,} pieces and the translator reads at most {limit:,}; "
                "divide it, or read only its beginning with --truncate (truncate=True)."
            )
        if len(prefix) > limit:
            raise InputError(
                f"the {target_name} of line {first + index} has {len(prefix):,} pieces and the translator writes at "
                f"most {limit:,}; shorten it."
            )
        request = Request(
            index=index,
            source=text,
            ids=(*ids[:limit], EOS),
            prefix=tuple(prefix),
            unknown=tuple(vocabulary.unknown(text)) if UNK in ids else (),
            left_out=max(len(ids) - limit, 0),
        )
        requests.append(request)
    return requests


def check_texts(texts: Sequence[str], name: str, first: int) -> None:
    """Raise TypeError, with the line number, if a text is not a str."""
    for number, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise TypeError(f"{name} of line {number} is {type_name(text)}; it takes a str.")


def prefix_for_each(prefix: str | Sequence[str] | None, texts: Sequence[str], first: int = 1) -> Sequence[str]:
    """Return a prefix for each text; an empty one where no prefix is given.

    Raises:
        ValueError: the number of prefixes is not the number of texts.
        TypeError: a prefix is not a str.
    """
    if prefix is None or isinstance(prefix, str):
        return [prefix or ""] * len(texts)
    check_texts(prefix, "the prefix", first)
    if len(prefix) != len(texts):
        raise ValueError(f"got {len(prefix)} prefixes for {len(texts)} texts; give one for all, or one for each.")
    return prefix
