r"""Make characters visible on which a terminal or a page would act: control codes, line ends, reversals of direction.

A user's text, a file's name and a model's name can contain any character. They are printed only after a call of
`escape_controls`.
"""

import re

EXECUTED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, line separators, changes of the direction of writing, byte order marks and lone surrogates."""

SYMBOLS = {"\t": "⇥", "\n": "⏎"}


def escape_controls(text: object, keep: str = "") -> str:
    r"""Replace a tab by ⇥, a line feed by ⏎, and other characters that a terminal would act on by their codes in ‹›.

    Args:
        keep: characters that stay as they are.

    >>> escape_controls("\x1b[31mred"), escape_controls("a\tb"), escape_controls("abc\u202efdp.exe")
    ('‹1B›[31mred', 'a⇥b', 'abc‹202E›fdp.exe')
    """

    def symbol(found: re.Match[str]) -> str:
        character = found[0]
        return character if character in keep else SYMBOLS.get(character, f"‹{ord(character):02X}›")

    return EXECUTED.sub(symbol, str(text))
