"""Placeholders: signs in place of names, numbers and addresses, which a translation keeps as they are.

An item is a text that a translation should keep: a URL, an e-mail address, a number of at least three digits, or words
in other letters than those of the language, such as a Latin name in Korean. In training, a sign replaces each item that
stands in both texts of a pair. When a text is translated, signs replace the items of the source, and then the items
replace the signs in the translation. So a model that has learnt to copy a few signs keeps any name and number.

    Kotanu는 1,051원을 냈다.  →  ⟐는 ⟡원을 냈다.  →  ⟐ paid ⟡ won.  →  Kotanu paid 1,051 won.

Source: Luong et al. 2015, "Addressing the rare word problem", section 3.1 (copyable model), for items instead of words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from regard.text.keyed_random import digest
from regard.text.piece_table import NORMAL, USER_DEFINED, Piece, pieces_of, with_pieces
from regard.text.vocabulary import UNK, Vocabulary

SIGNS = "⟐⟡⟢"
"""The signs that replace up to three items (names, numbers, addresses) of a text; a sign is one piece of a vocabulary.

A sign in a user's text counts as an item, so that the translation keeps the sign.
"""

LATIN, NOT_LATIN = "[A-Za-zÀ-ɏḀ-ỿ]", r"[^\W\d_A-Za-zÀ-ɏḀ-ỿ]"
"""Regular expressions for a Latin letter and for any other letter."""

BEGIN = rf"(?:(?<!\d)(?=\d)|(?<!{LATIN})(?={LATIN})|(?!\d|{LATIN}))"
END = rf"(?:(?<=\d)(?!\d)|(?<={LATIN})(?!{LATIN})|(?<!\d)(?<!{LATIN}))"
"""Regular expressions for where an item may begin, and where it may end: not within a number or a Latin word.

The three alternatives: the item begins (or ends) with a digit; with a Latin letter; with another character.
"""

BEGIN_AT, END_AT = re.compile(BEGIN), re.compile(END)

UNSPACED_SCRIPTS = r"\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""The characters of scripts without spaces: Thai, Lao, Tibetan, Burmese; Khmer; Japanese kana; Chinese characters."""

SPACED_LETTER = rf"[^\W\d_\x00-ɏḀ-ỿ{UNSPACED_SCRIPTS}]"
"""A regular expression for a letter that is not Latin, in a script with spaces between words, such as Hangul."""

PARTICLE = "(?:[은는이가을를의로와과도만]|(?:으로|에서?|까지|부터)[는도]?)"
"""A regular expression for a Korean particle: it follows a URL without a space."""

URL_WORD = rf"(?:(?<=[/=&?#_.:+-])(?!{PARTICLE}(?!{SPACED_LETTER})){SPACED_LETTER}++|{SPACED_LETTER}++(?=[/=&?#_-]))"
"""A regular expression for a word such as 뱀 in a URL: before a mark such as /, or after one and not a particle."""

URL = rf"(?:https?://|www\.)(?:[!-~À-ɏḀ-ỿ]|{URL_WORD})+(?<=[\w/])"
"""A regular expression for a URL, which ends with a letter, a digit, _ or /, not with a full stop after the URL."""

E_MAIL = r"(?a:[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
"""A regular expression for an e-mail address; (?a: makes \\w ASCII, so that a particle after it is not matched."""

ADDRESS = rf"(?:{URL}|{E_MAIL})"

THREE_DIGITS = r"(?=\d[.,:/-]?\d[.,:/-]?\d)"
WHOLE_NUMBER = r"(?>\d+(?:[.,:/-]\d+)*)"  # (?>…): never only a part of the number
NUMBER = rf"{THREE_DIGITS}{WHOLE_NUMBER}(?!\s?[만억조万萬亿億兆])"
"""A regular expression for a number of at least three digits.

A shorter number is not matched, because a translation may spell it out. A number before a Korean, Japanese or Chinese
word for ten thousand or more is not matched, because a translation changes its digits: 150만 is 1.5 million.
"""


def words_pattern(letter: str) -> str:
    """Return a regular expression for words with single spaces between them; a tag such as <synthetic> is no word.

    Args:
        letter: a regular expression for one letter of the words, such as `LATIN`.
    """
    not_in_tag_or_number = r"(?<![\d<])"
    within_word = rf"['’&.-](?={letter}|\d)"
    word = rf"{not_in_tag_or_number}{letter}(?:{letter}|\d|{within_word})*"
    return f"{word}(?: {word})*"


ITEMS = {
    latin: re.compile(rf"{BEGIN}(?:[{SIGNS}]|{ADDRESS}|{words_pattern(NOT_LATIN if latin else LATIN)}|{NUMBER}){END}")
    for latin in (True, False)
}
"""The regular expression for an item (a name, number or address); ITEMS[True] is for sources in Latin letters."""


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The rule by which a translator replaces items (names, numbers and addresses) by signs.

    Attributes:
        latin: whether the source language is written in Latin letters. True = words in other letters are items; False =
            words in Latin letters are items.
    """

    latin: bool

    @classmethod
    def of(cls, source: Vocabulary, target: Vocabulary) -> "Placeholders | None":
        """Return the rule by which names in a text become placeholders, the signs ⟐⟡⟢, before it is translated.

        None = one of the vocabularies lacks one of these signs.
        """
        if any(vocabulary.processor.PieceToId(sign) == UNK for vocabulary in (source, target) for sign in SIGNS):
            return None
        return cls.for_language(source)

    @classmethod
    def for_language(cls, source: Vocabulary) -> "Placeholders":
        """Return the rule for a source language: whether words in Latin or in other letters are replaced by signs.

        The language counts as Latin if at least half of the letters in the pieces of its vocabulary are Latin.
        """
        letters = "".join(piece.text for piece in pieces_of(source.model) if piece.kind == NORMAL)
        return cls(latin=len(re.findall(LATIN, letters)) >= len(re.findall(NOT_LATIN, letters)))

    def signs(self, source: str) -> dict[str, str]:
        """Return {item: sign} for at most three items: first signs in the source, then others, as they follow there.

        >>> Placeholders(latin=False).signs("Kotanu는 1,051원과 150만원을 냈다.")
        {'Kotanu': '⟐', '1,051': '⟡'}
        """
        items = dict.fromkeys(ITEMS[self.latin].findall(source))
        signs_first = sorted(items, key=lambda item: item not in SIGNS)
        return dict(zip(signs_first, SIGNS, strict=False))

    def signed_pair(self, source: str, target: str, names: Mapping[str, str] | None = None) -> tuple[str, str]:
        """Return a training pair; signs replace at most three names, numbers and addresses that stand in both texts.

        A hash of the source decides which sign comes first in the source, so that a model learns all signs.

        Args:
            names: names in the source language and their translations. If a name occurs exactly once in the source, and
                its translation exactly once in the target, a sign replaces both.

        >>> Placeholders(latin=False).signed_pair("Kotanu는 123쪽을 읽었다.", "Kotanu read it.")
        ('⟢는 123쪽을 읽었다.', '⟢ read it.')
        >>> Placeholders(latin=False).signed_pair("톰은 갔다.", "Tom left.", {"톰": "Tom"})
        ('⟐은 갔다.', '⟐ left.')
        """
        # {item in the source: item in the target}; one sign replaces both
        target_item_of = {item: item for item in ITEMS[self.latin].findall(source) if places(item, target)}
        for name, translated in (names or {}).items():
            in_both = name in source and translated in target  # a fast check first: False for most names
            if in_both and occurs_once(name, source) and occurs_once(translated, target):
                target_item_of.setdefault(name, translated)
        if not target_item_of:
            return source, target
        first_sign = int.from_bytes(digest((source,))) % len(SIGNS)
        signs = SIGNS[first_sign:] + SIGNS[:first_sign]
        source_signs = dict(zip(sorted(target_item_of, key=source.find), signs, strict=False))
        target_signs = {target_item_of[item]: sign for item, sign in source_signs.items()}
        return with_signs(source, source_signs), with_signs(target, target_signs)


def with_sign_pieces(vocabulary: Vocabulary) -> Vocabulary:
    other_pieces = [piece for piece in pieces_of(vocabulary.model) if piece.text not in SIGNS]
    sign_pieces = [Piece(sign, 0.0, USER_DEFINED) for sign in SIGNS]
    return Vocabulary(with_pieces(vocabulary.model, [*other_pieces, *sign_pieces]))


def with_signs(text: str, signs: Mapping[str, str] | None) -> str:
    """Replace names, numbers and addresses in a text by signs; `signs` is {name, number or address: its sign}.

    >>> with_signs("Tom's tomcat is Tom.", {"Tom": "⟐"})
    "⟐'s tomcat is ⟐."
    """
    if not signs:
        return text
    item_at = dict[int, str]()
    for item in sorted(signs, key=len):  # a longer item replaces a shorter one that begins at the same place
        item_at |= dict.fromkeys(places(item, text), item)
    parts, end = list[str](), 0
    for start, item in sorted(item_at.items()):
        if start >= end:
            parts += [text[end:start], signs[item]]
            end = start + len(item)
    return "".join([*parts, text[end:]])


def with_items(text: str, signs: Mapping[str, str] | None) -> str:
    """Put names, numbers and addresses back into a text, in place of their signs; remove signs that are not in `signs`.

    Args:
        signs: {name, number or address: its sign}; None = the translator uses no signs, and the text does not change.

    >>> with_items("⟐ went to ⟡.", {"Kotanu": "⟐"})
    'Kotanu went to .'
    """
    if signs is None:
        return text
    item_of = {sign: item for item, sign in signs.items()}
    return re.sub(f"[{SIGNS}]", lambda match: item_of.get(match[0], ""), text)


def places(item: str, text: str) -> list[int]:
    """Return where a name, number or address begins in a text, except as part of a longer number or Latin word.

    >>> places("Tom", "Tom's tomcat is Tom, Tomcat.")
    [0, 16]
    """
    starts = (start for start in range(len(text)) if text.startswith(item, start))
    return [start for start in starts if BEGIN_AT.match(text, start) and END_AT.match(text, start + len(item))]


def occurs_once(item: str, text: str) -> bool:
    return len(places(item, text)) == 1
