"""A table drawn as curves or bars in an SVG file; the same table always gives the same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from measure import Spread

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, which colour-blind people can tell apart."""

LINES = "-", "--", ":"

LONG = 12
"""Names of bars with more characters are slanted, so that they do not overlap."""

MANY = 16
"""If there are more bars, their names are vertical."""

STYLE = {"svg.fonttype": "none", "svg.hashsalt": "regard", "font.family": "sans-serif", "font.size": 9}


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """The columns of a table to draw.

    Attributes:
        x: the column along the horizontal axis; a column of numbers gives curves, one of words gives bars.
        y: the columns to draw.
        each: columns whose values divide the rows into separate curves.
        label: the label of the vertical axis.
        log: whether the vertical axis is logarithmic.
    """

    x: str
    y: Sequence[str]
    label: str
    each: Sequence[str] = ()
    log: bool = False


def draw(picture: Picture, title: str, rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    with rc_context(STYLE):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axes = figure.add_subplot(title=title, ylabel=picture.label)
        words = isinstance(rows[0][picture.x], str)
        (bars if words else curves)(axes, picture, rows)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small", handlelength=3, loc="upper left", bbox_to_anchor=(1, 1))
        if picture.log and axes.dataLim.y1 > 0:
            axes.set_yscale("log")
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def curves(axes: Axes, picture: Picture, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw a curve for each column of `picture.y` and each group of rows, with a band from least to most.

    Rows are grouped by the columns `picture.each`. A group has a colour and a column has a line style; if there is one
    group, columns have colours.
    """
    kinds = list(dict.fromkeys(tuple(str(row[column]) for column in picture.each) for row in rows))
    for (at_column, column), (at_kind, kind) in product(enumerate(picture.y), enumerate(kinds)):
        there = [row for row in rows if tuple(str(row[each]) for each in picture.each) == kind]
        there = [row for row in there if row[column] is not None]
        x, spreads = [row[picture.x] for row in there], [spread(row[column]) for row in there]
        colour = COLOURS[(at_kind if len(kinds) > 1 else at_column) % len(COLOURS)]
        line = LINES[at_column % len(LINES)] if len(kinds) > 1 else LINES[0]
        name = ", ".join([*([column] if len(picture.y) > 1 else []), *kind])
        axes.plot(x, [one.median for one in spreads], line, color=colour, marker="o", markersize=3, label=name)
        axes.fill_between(
            x, [s.least for s in spreads], [s.most for s in spreads], color=colour, alpha=0.15, linewidth=0
        )
    axes.set_xscale("log", base=2)
    ticks = sorted({row[picture.x] for row in rows})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xlabel(picture.x)


def bars(axes: Axes, picture: Picture, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw a group of bars for each row, with a bar for each column."""
    width = 0.8 / len(picture.y)
    for place, (column, colour) in enumerate(zip(picture.y, cycle(COLOURS), strict=False)):
        there = [(at, spread(row[column])) for at, row in enumerate(rows) if row[column] is not None]
        axes.bar(
            [at + (place - (len(picture.y) - 1) / 2) * width for at, _ in there],
            [one.median for _, one in there],
            width,
            yerr=[[s.median - s.least for _, s in there], [s.most - s.median for _, s in there]],
            color=colour,
            error_kw={"linewidth": 0.8},
            label=column,
        )
    names = [", ".join(str(row[column]) for column in (picture.x, *picture.each)) for row in rows]
    axes.set_xticks(range(len(rows)), names)
    if max(map(len, names)) > LONG:
        for name in axes.get_xticklabels():
            upright = len(names) > MANY
            name.set(
                rotation=90 if upright else 30, ha="right", va="center" if upright else "top", rotation_mode="anchor"
            )


def spread(value: Any) -> Spread:
    return value if isinstance(value, Spread) else Spread(value, value, value)
