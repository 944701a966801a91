"""Numbers and names of a matrix as text for the terminal, and the choice of columns if not all fit.

The numbers of a matrix have texts of equal width and are aligned on the decimal point. A number that few decimals show
exactly has no zeros at its end (2, 1.5); a rounded number has all its decimals (0.1361). If columns with names do not
fit, names are shortened first, then decimals are left out, then columns. Of columns without names, some are left out.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from regard.visible_text import escape_controls, isolated

DIGITS = 4
"""The default number of decimals of a rounded number."""

FEWEST_DIGITS = 2
"""The smallest number of decimals of a matrix whose numbers are all below 10; larger numbers need fewer decimals."""

ROUNDING = 1e-12
"""A number is written as a short decimal, such as 1.5, if the relative error of the decimal is at most this. Sums in
float64 have rounding errors."""

LABEL_CELLS = 16
"""The largest width of a column's name, in terminal cells."""

MINUS_INFINITY = "−∞"
GAP = "…"


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """One way to print a matrix, with many or few decimals and long or short names. Widths are in terminal cells.

    Columns are given by their numbers in the matrix; None stands for columns that are left out.

    Attributes:
        cells: the numbers of each row by column, as texts of equal width.
        number_width: the width of these texts.
        headers: the names of the columns, possibly shortened; empty = the columns have no names.
        tight: True = one space before the numbers of a column; False = one space before and one after them.
    """

    cells: Sequence[Mapping[int, str]]
    number_width: int
    headers: Mapping[int, str]
    tight: bool

    def width(self, column: int) -> int:
        """Return the width of a column, including the spaces around it."""
        return max(self.number_width, cell_len(self.headers.get(column, ""))) + (1 if self.tight else 2)

    def total_width(self, columns: Iterable[int | None]) -> int:
        return sum(self.width(column) if column is not None else 3 for column in columns)

    def padded(self, text: str, column: int) -> str:
        """Return a number or a name with spaces on its left, so that it is as wide as its column."""
        end = "" if self.tight else " "
        return " " * (self.width(column) - cell_len(text + end)) + text + end

    def header(self, columns: Sequence[int | None]) -> str:
        return "".join(
            f" {GAP} " if column is None else self.padded(self.headers[column], column) for column in columns
        )


def choose_layout(
    numbers: Sequence[Mapping[int, float]], names: Mapping[int, str], room: int, digits: int | None
) -> tuple[Layout, bool]:
    """Return the first layout that fits into `room`, or the last if none fits; and whether the first of all fits.

    The first layout has all decimals, wide gaps, and names of up to LABEL_CELLS cells. The next layouts have shorter
    names, then narrower gaps, then fewer decimals.

    Args:
        numbers: the numbers of each row by column.
        names: the names of the columns; empty = the columns have no names, and only the first layout is tried.
        room: the width in terminal cells that the columns may take.
        digits: the number of decimals of rounded numbers; None = DIGITS, or fewer if the columns do not fit otherwise.
    """
    columns, rows = list(numbers[0]), [list(row.values()) for row in numbers]
    most = DIGITS if digits is None else digits
    fewest = min(most, fewest_digits(rows)) if digits is None else most
    # Layouts to try, best first: (number of decimals, whether names are cut off, `Layout.tight`)
    options = [(most, False, False)]
    if names:
        options += [(most, True, False), *((decimals, True, True) for decimals in range(most, fewest - 1, -1))]
    for decimals, cut_names, tight in options:
        texts = aligned(rows, decimals)
        number_width = len(texts[0][0])
        longest = max(3, number_width) if cut_names else LABEL_CELLS
        headers = {column: shortened(name, longest) for column, name in names.items()}
        layout = Layout([dict(zip(columns, row, strict=True)) for row in texts], number_width, headers, tight)
        if layout.total_width(columns) <= room:
            return layout, not cut_names  # names are cut off in all options but the first
    return layout, False


def fewest_digits(numbers: Sequence[Sequence[float]]) -> int:
    """Return FEWEST_DIGITS if all numbers are below 10, one less if all are below 100, and so on, but at least 0."""
    largest = max((abs(number) for row in numbers for number in row if math.isfinite(number)), default=0.0)
    if largest < 10:
        return FEWEST_DIGITS
    n_further_digits = math.floor(math.log10(largest))  # before the point, after the first digit
    return max(0, FEWEST_DIGITS - n_further_digits)


# Which rows and columns to show


def positions_to_show(
    count: int, notable: Sequence[int], fits: Callable[[Sequence[int | None]], bool]
) -> list[int | None]:
    """Choose as many of `count` rows (or columns) as fit, but at least one, in rising order, with None for each gap.

    The rows in `notable` are chosen first. `fits` tells whether rows and gaps fit into the space.

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
    """Return rows in the order of choice: the notable rows, then two rows from the front for each row from the back.

    >>> by_priority(6, (3,))
    [3, 0, 1, 5, 2, 4]
    """

    def rank(position: int) -> int:
        from_back = count - 1 - position
        return min(position, 2 * from_back + 1)  # 0, 1, 2, 3, … from the front; 1, 3, 5, … from the back

    ends = sorted(range(count), key=rank)
    return list(dict.fromkeys([*notable, *ends]))


def with_gaps(positions: Iterable[int], count: int) -> list[int | None]:
    """Return rows in rising order, with None wherever one or more of the rows 0 to count - 1 are missing.

    >>> with_gaps({0, 1, 5}, 7)
    [0, 1, None, 5, None]
    """
    rows: list[int | None] = []
    next_row = 0
    for row in sorted(positions):
        rows += [row] if row == next_row else [None, row]
        next_row = row + 1
    return rows if next_row == count else [*rows, None]


# Numbers and names as text


def aligned(numbers: Sequence[Sequence[float]], digits: int) -> list[list[str]]:
    """Return numbers as texts of equal width, aligned on the decimal point.

    If all are too small for the decimals, or one is too large, they have a power of ten; without decimals, small ones
    become 0.

    >>> aligned([[2.0, 1.5], [-1 / 3, 10.0]], 2)
    [[' 2   ', ' 1.5 '], ['-0.33', '10   ']]
    """
    sizes = [abs(number) for row in numbers for number in row if number and math.isfinite(number)]
    scientific = bool(sizes and (max(sizes) >= 1e9 or (digits and max(sizes) < 10.0**-digits)))
    texts = [[format_number(number, digits, scientific) for number in row] for row in numbers]
    parts = [text.partition(".") for row in texts for text in row if text != MINUS_INFINITY]
    n_before_point = max((len(before) for before, _, _ in parts), default=0)
    n_from_point = max((len(point + after) for _, point, after in parts), default=0)
    width = max(n_before_point + n_from_point, max(len(text) for row in texts for text in row))

    def align(text: str) -> str:
        if text == MINUS_INFINITY:
            return text.rjust(width)
        before, point, after = text.partition(".")
        return (before + (point + after).ljust(n_from_point)).rjust(width)

    return [[align(text) for text in row] for row in texts]


def format_number(number: float, digits: int, scientific: bool = False) -> str:
    """Return a number as text: exactly if `digits` decimals suffice, else rounded.

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
    """Return a text without control characters, cut off with … if it is wider than `cells` terminal cells.

    >>> shortened("dangerous", 5), shortened("위험하기", 5)
    ('dang…', '위험…')
    """
    text = without_controls(text)
    return isolated(text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…")


def printable(text: str) -> str:
    """Return a text without control characters, and with Unicode isolates around it if it runs from right to left.

    Without isolates, such a text would reverse the text around it.
    """
    return isolated(without_controls(text))


def without_controls(text: str) -> str:
    """Return a text with symbols in place of control characters, and � in place of other unprintable characters."""
    return "".join(letter if letter.isprintable() else "�" for letter in escape_controls(text))
