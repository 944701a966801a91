"""Tests of breaking a table's columns into blocks of the terminal's width: no column is lost at any width."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from regard.views.terminal.columns import Columns


def blocks(columns, width):
    """Return the printed lines of each block of columns."""
    console = Console(file=io.StringIO(), width=width)
    console.print(columns)
    text = console.file.getvalue()
    assert max(map(cell_len, text.splitlines())) <= width
    return [block.splitlines() for block in text.rstrip("\n").split("\n\n")]


@pytest.mark.parametrize("width", [40, 53, 80, 500])
def test_every_cell_stands_under_its_header_and_beside_its_label(width):
    labels, headers = [f"row{row}" for row in range(3)], [f"column{column}" for column in range(23)]
    rows = [[Text(f"{row}-{column}") for column in range(23)] for row in range(3)]
    found = {}
    for head, *lines in blocks(Columns(labels, headers, rows, gap=2), width):
        for line in lines:
            label, *cells = line.split()
            found |= {(label, header): cell for header, cell in zip(head.split(), cells, strict=True)}
    assert found == {(f"row{r}", f"column{c}"): f"{r}-{c}" for r in range(3) for c in range(23)}


def test_where_all_fit_there_is_one_block():
    assert blocks(Columns(["a", "bc"], ["x", "yz"], [[Text("1"), Text("2")]] * 2, gap=1), 7) == [
        ["   x yz", " a 1 2 ", "bc 1 2 "]
    ]


def test_names_longer_than_half_the_terminal_are_cut_off():
    (lines,) = blocks(Columns(["a" * 50], ["위험" * 50], [[Text("1")]], gap=2), 40)
    assert lines[0].strip() == "위험" * 4 + "위…"
    assert lines[1].split() == ["a" * 18 + "…", "1"]


def test_the_measured_width_cuts_no_name_off():
    """As where the table is indented, in the space that it asks for."""
    table = Columns(["L0 "], [" H0 "], [[Text("[██]")]], gap=0)
    (lines,) = blocks(Padding.indent(table, 2), 40)
    assert [line.rstrip() for line in lines] == ["      H0", "  L0 [██]"]


def test_control_characters_are_seen():
    (lines,) = blocks(Columns(["\x1b[31m"], ["\a"], [[Text("1")]], gap=1), 40)
    assert [line.split() for line in lines] == [["‹07›"], ["‹1B›[31m", "1"]]
