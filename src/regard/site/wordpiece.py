"""The tables with which a page splits a text into tokens exactly as a tokenizer of BERT's kind does.

The tokenizer normalises each letter by itself, splits a text into words at blanks and punctuation, and splits each word
into the longest pieces of its vocabulary. Browsers have different versions of Unicode, so `wordpiece_tables` calls the
tokenizer on every letter and stores the results in tables, which `front/src/site/tokens/wordpiece.ts` reads.
"""

import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Any

from regard.errors import InputError
from regard.site.unicode_tables import Range, all_code_points, ranges
from regard.tracing.tokens.readable_tokens import standalone_letter

KINDS = {"model": "WordPiece", "normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}
"""For each part of a tokenizer, the type that the page supports, as tokenizer.json names it."""

LETTERS_AT_ONCE = 256

HANGUL = range(0xAC00, 0xD7A4)
"""The syllables of Hangul, which Unicode's NFD decomposes by a rule."""

JAMO = (*range(0x1100, 0x1200), *range(0xA960, 0xA980), *range(0xD7B0, 0xD800))
"""The jamo: the letters of Hangul, which join into syllables."""


def wordpiece_tables(tokenizer: Any, description: dict[str, Any]) -> dict[str, Any]:
    """Return the tables that `WordPieceTables` in front/src/site/tokens/wordpiece.ts describes.

    `description` is the tokenizer as the dict that its tokenizer.json would hold.
    """
    for part, kind in KINDS.items():
        found = (description.get(part) or {}).get("type")
        if found != kind:
            raise InputError(
                f"{type(tokenizer).__name__} has a {part} of type {found}, and a site splits texts into tokens only as "
                f"BERT's tokenizer does, whose {part} is {kind}, or GPT-2's; choose a model such as MiniLM or GPT-2."
            )
    backend: Any = tokenizer.backend_tokenizer
    return {
        "kind": "words",
        "prefix": description["model"]["continuing_subword_prefix"],
        "longest": description["model"]["max_input_chars_per_word"],
        **letter_tables(backend.normalizer.normalize_str),
        **split_tables(backend.pre_tokenizer.pre_tokenize_str),
        # from a jamo to the same letter standing alone, in which form the page shows it
        "jamo": {chr(code): standalone_letter(chr(code)) for code in JAMO if standalone_letter(chr(code)) != chr(code)},
    }


def letter_tables(normalise: Any) -> dict[str, Any]:
    """Return what the function `normalise` does with each letter of a text.

    The result has the letters that `normalise` removes ("dropped") or puts between spaces ("spaced"), the replacements
    of other letters ("letters"), and whether `normalise` decomposes the syllables of Hangul ("decomposes").
    """
    dropped, spaced, letters = [], [], {}
    decomposes = normalise("한") == unicodedata.normalize("NFD", "한")
    for code in changed_code_points(normalise):
        letter = chr(code)
        normal = normalise(letter)
        if not normal:
            dropped.append(code)
        elif normal == f" {letter} ":
            spaced.append(code)
        elif normal != letter and not (decomposes and code in HANGUL):
            letters[letter] = normal
    return {"dropped": ranges(dropped), "spaced": ranges(spaced), "letters": letters, "decomposes": decomposes}


def changed_code_points(normalise: Any) -> Iterator[int]:
    """Yield the code points of all groups of `LETTERS_AT_ONCE` letters in which `normalise` changes a letter.

    A call for each of a million letters would take a second. In a group, each letter stands between two "a".
    """
    codes = all_code_points()
    while chunk := list(islice(codes, LETTERS_AT_ONCE)):
        text = between_a(chunk)
        if normalise(text) != text:
            yield from chunk


def between_a(codes: list[int]) -> str:
    """Return the letters of these code points, each between two "a": the letter of codes[i] is at place 2 * i + 1."""
    return f"a{''.join(f'{chr(code)}a' for code in codes)}"


def split_tables(split: Any) -> dict[str, list[Range]]:
    """Return the letters at which `split` divides a text; `split` takes a text and returns pairs (word, (start, end)).

    The result has the letters that `split` leaves out, such as spaces ("blank"), and those that become words ("apart").
    """
    blank, apart, codes = [], [], list(all_code_points())
    end = 0
    for _, (start, end_of_word) in split(between_a(codes)):
        if start > end:  # no word has the letter at place `end`
            blank.append(codes[end // 2])
        elif start % 2 and end_of_word == start + 1:  # this word is one letter, and not an "a"
            apart.append(codes[start // 2])
        end = end_of_word
    return {"blank": ranges(blank), "apart": ranges(apart)}
