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

LONGEST_LEVEL_NAME = 12
"""Names of bars with more characters are slanted, so that they do not overlap."""

MOST_SLANTED = 16
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
        draw_rows = bars if isinstance(rows[0][picture.x], str) else curves
        draw_rows(axes, picture, rows)
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
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[column]) for column in picture.each), []).append(row)
    for (column_index, column), (group_index, group) in product(enumerate(picture.y), enumerate(groups)):
        measured = [row for row in groups[group] if row[column] is not None]
        x, spreads = [row[picture.x] for row in measured], [spread(row[column]) for row in measured]
        colour = COLOURS[(group_index if len(groups) > 1 else column_index) % len(COLOURS)]
        line = LINES[column_index % len(LINES)] if len(groups) > 1 else LINES[0]
        name = ", ".join([*([column] if len(picture.y) > 1 else []), *group])
        axes.plot(x, [s.median for s in spreads], line, color=colour, marker="o", markersize=3, label=name)
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
    for index, (column, colour) in enumerate(zip(picture.y, cycle(COLOURS), strict=False)):
        offset = (index - (len(picture.y) - 1) / 2) * width  # from the middle of the group
        spreads = {number: spread(row[column]) for number, row in enumerate(rows) if row[column] is not None}
        axes.bar(
            [number + offset for number in spreads],
            [s.median for s in spreads.values()],
            width,
            yerr=[[s.median - s.least for s in spreads.values()], [s.most - s.median for s in spreads.values()]],
            color=colour,
            error_kw={"linewidth": 0.8},
            label=column,
        )
    names = [", ".join(str(row[column]) for column in (picture.x, *picture.each)) for row in rows]
    axes.set_xticks(range(len(rows)), names)
    if max(map(len, names)) > LONGEST_LEVEL_NAME:
        rotation, alignment = (90, "center") if len(names) > MOST_SLANTED else (30, "top")
        for label in axes.get_xticklabels():
            label.set(rotation=rotation, ha="right", va=alignment, rotation_mode="anchor")


def spread(value: Any) -> Spread:
    return value if isinstance(value, Spread) else Spread(value, value, value)
