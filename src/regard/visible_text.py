r"""Replace characters on which a terminal or a page would act (control codes, line ends) by visible symbols.

A user's text, a file's name and a model's name can contain any character. Such texts are printed only after a call of
`escape_controls`.
"""

import re

CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, line separators, changes of the direction of writing, byte order marks and lone surrogates."""

SYMBOLS = {"\t": "⇥", "\n": "⏎"}
"""The control characters that are replaced by a symbol; all others are replaced by their codes in ‹›."""

FIRST_STRONG_ISOLATE, POP_ISOLATE = "\u2068", "\u2069"
"""Unicode's marks at the beginning and the end of a part of a line.

The direction of writing in this part (from left to right or the reverse) does not affect the rest of the line.
"""

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""The letters of Hebrew, Arabic and the other scripts that run from right to left."""


def escape_controls(text: object, keep: str = "") -> str:
    r"""Replace a tab by ⇥, a line feed by ⏎, and other characters that a terminal would act on by their codes in ‹›.

    Characters in `keep` are not replaced.

    >>> escape_controls("\x1b[31mred"), escape_controls("a\tb"), escape_controls("abc\u202efdp.exe")
    ('‹1B›[31mred', 'a⇥b', 'abc‹202E›fdp.exe')
    """

    def symbol(found: re.Match[str]) -> str:
        character = found[0]
        return character if character in keep else SYMBOLS.get(character, f"‹{ord(character):02X}›")

    return CONTROL_CHARACTERS.sub(symbol, str(text))


def isolated(text: str) -> str:
    r"""Put Unicode's isolation marks around a text that has right-to-left letters; return other texts unchanged.

    Many terminals show a series of right-to-left words from right to left. Without the marks, two Hebrew column heads
    would change places.

    >>> isolated("snake"), ascii(isolated("נחש"))
    ('snake', "'\\u2068\\u05e0\\u05d7\\u05e9\\u2069'")
    """
    return f"{FIRST_STRONG_ISOLATE}{text}{POP_ISOLATE}" if RIGHT_TO_LEFT.search(text) else text


def visible_name(text: object) -> str:
    """Apply `escape_controls`, then `isolated`, so that a name can be printed in a line with other text."""
    return isolated(escape_controls(text))
