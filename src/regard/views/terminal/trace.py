"""A trace in the terminal: where one token looks, and every head at a glance.

Strength is shown by colour where the terminal has it, and always by numbers and by blocks, so that nothing is lost in a
pipe or with NO_COLOR.
"""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding as Indent
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.errors import counted
from regard.tracing.focus import Focus, focus_on, group_by_layer, strongest_other_words
from regard.tracing.head import Head, TokenReference, times
from regard.tracing.trace import Trace
from regard.views.labels import called, reading, sizes, visible
from regard.views.terminal.columns import Columns

SHADES = " ·░▒▓█"
"""Blocks for weights from 0 to 1; a weight above 0 never shows as blank."""

PALE, DEEP = (222, 235, 247), (8, 81, 156)
"""Background colours of a weight just above 0 and of a weight of 1."""

BAR_CELLS = 32

MOST = 6
"""How many keys are shown, and how many other heads."""


def show(
    trace: Trace,
    token: TokenReference | None = None,
    head: str | None = None,
    console: Console | None = None,
) -> None:
    """Print where one token looks in one head (the most telling ones, unless given), and all heads as a grid."""
    console = console or Console(highlight=False)
    console.print(look(trace, focus_on(trace, token, head)))


def look(trace: Trace, focus: Focus) -> RenderableType:
    """What `show` prints."""
    as_read = reading(trace, focus.head.kind)
    return Group(
        title(trace, focus),
        *[Text(as_read, style="dim")] * bool(as_read),
        "",
        Text.assemble((visible(focus.token.text), "bold"), f" looks, in {focus.head.name}, at", note(focus)),
        Indent(sentence(focus), (1, 0, 1, 2), expand=False),
        Indent(strongest(focus, MOST), (0, 0, 0, 2), expand=False),
        "",
        *other_words(trace, focus, MOST),
    )


def other_words(trace: Trace, focus: Focus, n_heads: int) -> list[RenderableType]:
    """The heads in which the token looks most sharply at another word, and every head as a grid."""
    heads = trace.heads(focus.head.kind)
    sharp = strongest_other_words(heads, focus.query)
    name = (called(focus.query, focus.head.queries), "bold")
    if not sharp:
        return [Text.assemble(name, " looks at no other word in any head.")]
    return [
        Text.assemble("heads in which ", name, " looks most sharply at another word"),
        Indent(sharp_heads(sharp[:n_heads], focus), (0, 0, 0, 2), expand=False),
        "",
        Text.assemble("every head: the largest weight that ", name, " gives to another word"),
        Indent(grid(heads, sharp, focus), (0, 0, 0, 2), expand=False),
    ]


def title(trace: Trace, focus: Focus) -> Text:
    """Model and sizes in one line."""
    queries, keys = focus.head.queries, focus.head.keys
    tokens = counted(len(queries), "token")
    if focus.head.kind == "cross":
        tokens = f"{len(queries)} target and {len(keys)} source tokens"
    kind = f"{focus.head.kind} · " if len(trace.kinds) > 1 else ""
    return Text.assemble((visible(trace.model), "bold"), f" · {kind}{sizes(trace.heads(focus.head.kind))} · {tokens}")


def note(focus: Focus) -> Text:
    """Which one of several tokens with the same text is meant."""
    same = [i for i, token in enumerate(focus.head.queries) if token.text == focus.token.text]
    if len(same) == 1:
        return Text()
    text, number = focus.token.text, same.index(focus.query) + 1
    return Text(f"   ({text!r} occurs {times(len(same))}; this is {visible(text)}:{number})", style="dim")


def sentence(focus: Focus) -> Text:
    """The keys' text, each token tinted by its weight; the looking token underlined where it is one of them."""
    text = Text()
    for position, (token, weight) in enumerate(zip(focus.head.keys, focus.weights, strict=True)):
        if position and not token.joined:
            text.append(" ")
        looking = focus.head.kind != "cross" and position == focus.query
        text.append(visible(token.text), tint(weight) + Style(underline=looking, bold=looking))
    return text


def strongest(focus: Focus, n: int) -> Table:
    """The strongest keys with their weights and a bar."""
    table = Table.grid(padding=(0, 0, 0, 2), expand=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    for seen in focus.head.top(focus.query, n):
        name = Text(called(seen.position, focus.head.keys))
        table.add_row(name, f"{seen.weight:.3f}", Text(bar(seen.weight), style="rgb(66,146,198)"))
    return table


def sharp_heads(sharp: Sequence[tuple[Head, int, float]], focus: Focus) -> Table:
    """Heads with the word that the token looks at most in each."""
    table = Table.grid(padding=(0, 0, 0, 2), expand=False)
    for head, key, weight in sharp:
        style = "bold" if head.name == focus.head.name else ""
        table.add_row(Text(head.name, style=style), Text(called(key, head.keys), style=style), f"{weight:.3f}")
    return table


def grid(heads: Sequence[Head], sharp: Sequence[tuple[Head, int, float]], focus: Focus) -> Columns:
    """All layers × heads, one cell each; the head that is looked at stands in brackets."""
    weights = {head.name: weight for head, _, weight in sharp}
    layers = group_by_layer(heads)
    names, n_heads = [f"L{layer[0].layer} " for layer in layers], max(map(len, layers))
    rows = [[cell(weights.get(h.name, 0.0), h.name == focus.head.name) for h in layer] for layer in layers]
    for row in rows:
        row += [Text()] * (n_heads - len(row))
    return Columns(names, [f"H{head}".center(4) for head in range(n_heads)], rows, gap=0)


def cell(weight: float, chosen: bool) -> Text:
    """One head of the grid, four cells wide."""
    return Text.assemble("[" if chosen else " ", block(weight), "]" if chosen else " ")


def block(weight: float) -> Text:
    """A weight as a block, two cells wide."""
    return Text(shade(weight) * 2, style=Style(color=colour(weight)))


def shade(weight: float) -> str:
    """A block that is fuller the larger the weight.

    >>> [shade(weight) for weight in (0.0, 0.01, 0.3, 1.0)]
    [' ', '·', '░', '█']
    """
    return SHADES[min(len(SHADES) - 1, 1 + int(weight * (len(SHADES) - 1)))] if weight > 0 else SHADES[0]


def bar(weight: float) -> str:
    """A bar as long as the weight, to an eighth of a cell."""
    eighths = round(weight * BAR_CELLS * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip()


def tint(weight: float) -> Style:
    """A background as deep as the weight; none below half a hundredth."""
    if weight < 0.005:
        return Style()
    ink = "black" if weight < 0.5 else "white"
    return Style(bgcolor=colour(weight), color=ink)


def colour(weight: float) -> str:
    """The colour of a weight, between pale and deep.

    >>> colour(0.5)
    'rgb(115,158,202)'
    """
    mixed = (round(pale + (deep - pale) * min(1.0, weight)) for pale, deep in zip(PALE, DEEP, strict=True))
    return f"rgb({','.join(map(str, mixed))})"
