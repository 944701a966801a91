"""Copy from the source what a translator cannot write: unknown pieces, words of unknown letters, addresses, numbers.

An unknown target piece is replaced by the unknown source piece on which it has its largest attention weight, or, if the
source has none, by the source word on which its word has the largest weight.

A source word of unknown letters and an address stand in the translation as they are in the source. One that is missing
takes the place of the target word that attends to it most. If that target word has a number that is not in the source,
the same is done with a number in the source word that is missing from the translation: then only the number is
replaced. A number that is translated into words stays so.

Source: Luong et al. 2015, "Addressing the rare word problem", section 3.3 (here by attention).
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from regard.text.cleaning import tidied
from regard.text.vocabulary import UNK
from regard.translation.alignment import Alignment
from regard.translation.pieces import BYTE, text_of_pieces
from regard.translation.translation import Translation

ADDRESS = re.compile(r"(?:https?://|www\.)[!-~]*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
"""An address of a page or an e-mail address, without what follows in another script, such as a Korean particle."""

NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
"""Digits, with separators between them."""

WORD = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""A word without the punctuation before and after it."""


def with_copied_text(translation: Translation, alignment: Alignment) -> Translation:
    """Return a translation with text from the source in place of what the translator could not write."""
    pieces = list(translation.target_pieces)
    for row, token in enumerate(translation.target_ids):
        if token == UNK:
            pieces[row] = text_for_unknown_piece(translation, alignment, row)
    words = dict(copied_words(translation, alignment, text_of_pieces(pieces)))
    for word, text in words.items():
        rows = [row for row, of in enumerate(alignment.target_word_of) if of == word]
        pieces[rows[0] : rows[-1] + 1] = [f"▁{text}", *[""] * (rows[-1] - rows[0])]
    return replace(translation, text=text_of_pieces(pieces), target_pieces=tuple(pieces))


def text_for_unknown_piece(translation: Translation, alignment: Alignment, row: int) -> str:
    """Return the text of the source that replaces the unknown target piece in a row of the alignment."""
    unknown_in_source = [index for index, token in enumerate(translation.source_ids) if token == UNK]
    if unknown_in_source:
        largest = alignment.piece_weights[row, unknown_in_source].argmax()
        return translation.source_pieces[unknown_in_source[int(largest)]]
    largest = alignment.weights[alignment.target_word_of[row]].argmax()
    return tidied(alignment.source_words[int(largest)])


def copied_words(translation: Translation, alignment: Alignment, text: str) -> Iterator[tuple[int, str]]:
    """Yield the index of each target word that is to be replaced, and the text that replaces it.

    Args:
        text: the translation so far.
    """
    if not alignment.target_words:
        return
    for index, source_word in enumerate(alignment.source_words):
        target = int(alignment.weights[:, index].argmax())
        target_word = alignment.target_words[target]
        kept = kept_text(translation, alignment, index)
        if kept is not None:
            if kept not in text:
                yield target, replaced(WORD.search(target_word), kept, target_word)
            continue
        number, written = NUMBER.search(source_word), NUMBER.search(target_word)
        if number and written and number[0] not in text and written[0] not in translation.source:
            yield target, replaced(written, number[0], target_word)


def replaced(part: re.Match[str] | None, text: str, word: str) -> str:
    """Return a word with a text in place of a part of it; of the whole word if there is no such part."""
    return text if part is None else word[: part.start()] + text + word[part.end() :]


def kept_text(translation: Translation, alignment: Alignment, index: int) -> str | None:
    """Return the text of a source word that must stand in the translation as it is; None = there is none.

    Args:
        index: the index of the source word.
    """
    word = alignment.source_words[index]
    address = ADDRESS.search(word)
    if address:
        return address[0]
    pieces = zip(alignment.source_word_of, translation.source_ids, translation.source_pieces, strict=False)
    is_unknown = any(of == index and (token == UNK or BYTE.fullmatch(piece)) for of, token, piece in pieces)
    whole = WORD.search(word)
    return whole[0] if is_unknown and whole else None
