"""Lists of code points (the numbers of characters in Unicode) as ranges, such as 65 to 90 for A to Z.

A page gets such ranges as tables, so that its browser treats each character as Python does.
"""

import unicodedata
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""The first and the last of consecutive code points."""


def all_code_points() -> Iterator[int]:
    """Yield every code point of Unicode except the surrogates, which are not characters."""
    yield from range(0xD800)
    yield from range(0xE000, 0x110000)


def unassigned_code_points() -> list[Range]:
    """Return the code points that Python's version of Unicode does not define."""
    return ranges(code for code in all_code_points() if unicodedata.category(chr(code)) == "Cn")


def ranges(codes: Iterable[int]) -> list[Range]:
    """Return code points, given in ascending order, as ranges of consecutive code points.

    >>> ranges([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    result: list[Range] = []
    for code in codes:
        if result and result[-1][1] == code - 1:
            result[-1] = (result[-1][0], code)
        else:
            result.append((code, code))
    return result
