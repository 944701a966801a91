"""Lines to train on and to translate: names of one number, two or three, so that they are as long as sentences are."""

from itertools import islice

from regard.text.sample import sample

MOST_NUMBERS, SEED = 3, 7

Pair = tuple[str, str]


def sentences(source: str, target: str, *, train: int, test: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Lines in two languages to train on, and some to test by whose numbers are in none of the others."""
    names = sample(source, target, {"train": MOST_NUMBERS * train, "test": MOST_NUMBERS * test}, seed=SEED)
    return joined(names["train"], train), joined(names["test"], test)


def joined(names: list[Pair], lines: int) -> list[Pair]:
    """Lines of one name, of two, of three, of one again.

    >>> joined([("one", "un"), ("two", "deux"), ("ten", "dix")], 2)
    [('one', 'un'), ('two, ten', 'deux, dix')]
    """
    left = iter(names)
    groups = [list(islice(left, 1 + line % MOST_NUMBERS)) for line in range(lines)]
    return [(", ".join(source for source, _ in group), ", ".join(target for _, target in group)) for group in groups]
