"""The reference word alignment of the English and the Korean name of a number, which follows from the digits.

English groups the digits of a number by three, Korean by four: 42,007 is "forty-two thousand and seven" and
"사만 이천칠". Two words are aligned if they name a digit in common: forty-two with 사만 (4) and with 이천칠 (2).
"""

from regard.evaluation.alignment_error import ReferenceAlignment

ENGLISH_GROUP, KOREAN_GROUP = 3, 4
SCALES = "thousand", "million", "billion"


def reference(number: int, english: str, korean: str) -> ReferenceAlignment:
    """Return the reference alignment from the English words to the Korean words of a number.

    "thousand" and "and" name no digit: a pair with "thousand" is possible if the Korean word names a digit that
    "thousand" counts, and a pair with "and" is possible with every word.

    >>> alignment = reference(42_007, "forty-two thousand and seven", "사만 이천칠")
    >>> sorted(alignment.sure), sorted(alignment.possible)
    ([(0, 0), (0, 1), (3, 1)], [(1, 0), (1, 1), (2, 0), (2, 1)])
    """
    source, target = english_digits(number, english), korean_digits(number, korean)
    sure, possible = set(), set()
    for i, (named, multiplied) in enumerate(source):
        for j, korean_named in enumerate(target):
            if named & korean_named:
                sure.add((i, j))
            elif multiplied is None or multiplied & korean_named:
                possible.add((i, j))
    return ReferenceAlignment(sure=frozenset(sure), possible=frozenset(possible))


def powers_of_ten(number: int) -> set[int]:
    """Return the powers of ten of the digits that are not 0."""
    return {power for power, digit in enumerate(reversed(str(number))) if digit != "0"}


def english_digits(number: int, english: str) -> list[tuple[set[int], set[int] | None]]:
    """Return, for each word, the powers of ten of the digits that it names, and of the digits that it multiplies.

    For "and", which may be aligned with every word, None takes the place of the digits that it multiplies.

    >>> english_digits(1_042, "one thousand and forty-two")
    [({3}, set()), (set(), {3}), (set(), None), ({0, 1}, set())]
    """
    words = [word.strip(",") for word in english.split()]
    digits = list[tuple[set[int], set[int] | None]]()
    for index, word in enumerate(words):
        base = ENGLISH_GROUP * next((SCALES.index(later) + 1 for later in words[index:] if later in SCALES), 0)
        group = powers_of_ten(number) & {base, base + 1, base + 2}
        if word == "and":
            digits.append((set[int](), None))
        elif word in SCALES:
            digits.append((set(), group))
        elif word == "hundred" or words[index + 1 : index + 2] == ["hundred"]:
            digits.append((group & {base + 2}, set()))
        else:
            digits.append((group & {base, base + 1}, set()))
    return digits


def korean_digits(number: int, korean: str) -> list[set[int]]:
    """Return, for each word, the powers of ten of the digits that it names.

    >>> korean_digits(420_000, "사십이만"), korean_digits(10_005, "만 오")
    ([{4, 5}], [{4}, {0}])
    """
    bases = range(0, 20, KOREAN_GROUP)
    groups = [powers_of_ten(number) & set(range(base, base + KOREAN_GROUP)) for base in bases]
    groups = [group for group in groups if group]
    words = korean.split()
    if len(words) != len(groups):
        raise ValueError(f"{korean!r} has {len(words)} words, and {number:,} has {len(groups)} groups of four digits.")
    return list(reversed(groups))
