"""Encoding of the texts to translate, and of the prefixes with which the translations must begin."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.attention.representation import type_name
from regard.errors import InputError, TooLongError
from regard.text.cleaning import clean_text
from regard.text.placeholders import SIGNS, Placeholders, with_items, with_signs
from regard.text.vocabulary import EOS, UNK, Vocabulary


@dataclass(frozen=True, slots=True)
class Request:
    """One text to translate, encoded.

    Attributes:
        index: the index of the text in the list of texts to translate.
        source: the text as given, before it is cleaned.
        ids: the ids of the text's subword pieces, EOS last.
        prefix: the ids of the target pieces with which the translation must begin, without BOS.
        unknown: the characters of the text that are in no piece of the source vocabulary.
        left_out: the number of pieces that are cut from the end of a text that is too long.
        text_with_signs: the cleaned text, with signs such as ⟐ in place of names, numbers and addresses.
        signs: {name, number or address: its sign}; None = the translator has no placeholders.
        sign_ids: the ids of the target pieces of the signs that `ids` has: the translation should have them, too.
    """

    index: int
    source: str
    ids: tuple[int, ...]
    prefix: tuple[int, ...]
    unknown: tuple[str, ...]
    left_out: int
    text_with_signs: str
    signs: Mapping[str, str] | None
    sign_ids: frozenset[int] = frozenset()

    def pieces_with_items(self, pieces: Iterable[str]) -> tuple[str, ...]:
        """Put names, numbers and addresses back in place of the signs (such as ⟐) in the pieces of a translation."""
        return tuple(with_items(piece, self.signs) if piece in SIGNS else piece for piece in pieces)

    @property
    def empty(self) -> bool:
        return self.ids == (EOS,)


def read_requests(
    texts: Sequence[str],
    targets: Sequence[str],
    source_vocabulary: Vocabulary,
    target_vocabulary: Vocabulary,
    placeholders: Placeholders | None,
    limit: int,
) -> list[Request]:
    """Encode each text as a `Request`.

    Args:
        targets: for each text, the beginning of its translation, or its whole translation.
        limit: the largest number of pieces that the model reads, EOS not counted; further pieces are left out.
    """
    clean = list(map(clean_text, texts))
    signs = [None if placeholders is None else placeholders.signs(text) for text in clean]
    texts_with_signs = list(map(with_signs, clean, signs))
    encoded = source_vocabulary.encode_all(texts_with_signs)
    prefixes = target_vocabulary.encode_all(list(map(with_signs, targets, signs)))
    return [
        Request(
            index=index,
            source=texts[index],
            ids=(*ids[:limit], EOS),
            prefix=tuple(prefixes[index]),
            unknown=tuple(source_vocabulary.unknown(texts_with_signs[index])) if UNK in ids else (),
            left_out=max(len(ids) - limit, 0),
            text_with_signs=texts_with_signs[index],
            signs=signs[index],
            sign_ids=target_ids_of_signs(signs[index], ids[:limit], source_vocabulary, target_vocabulary),
        )
        for index, ids in enumerate(encoded)
    ]


def target_ids_of_signs(
    signs: Mapping[str, str] | None, source_ids: Sequence[int], source: Vocabulary, target: Vocabulary
) -> frozenset[int]:
    """Return the ids that the signs in `source_ids` have in the target vocabulary; see `Request.sign_ids`."""
    read_signs = [sign for sign in (signs or {}).values() if source.processor.PieceToId(sign) in source_ids]
    return frozenset(target.processor.PieceToId(sign) for sign in read_signs)


def check_lengths(
    requests: Iterable[Request], limit: int, first: int, *, may_be_long: bool, are_targets: bool = False
) -> None:
    """Raise InputError if a text or a prefix has more pieces than `limit`.

    Args:
        first: the line number, in messages, of the first text (the one with index 0).
        may_be_long: check only the prefixes, not the texts and the whole targets.
        are_targets: the prefixes are whole targets.
    """
    for request in requests:
        line = first + request.index
        n_pieces = len(request.ids) - 1 + request.left_out  # without EOS
        if request.left_out and not may_be_long:
            problem = f"line {line} has {n_pieces:,} pieces and the translator reads at most {limit:,}"
            raise TooLongError(problem, "divide it", n_pieces, limit)
        n_target = len(request.prefix)
        problem = f"of line {line} has {n_target:,} pieces and the translator writes at most {limit:,}"
        if n_target > limit and not are_targets:
            raise InputError(f"the prefix {problem}; shorten it.")
        if n_target > limit and not may_be_long:
            raise TooLongError(f"the target {problem}", "shorten it", n_target, limit)


def check_texts(texts: Sequence[str], name: str, first: int) -> None:
    """Raise TypeError unless `texts` is a sequence of str.

    Args:
        name: what the message calls one of the texts, such as "the target".
        first: the line number of the first text, for the message.
    """
    if isinstance(texts, str) or not hasattr(texts, "__len__"):
        given = repr(texts) if isinstance(texts, str) else type_name(texts)
        raise TypeError(f"give a list with {name} of each line; got {given}.")
    for number, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise TypeError(f"{name} of line {number} is {type_name(text)}; it must be a str.")


def check_pairs(texts: Sequence[str], targets: Sequence[str], first: int = 1) -> None:
    """Raise TypeError unless all texts and targets are str, and ValueError unless each text has one target.

    `first` is the number of the first text's line, for messages.
    """
    check_texts(texts, "the text", first)
    check_texts(targets, "the target", first)
    if len(targets) != len(texts):
        raise ValueError(f"got {len(targets)} targets for {len(texts)} texts; give one for each.")


def prefix_for_each(prefix: str | Sequence[str] | None, texts: Sequence[str], first: int = 1) -> Sequence[str]:
    """Return a prefix for each text; raise ValueError or TypeError unless there is one str for each text.

    Args:
        prefix: one prefix for all texts, or one for each text; None = "".
    """
    if prefix is None or isinstance(prefix, str):
        return [prefix or ""] * len(texts)
    check_texts(prefix, "the prefix", first)
    if len(prefix) != len(texts):
        raise ValueError(f"got {len(prefix)} prefixes for {len(texts)} texts; give one for all, or one for each.")
    return prefix
