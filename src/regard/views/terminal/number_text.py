"""Numbers and names as text of equal width, and which of them to show where not all fit.

Numbers are aligned on the decimal point. One that is shown exactly has no more digits than it needs (2, 1.5); one that
is rounded has all of them (0.1361). Where not all fit, names are shortened, then digits are left out, then columns.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from regard.views.labels import visible

DIGITS = 4
"""Decimals of a number that is rounded, unless told otherwise."""

FEWEST_DIGITS = 2
"""Decimals that a number below 10 keeps when tokens would not all fit otherwise; one more place before the point, one
decimal less."""

ROUNDING = 1e-12
"""How far sums of float64 numbers stray: what is as near to a short number as this is shown as that number."""

LABEL_CELLS = 16
"""The longest that a token is shown."""

MINUS_INFINITY = "−∞"
GAP = "…"


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One way to draw a matrix; `fit` takes the first that fits.

    Attributes:
        cells: the cells as text, all equally wide.
        headers: the names of the columns.
        tight: whether there is a space only before a number, and none behind it.
    """

    cells: Sequence[Sequence[str]]
    headers: Sequence[str]
    tight: bool

    def width(self, column: int) -> int:
        """Columns of the terminal that one column of the matrix takes."""
        return max(len(self.cells[0][column]), cell_len(self.headers[column])) + (1 if self.tight else 2)

    def total(self, columns: Iterable[int | None]) -> int:
        """What some columns and the gaps between them take."""
        return sum(self.width(column) if column is not None else 3 for column in columns)

    def padded(self, text: str, column: int) -> str:
        """A cell or a name, right-aligned in its column."""
        inside = self.width(column) - (1 if self.tight else 2)
        return " " + " " * (inside - cell_len(text)) + text + ("" if self.tight else " ")

    def places(self, candidates: Sequence[int], count: int, notable: Sequence[int], room: int) -> list[int | None]:
        """Which of the columns to show, as many as there is room for, and None for gaps.

        Args:
            candidates: the columns of the matrix that were brought here, by their numbers in the whole of it.
            count: how many columns it has.
        """
        place = {column: place for place, column in enumerate(candidates)}

        def fits(columns: Sequence[int | None]) -> bool:
            known = all(column in place for column in columns if column is not None)
            return known and self.total(None if c is None else place[c] for c in columns) <= room

        return [None if column is None else place[column] for column in kept(count, notable, fits)]

    def header(self, places: Sequence[int | None]) -> str:
        """The names of some columns in a line."""
        return "".join(f" {GAP} " if place is None else self.padded(self.headers[place], place) for place in places)


def fit(numbers: Sequence[Sequence[float]], names: Sequence[str], room: int, digits: int | None) -> tuple[Way, bool]:
    """The first way to draw a matrix in which all columns fit, else the most compact; and whether it is the best."""
    most = DIGITS if digits is None else digits
    fewest = min(most, fewest_digits(numbers)) if digits is None else most
    n_columns = len(numbers[0])
    for step, (decimals, cut, tight) in enumerate(ways(most, fewest, bool(names))):
        cells = aligned(numbers, decimals)
        longest = max(3, len(cells[0][0])) if cut else LABEL_CELLS
        way = Way(cells, [shortened(name, longest) for name in names] or [""] * n_columns, tight)
        if way.total(range(n_columns)) <= room:
            return way, step == 0
    return way, False


def fewest_digits(numbers: Sequence[Sequence[float]]) -> int:
    """How many decimals are enough to tell numbers of this size apart."""
    largest = max((abs(number) for row in numbers for number in row if math.isfinite(number)), default=0.0)
    return max(0, FEWEST_DIGITS - max(0, math.floor(math.log10(largest)))) if largest else FEWEST_DIGITS


def ways(most: int, fewest: int, named: bool) -> Iterator[tuple[int, bool, bool]]:
    """Ways to draw a matrix, best first: how many decimals, whether names are cut, whether cells stand tight."""
    yield most, False, False
    if named:
        yield most, True, False
        for decimals in range(most, fewest - 1, -1):
            yield decimals, True, True


# Which rows and columns


def kept(count: int, notable: Sequence[int], fits: Callable[[Sequence[int | None]], bool]) -> list[int | None]:
    """Positions to show, in order, as many as fit, and None for those left out between them; at least one.

    >>> kept(9, (4,), lambda some: len(some) <= 6)
    [0, 1, None, 4, None, 8]
    """
    if fits(range(count)):
        return list(range(count))
    order = priority(count, notable)
    chosen = {order[0]}
    for position in order[1:]:
        if not fits(with_gaps(chosen | {position}, count)):
            break
        chosen.add(position)
    return with_gaps(chosen, count)


def priority(count: int, notable: Sequence[int]) -> list[int]:
    """Positions, the most wanted first: notable ones, then inwards from both ends, two in front for one at the back.

    >>> priority(6, (3,))
    [3, 0, 1, 5, 2, 4]
    """
    ends = sorted(range(count), key=lambda position: min(position, 2 * (count - 1 - position) + 1))
    return list(dict.fromkeys([*notable, *ends]))


def with_gaps(positions: Iterable[int], count: int) -> list[int | None]:
    """Positions in order, None wherever some are left out.

    >>> with_gaps({0, 1, 5}, 7)
    [0, 1, None, 5, None]
    """
    shown: list[int | None] = []
    before = -1
    for position in sorted(positions):
        shown += [None, position] if position > before + 1 else [position]
        before = position
    return shown if before == count - 1 else [*shown, None]


# Numbers and names


def aligned(numbers: Sequence[Sequence[float]], digits: int) -> list[list[str]]:
    """Numbers as text, aligned on the decimal point, all equally wide.

    >>> aligned([[2.0, 1.5], [-1 / 3, 10.0]], 2)
    [[' 2   ', ' 1.5 '], ['-0.33', '10   ']]
    """
    sizes = [abs(number) for row in numbers for number in row if number and math.isfinite(number)]
    scientific = bool(sizes) and (max(sizes) >= 1e9 or max(sizes) < 10.0**-digits)
    texts = [[written(number, digits, scientific) for number in row] for row in numbers]
    parts = [text.partition(".") for row in texts for text in row if text != MINUS_INFINITY]
    whole = max((len(before) for before, _, _ in parts), default=0)
    fraction = max((len(point + after) for _, point, after in parts), default=0)
    cells = max(whole + fraction, max(len(text) for row in texts for text in row))

    def align(text: str) -> str:
        before, point, after = text.partition(".")
        aligned_text = text if text == MINUS_INFINITY else before + (point + after).ljust(fraction)
        return aligned_text.rjust(cells)

    return [[align(text) for text in row] for row in texts]


def written(number: float, digits: int, scientific: bool = False) -> str:
    """A number: exactly where so many decimals are enough, else rounded and with all of them.

    >>> written(2.0, 4), written(1.5, 4), written(1 / 3, 4), written(-1e-9, 4), written(-math.inf, 4)
    ('2', '1.5', '0.3333', '0.0000', '−∞')
    """
    if number == -math.inf:
        return MINUS_INFINITY
    if scientific and number:
        return f"{number:.{digits}e}"
    text = f"{number:.{digits}f}"
    if "." in text and math.isclose(float(text), number, rel_tol=ROUNDING):
        text = text.rstrip("0").rstrip(".")
    return text.removeprefix("-") if float(text) == 0 else text


def shortened(text: str, cells: int) -> str:
    """A text of at most so many cells of the terminal.

    >>> shortened("dangerous", 5), shortened("위험하기", 5)
    ('dang…', '위험…')
    """
    text = printable(text)
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def printable(text: str) -> str:
    """A text in which nothing can move the cursor."""
    return "".join(letter if letter.isprintable() else "�" for letter in visible(text))
