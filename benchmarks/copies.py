"""Items that a translation should keep as they are: numbers, URLs, and words in Latin letters within Korean text.

Two ways to keep them are compared with attention, which `regard translate --copy-unknown` uses:

learnt copies    additional training pairs have an item in both texts, so that the model learns to copy it
placeholders     in training, an item that stands in both texts is replaced by a sign; in translating, every item of the
                 source is replaced by a sign, and the sign in the translation by the item
"""

import re
from collections.abc import Sequence
from random import Random

from regard.translation.copy_unknown import ADDRESS, NUMBER

Pair = tuple[str, str]

KOREAN_NAME, ENGLISH_NAME = re.compile("톰(?=[은는이가을를의과와도에께아한만, .!?]|$)"), re.compile(r"\bTom\b")
"""A name that is frequent in Tatoeba, in Korean with or without a particle after it, and in English."""

ITEM = re.compile(rf"(?a:{ADDRESS.pattern})|{NUMBER.pattern}|[A-Za-z]+(?:['-][A-Za-z]+)*")
"""A regular expression for an item in Korean text."""

SIGNS = "◇◆□"
"""The placeholders of the first, the second and the third item of a text; further items are not replaced."""

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
    """Return the pairs that have the name once in both texts, with a random item in its place, and the item.

    Each pair is returned once for each of the kinds.
    """
    random, found = Random(seed), list[tuple[Pair, str]]()
    for korean, english in pairs:
        if len(KOREAN_NAME.findall(korean)) == len(ENGLISH_NAME.findall(english)) == 1:
            for kind in kinds:
                new = item(kind, random)
                found.append(((KOREAN_NAME.sub(new, korean), ENGLISH_NAME.sub(new, english)), new))
    return found


def with_signs(text: str, other: str | None = None) -> tuple[str, dict[str, str]]:
    """Replace the items of a text by signs; return the new text and the item of each sign.

    Args:
        other: the translation; only items that it has too are replaced. None = all items are replaced.

    >>> with_signs("Kotanu는 2013년에 www.rome.com을 봤다.")
    ('◇는 ◆년에 □을 봤다.', {'◇': 'Kotanu', '◆': '2013', '□': 'www.rome.com'})
    >>> with_signs("Kotanu는 7시에 갔다.", "Kotanu left at seven.")
    ('◇는 7시에 갔다.', {'◇': 'Kotanu'})
    """
    items = [one for one in dict.fromkeys(ITEM.findall(text)) if other is None or one in ITEM.findall(other)]
    signs = dict(zip(items, SIGNS, strict=False))
    return replaced(text, signs), {sign: one for one, sign in signs.items()}


def replaced(text: str, signs: dict[str, str]) -> str:
    """Return the text with the items replaced by their signs."""
    return ITEM.sub(lambda match: signs.get(match[0], match[0]), text)


def pair_with_signs(pair: Pair) -> Pair:
    """Return a training pair with signs in place of the items that stand in both texts.

    >>> pair_with_signs(("Kotanu는 7시에 갔다.", "Kotanu left at seven."))
    ('◇는 7시에 갔다.', '◇ left at seven.')
    """
    korean, items = with_signs(*pair)
    return korean, replaced(pair[1], {one: sign for sign, one in items.items()})


def without_signs(text: str, items: dict[str, str]) -> str:
    """Return a translation with the items in place of their signs; signs of no item are left out.

    >>> without_signs("◇ went to □.", {"◇": "Kotanu"})
    'Kotanu went to .'
    """
    return re.sub(f"[{SIGNS}]", lambda match: items.get(match[0], ""), text)
