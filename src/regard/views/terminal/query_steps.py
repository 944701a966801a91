"""How the attention weights of one query are computed, in the terminal: a row for each key, a column for each step."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from regard.by_hand.query_steps import QuerySteps, query_steps
from regard.by_hand.worked_attention import WorkedAttention, largest_first
from regard.errors import counted
from regard.views.terminal.matrices import show, standard_output, strongest_keys, title_lines, wrapped
from regard.views.terminal.number_text import DIGITS, LABEL_CELLS, aligned, printable, shortened

MOST_KEYS = 12
"""The number of keys with a row of their own: the keys with the largest weights. All other keys share one row."""

GAP, BAR_CELLS = 3, 20
"""In terminal cells: the space before each column, and the width of the bar for a weight of 1."""


def show_query(worked: WorkedAttention, digits: int | None = None) -> None:
    """Print the steps that compute the attention weights of the query `worked.query`.

    If the temperature is 0, there is no softmax; every matrix is then printed instead.

    Args:
        digits: the number of decimals of rounded numbers; None = 4.
    """
    console = standard_output()
    if worked.inputs.temperature == 0:
        show(worked, console, digits)
        return
    for line in lines(worked, console.width, DIGITS if digits is None else digits):
        console.print(line, soft_wrap=True, highlight=False)


def lines(worked: WorkedAttention, width: int, digits: int) -> Iterator[Text]:
    assert worked.query is not None
    steps = query_steps(worked)
    yield from title_lines(worked, width)
    yield Text()
    yield Text.assemble("the query ", (printable(worked.inputs.query_texts[worked.query]), "bold"))
    exponent = list(steps.before)[-1]
    minus_largest = f"{'+' if steps.largest < 0 else '-'} {abs(steps.largest):.{digits}f}"
    softmax = {
        "exp": f"exp({exponent} {minus_largest}); to subtract the largest changes no weight",
        "weights": "exp / sum of exp",
    }
    for name, formula in (steps.formulas | softmax).items():
        yield Text.assemble("  ", (name, "bold"), f" = {printable(formula)}")
    yield Text()
    yield from table(worked, steps, digits)
    yield from strongest_keys(worked)
    yield Text()
    yield from wrapped("--all shows every matrix of every token, --html FILE the steps as a page.", width)


def table(worked: WorkedAttention, steps: QuerySteps, digits: int) -> Iterator[Text]:
    """Yield the lines of the table of steps.

    The strongest keys have a row each, in the order of the text. Below are a row for all other keys, a row for the sink
    (an extra score in the softmax) if there is one, and a row for the sums.
    """
    keys = sorted(largest_first(steps.weights)[:MOST_KEYS])
    other_keys = [key for key in range(len(steps.weights)) if key not in keys]
    columns = {**steps.before, "exp": steps.exponentials, "weights": steps.weights}
    rows = []  # (label, numbers by column); a column without a number is empty
    for key in keys:
        label = shortened(worked.inputs.key_texts[key], LABEL_CELLS)
        rows.append((label, {name: float(column[key]) for name, column in columns.items()}))
    if other_keys:
        sums = {name: float(columns[name][other_keys].sum()) for name in ("exp", "weights")}
        rows.append((counted(len(other_keys), "other key"), sums))
    if steps.sink_exponential is not None:
        rows.append(("sink", {"exp": steps.sink_exponential}))
    rows.append(("sum", {"exp": steps.total, "weights": float(steps.weights.sum())}))
    texts = {name: column_texts([numbers.get(name) for _, numbers in rows], digits) for name in columns}
    widths = {name: max(map(cell_len, [name, *texts[name]])) for name in columns}
    label_cells = max(cell_len(label) for label, _ in rows)
    header = "".join(" " * GAP + name.rjust(widths[name]) for name in columns)
    yield Text(" " * (2 + label_cells) + header, style="dim")
    for row, (label, _) in enumerate(rows):
        cells = "".join(" " * GAP + texts[name][row].rjust(widths[name]) for name in columns)
        line = Text("  " + label + " " * (label_cells - cell_len(label)) + cells)
        if row < len(keys):  # the row of one key: only such a row has a bar
            line.append("  " + "█" * round(BAR_CELLS * float(steps.weights[keys[row]])))
        else:
            line.stylize("bold" if label == "sum" else "dim")
        line.rstrip()
        yield line


def column_texts(numbers: Sequence[float | None], digits: int) -> list[str]:
    """Return the numbers of a column as texts, aligned on the decimal point; None = the cell is empty."""
    shown = [[number] for number in numbers if number is not None]
    texts = iter([text for (text,) in aligned(shown, digits)])
    return ["" if number is None else next(texts) for number in numbers]
