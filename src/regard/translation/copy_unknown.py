"""Copying from the source what a translator cannot write: unknown pieces, words with unknown letters, URLs, numbers.

An unknown target piece is replaced by the unknown source piece to which it attends most. If the source has no unknown
piece, the target piece is replaced by the source word to which its word attends most.

Three kinds of source words are copied if the translation lacks them: a word with letters that the vocabulary does not
know, a URL or e-mail address, and a number. The source word replaces the target word that attends to it most. For a
number there are two exceptions. If the target word has a number that the source lacks, only this number is replaced.
If the target word has no number, a number of fewer than four digits is not copied, since the translation may spell it
out: 3 as "three". The translation does not lack a number if it has the same digits with other separators.

Source: Luong et al. 2015, "Addressing the rare word problem", section 3.3 (here by attention).
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

from regard.text.cleaning import clean_text
from regard.text.vocabulary import UNK
from regard.translation.alignment import Alignment
from regard.translation.pieces import BYTE, text_of_pieces
from regard.translation.translation import Translation

ADDRESS = re.compile(r"(?:https?://|www\.)[!-~]*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
"""A regular expression for a URL or an e-mail address; it ends before letters that are not ASCII."""

NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
"""A regular expression for a number: digits, perhaps with separators such as "." and "," between them."""

FEWEST_DIGITS = 4
"""The smallest number of digits of a number that replaces a word; shorter numbers may be spelt out as words."""

WORD = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""A regular expression for a word without the punctuation before and after the word."""


def with_copied_text(translation: Translation, alignment: Alignment) -> Translation:
    """Return a translation with unknown pieces, and words that it lacks, replaced by words of the source.

    The words that are copied are URLs, numbers and words with unknown letters.
    """
    pieces = list(translation.target_pieces)
    for row, token in enumerate(translation.target_ids):
        if token == UNK:
            pieces[row] = text_for_unknown_piece(translation, alignment, row)
    words = dict(copied_words(translation, alignment, text_of_pieces(pieces)))
    for word, text in words.items():
        rows = [row for row, index in enumerate(alignment.target_word_of) if index == word]
        pieces[rows[0] : rows[-1] + 1] = [f"▁{text}", *[""] * (rows[-1] - rows[0])]
    return replace(translation, text=text_of_pieces(pieces), target_pieces=tuple(pieces))


def text_for_unknown_piece(translation: Translation, alignment: Alignment, row: int) -> str:
    """Return the source text that replaces the unknown target piece with the index `row`."""
    unknown_in_source = [index for index, token in enumerate(translation.source_ids) if token == UNK]
    if unknown_in_source:
        largest = alignment.piece_weights[row, unknown_in_source].argmax()
        return translation.source_pieces[unknown_in_source[int(largest)]]
    largest = alignment.weights[alignment.target_word_of[row]].argmax()
    return clean_text(alignment.source_words[int(largest)])


def copied_words(translation: Translation, alignment: Alignment, text: str) -> Iterator[tuple[int, str]]:
    """Yield (index of a target word, its new text) for each target word that a source word replaces or changes.

    Args:
        text: the translation, in which unknown pieces have been replaced already.
    """
    if not alignment.target_words:
        return
    for index, source_word in enumerate(alignment.source_words):
        target = int(alignment.weights[:, index].argmax())
        target_word = alignment.target_words[target]
        required = required_text(translation, alignment, index)
        if required is not None:
            if required not in text:
                yield target, replace_part(target_word, WORD.search(target_word), required)
            continue
        number, target_number = NUMBER.search(source_word), NUMBER.search(target_word)
        if number is None or digits(number[0]) in map(digits, NUMBER.findall(text)):
            continue
        if target_number is not None and target_number[0] not in translation.source:
            yield target, replace_part(target_word, target_number, number[0])
        elif target_number is None and len(digits(number[0])) >= FEWEST_DIGITS:
            yield target, replace_part(target_word, WORD.search(target_word), number[0])


def digits(number: str) -> str:
    """Return the digits of a number without separators: "1,051" and "1.051" both give "1051"."""
    return "".join(filter(str.isdigit, number))


def replace_part(word: str, part: re.Match[str] | None, text: str) -> str:
    """Return a word with the matched part replaced by a text; None = the text replaces the whole word."""
    return text if part is None else word[: part.start()] + text + word[part.end() :]


def required_text(translation: Translation, alignment: Alignment, index: int) -> str | None:
    """Return the part of a source word that a translation must contain: a URL, e-mail address or unknown word.

    Args:
        index: the index of the source word.

    Returns:
        None = the word need not be copied.
    """
    word = alignment.source_words[index]
    address = ADDRESS.search(word)
    if address:
        return address[0]
    pieces = zip(alignment.source_word_of, translation.source_ids, translation.source_pieces, strict=False)
    unknown = [
        piece for word_of, token, piece in pieces if word_of == index and (token == UNK or BYTE.fullmatch(piece))
    ]
    part = WORD.search(part_in_one_script(word, text_of_pieces(unknown)))
    return part[0] if unknown and part else None


def part_in_one_script(word: str, unknown: str) -> str:
    """Return the part of a word that is written in the same script as its first unknown letter.

    A Korean particle after a Latin name is not part of the name. Digits and punctuation belong to every script.

    Args:
        unknown: the characters of the word that the vocabulary does not know. If there is no letter among them, the
            whole word is returned.

    >>> part_in_one_script("Kubernetes는", unknown="K")
    'Kubernetes'
    """
    letter = next(filter(str.isalpha, unknown), None)
    if letter is None:
        return word
    parts = [word]
    for character in word:
        if character.isalpha() and script(character) != script(letter):
            parts = [smaller for part in parts for smaller in part.split(character)]
    return next((part for part in parts if letter in part), word)


def script(letter: str) -> str:
    """Return the script of a letter by its name in Unicode: "LATIN", "HANGUL", "CJK".

    The lengthening mark ー of Japanese, which mostly stands among katakana, counts as "KATAKANA".
    """
    return re.split("[ -]", unicodedata.name(letter, ""))[0]
