"""How the attention weights of one query are computed, in the terminal: a row for each key, a column for each step."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from regard.by_hand.query_steps import QuerySteps, query_steps
from regard.by_hand.worked_attention import WorkedAttention, largest_first
from regard.errors import counted
from regard.tracing.tokens.token_reference import reference_of
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
        digits: the number of decimals of rounded numbers; None = 4, or fewer in a narrow terminal.
    """
    console = standard_output()
    if worked.inputs.temperature == 0:
        show(worked, console, digits)
        return
    for line in lines(worked, console.width, digits):
        console.print(line, soft_wrap=True, highlight=False)


def lines(worked: WorkedAttention, width: int, digits: int | None) -> Iterator[Text]:
    assert worked.query is not None
    steps = query_steps(worked)
    yield from title_lines(worked, width)
    yield Text()
    yield Text.assemble("the query ", (printable(reference_of(worked.query, worked.inputs.queries)), "bold"))
    exponent = list(steps.before)[-1]  # the last matrix before the exponential
    most = DIGITS if digits is None else digits
    sign, size = "+" if steps.largest < 0 else "-", f"{abs(steps.largest):.{most}f}"
    softmax = {"exp": f"exp({exponent} {sign} {size})", "weights": "exp / sum of exp"}
    for name, formula in (steps.formulas | softmax).items():
        yield Text.assemble("  ", (name, "bold"), f" = {printable(formula)}")
    sink = "" if steps.sink_exponential is None else " and the sink"
    note = f"{steps.largest:.{most}f} is the largest of {exponent}{sink}; to subtract it changes no weight."
    for line in wrapped(note, width - 2):
        yield Text("  ").append_text(line)
    yield Text()
    yield from widest_table(worked, steps, digits, width)
    yield from strongest_keys(worked)
    yield Text()
    yield from wrapped("--all shows every matrix of every token, --html FILE the steps as a page.", width)


def widest_table(worked: WorkedAttention, steps: QuerySteps, digits: int | None, width: int) -> list[Text]:
    """Return the lines of the table of steps; in a narrow terminal without bars, with narrow gaps and fewer decimals.

    Args:
        digits: the number of decimals in any terminal; None = DIGITS, or fewer in a narrow terminal.
    """
    most = DIGITS if digits is None else digits
    fewest = 1 if digits is None else digits
    for gap, bar_cells, decimals in [(GAP, BAR_CELLS, most), *((1, 0, fewer) for fewer in range(most, fewest - 1, -1))]:
        # an exponential or a weight is at most 1, so that it needs more decimals than a score
        lines = list(table(worked, steps, decimals, min(most, decimals + 1), gap, bar_cells))
        if max(line.cell_len for line in lines) <= width:
            break
    return lines


def table(
    worked: WorkedAttention, steps: QuerySteps, score_digits: int, weight_digits: int, gap: int, bar_cells: int
) -> Iterator[Text]:
    """Yield the lines of the table of steps.

    The strongest keys have a row each, in the order of the text. Below are a row for all other keys, a row for the sink
    (an extra score in the softmax) if there is one, and a row for the sums.
    """
    keys = sorted(largest_first(steps.weights)[:MOST_KEYS])
    other_keys = [key for key in range(len(steps.weights)) if key not in keys]
    columns = {**steps.before, "exp": steps.exponentials, "weights": steps.weights}
    rows: list[tuple[str, dict[str, float]]] = []  # (label, numbers by column); a column without a number is empty
    for key in keys:
        label = shortened(reference_of(key, worked.inputs.keys), LABEL_CELLS)
        rows.append((label, {name: float(column[key]) for name, column in columns.items()}))
    if other_keys:
        sums = {name: float(columns[name][other_keys].sum()) for name in ("exp", "weights")}
        rows.append((counted(len(other_keys), "other key"), sums))
    if steps.sink_exponential is not None:
        rows.append(("sink", {"exp": steps.sink_exponential}))
    rows.append(("sum", {"exp": steps.total, "weights": float(steps.weights.sum())}))
    texts = {}
    for name in columns:
        digits = score_digits if name in steps.before else weight_digits
        texts[name] = column_texts([numbers.get(name) for _, numbers in rows], digits)
    widths = {name: max(map(cell_len, [name, *texts[name]])) for name in columns}
    label_cells = max(cell_len(label) for label, _ in rows)
    header = "".join(" " * gap + name.rjust(widths[name]) for name in columns)
    yield Text(" " * (2 + label_cells) + header, style="dim")
    for row, (label, _) in enumerate(rows):
        cells = "".join(" " * gap + texts[name][row].rjust(widths[name]) for name in columns)
        line = Text("  " + label + " " * (label_cells - cell_len(label)) + cells)
        if row < len(keys):  # the row of one key: only such a row has a bar
            line.append("  " + "█" * round(bar_cells * float(steps.weights[keys[row]])))
        else:
            line.stylize("bold" if label == "sum" else "dim")
        line.rstrip()
        yield line


def column_texts(numbers: Sequence[float | None], digits: int) -> list[str]:
    """Return the numbers of a column as texts, aligned on the decimal point; None = the cell is empty."""
    shown = [[number] for number in numbers if number is not None]
    texts = iter([text for (text,) in aligned(shown, digits)])
    return ["" if number is None else next(texts) for number in numbers]
