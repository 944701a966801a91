"""Sentence pairs with random items that a translation should keep as they are: names, numbers and URLs."""

import re
from collections.abc import Sequence
from random import Random

Pair = tuple[str, str]

KOREAN_NAME, ENGLISH_NAME = re.compile("톰(?=[은는이가을를의과와도에께아한만, .!?]|$)"), re.compile(r"\bTom\b")
"""A frequent name in Tatoeba, in Korean with or without a particle after it, and in English."""

KINDS = "name", "number", "URL"


def item(kind: str, random: Random) -> str:
    """Return a random item: a name such as Kotanu, a number of 4 to 6 digits, or a URL.

    >>> item("name", Random(1)), item("number", Random(1)), item("URL", Random(1))
    ('Paja', '141891', 'www.paja.com')
    """
    if kind == "number":
        return str(random.randrange(1_000, 1_000_000))
    name = "".join(random.choice("bdfgjklmnprstvz") + random.choice("aeiou") for _ in range(random.randint(2, 4)))
    return name.capitalize() if kind == "name" else f"www.{name}.com"


def with_items(pairs: Sequence[Pair], kinds: Sequence[str], seed: int) -> list[tuple[Pair, str]]:
    """Replace the name by an item of each kind, where both texts have the name once; return pairs and items."""
    random, found = Random(seed), list[tuple[Pair, str]]()
    for korean, english in pairs:
        if len(KOREAN_NAME.findall(korean)) == len(ENGLISH_NAME.findall(english)) == 1:
            for kind in kinds:
                new = item(kind, random)
                found.append(((KOREAN_NAME.sub(new, korean), ENGLISH_NAME.sub(new, english)), new))
    return found
