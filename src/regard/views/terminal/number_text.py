"""Format the numbers and names of a matrix as text of equal width, and choose the columns to show if not all fit.

Numbers are aligned on the decimal point. An exact number has no more digits than it needs (2, 1.5); a rounded number
has all its digits (0.1361). If the columns do not fit, names are shortened first, then digits and columns are left out.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from regard.views.shared_text import escape_controls

DIGITS = 4
"""The default number of decimals of a rounded number."""

FEWEST_DIGITS = 2
"""The decimals that a number below 10 keeps when columns must be narrowed; one fewer for each further digit before the
point."""

ROUNDING = 1e-12
"""The relative rounding error of sums of float64; a number this near to a short decimal is shown as that decimal."""

LABEL_CELLS = 16
"""The most terminal cells that a token takes."""

MINUS_INFINITY = "−∞"
GAP = "…"


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A matrix as text, at some number of decimals and length of names; `choose_layout` takes the first that fits.

    Attributes:
        cells: the numbers as text, all equally wide.
        headers: the names of the columns.
        tight: whether a column has a space only before its number, and none behind it.
    """

    cells: Sequence[Sequence[str]]
    headers: Sequence[str]
    tight: bool

    def width(self, column: int) -> int:
        """Return the width of one column of the matrix, in terminal cells."""
        return max(len(self.cells[0][column]), cell_len(self.headers[column])) + (1 if self.tight else 2)

    def total(self, columns: Iterable[int | None]) -> int:
        """Return the width of some columns and of the gaps between them, in terminal cells; None stands for a gap."""
        return sum(self.width(column) if column is not None else 3 for column in columns)

    def padded(self, text: str, column: int) -> str:
        """Return a number or a name, right-aligned in its column."""
        inside = self.width(column) - (1 if self.tight else 2)
        return " " + " " * (inside - cell_len(text)) + text + ("" if self.tight else " ")

    def columns_to_show(
        self, candidates: Sequence[int], count: int, notable: Sequence[int], room: int
    ) -> list[int | None]:
        """Return the columns to show, by index in this layout, as many as fit into `room`; None for gaps.

        Args:
            candidates: the position in the whole matrix of each column of this layout.
            count: the number of columns of the whole matrix.
            notable: the positions of columns that are shown first.
            room: the width in terminal cells.
        """
        index = {column: i for i, column in enumerate(candidates)}

        def fits(columns: Sequence[int | None]) -> bool:
            available = all(column in index for column in columns if column is not None)
            return available and self.total(None if c is None else index[c] for c in columns) <= room

        return [None if column is None else index[column] for column in positions_to_show(count, notable, fits)]

    def header(self, columns: Sequence[int | None]) -> str:
        """Return the names of some columns in a line."""
        return "".join(
            f" {GAP} " if column is None else self.padded(self.headers[column], column) for column in columns
        )


def choose_layout(
    numbers: Sequence[Sequence[float]], names: Sequence[str], room: int, digits: int | None
) -> tuple[Layout, bool]:
    """Return the first layout in which all columns fit, else the most compact; and whether nothing was shortened."""
    most = DIGITS if digits is None else digits
    fewest = min(most, fewest_digits(numbers)) if digits is None else most
    n_columns = len(numbers[0])
    for step, (decimals, cut_names, tight) in enumerate(layout_options(most, fewest, bool(names))):
        cells = aligned(numbers, decimals)
        longest = max(3, len(cells[0][0])) if cut_names else LABEL_CELLS
        layout = Layout(cells, [shortened(name, longest) for name in names] or [""] * n_columns, tight)
        if layout.total(range(n_columns)) <= room:
            return layout, step == 0
    return layout, False


def fewest_digits(numbers: Sequence[Sequence[float]]) -> int:
    """Return the fewest decimals that a matrix may be shown with, by the size of its largest number."""
    largest = max((abs(number) for row in numbers for number in row if math.isfinite(number)), default=0.0)
    return max(0, FEWEST_DIGITS - max(0, math.floor(math.log10(largest)))) if largest else FEWEST_DIGITS


def layout_options(most: int, fewest: int, named: bool) -> Iterator[tuple[int, bool, bool]]:
    """Yield the options of layouts, best first: the decimals, whether names are cut, whether cells are tight."""
    yield most, False, False
    if named:
        yield most, True, False
        for decimals in range(most, fewest - 1, -1):
            yield decimals, True, True


# Rows and columns to show


def positions_to_show(
    count: int, notable: Sequence[int], fits: Callable[[Sequence[int | None]], bool]
) -> list[int | None]:
    """Return as many of `count` positions as fit, in order, with None for each gap; at least one position.

    >>> positions_to_show(9, (4,), lambda positions: len(positions) <= 6)
    [0, 1, None, 4, None, 8]
    """
    if fits(range(count)):
        return list(range(count))
    order = by_priority(count, notable)
    chosen = {order[0]}
    for position in order[1:]:
        if not fits(with_gaps(chosen | {position}, count)):
            break
        chosen.add(position)
    return with_gaps(chosen, count)


def by_priority(count: int, notable: Sequence[int]) -> list[int]:
    """Return all positions by priority: notable ones, then from both ends, two at the front for one at the back.

    >>> by_priority(6, (3,))
    [3, 0, 1, 5, 2, 4]
    """
    ends = sorted(range(count), key=lambda position: min(position, 2 * (count - 1 - position) + 1))
    return list(dict.fromkeys([*notable, *ends]))


def with_gaps(positions: Iterable[int], count: int) -> list[int | None]:
    """Return positions in order, with None wherever positions are left out.

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
    """Return numbers as text, aligned on the decimal point, all equally wide.

    >>> aligned([[2.0, 1.5], [-1 / 3, 10.0]], 2)
    [[' 2   ', ' 1.5 '], ['-0.33', '10   ']]
    """
    sizes = [abs(number) for row in numbers for number in row if number and math.isfinite(number)]
    scientific = bool(sizes) and (max(sizes) >= 1e9 or max(sizes) < 10.0**-digits)
    texts = [[format_number(number, digits, scientific) for number in row] for row in numbers]
    parts = [text.partition(".") for row in texts for text in row if text != MINUS_INFINITY]
    whole = max((len(before) for before, _, _ in parts), default=0)
    fraction = max((len(point + after) for _, point, after in parts), default=0)
    cells = max(whole + fraction, max(len(text) for row in texts for text in row))

    def align(text: str) -> str:
        before, point, after = text.partition(".")
        aligned_text = text if text == MINUS_INFINITY else before + (point + after).ljust(fraction)
        return aligned_text.rjust(cells)

    return [[align(text) for text in row] for row in texts]


def format_number(number: float, digits: int, scientific: bool = False) -> str:
    """Return a number exactly if it needs no more than `digits` decimals, else rounded to as many decimals.

    >>> format_number(2.0, 4), format_number(1.5, 4), format_number(1 / 3, 4), format_number(-math.inf, 4)
    ('2', '1.5', '0.3333', '−∞')
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
    """Return a text cut off with … where it is wider than `cells` terminal cells.

    >>> shortened("dangerous", 5), shortened("위험하기", 5)
    ('dang…', '위험…')
    """
    text = printable(text)
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def printable(text: str) -> str:
    """Return a text without characters that move the cursor: replaced by symbols, or by �."""
    return "".join(letter if letter.isprintable() else "�" for letter in escape_controls(text))
