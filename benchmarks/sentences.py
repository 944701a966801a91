"""Parallel lines of one to three number names, about as long as sentences."""

from itertools import islice

from regard.text.sample import sample

MOST_NUMBERS, SEED = 3, 7

Pair = tuple[str, str]


def sentences(source: str, target: str, *, train: int, test: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Return parallel lines for training, and test lines with other numbers."""
    names = sample(source, target, {"train": MOST_NUMBERS * train, "test": MOST_NUMBERS * test}, seed=SEED)
    return joined_names(names["train"], train), joined_names(names["test"], test)


def joined_names(names: list[Pair], lines: int) -> list[Pair]:
    """Join names into lines of one, two, three, one, … names.

    >>> joined_names([("one", "un"), ("two", "deux"), ("ten", "dix")], 2)
    [('one', 'un'), ('two, ten', 'deux, dix')]
    """
    left = iter(names)
    groups = [list(islice(left, 1 + line % MOST_NUMBERS)) for line in range(lines)]
    return [(", ".join(source for source, _ in group), ", ".join(target for _, target in group)) for group in groups]
