"""A trace in the terminal: the weights of one query token in one head, and the token's largest weight in each head.

Colours repeat what numbers and block characters show, so that the output is readable without colours: in a file, or
with the environment variable NO_COLOR.
"""

import math
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.errors import counted
from regard.tracing.decoder_note import decoder_note
from regard.tracing.focus import Focus, focus_on, group_by_layer, strongest_other_words
from regard.tracing.head import Head
from regard.tracing.media.recording import SILENCE
from regard.tracing.tokens.places import Place
from regard.tracing.tokens.token_reference import TokenReference, times
from regard.tracing.trace import Trace
from regard.views.patch_panels import PatchPanel, WeightScale, frame_weights, patch_panels
from regard.views.shared_text import CAUTION, size_label, token_label
from regard.views.terminal.columns import Columns
from regard.visible_text import escape_controls, isolated, visible_name

SHADES = " ·░▒▓█"
"""The characters for weights from 0 to 1; only a weight of 0 is a space."""

PALE, DEEP = (222, 235, 247), (8, 81, 156)
"""The colours of a weight just above 0 and of a weight of 1, as red, green and blue from 0 to 255."""

BAR_CELLS = 32
"""The width of a bar for a weight of 1, in terminal cells."""

TIME_CELLS = 60
"""The largest width of the row of weights on the frames of a recording, in terminal cells."""

MOST_BLOCKS = 38
"""A row of image patches is shown as at most this many shaded blocks, each two characters wide."""

N_LISTED = 6
"""The number of keys in the list of keys, and of heads in the list of heads."""


def show(
    trace: Trace,
    token: TokenReference | None = None,
    head: str | None = None,
    console: Console | None = None,
) -> None:
    """Print the weights of one query token in one head, and the token's largest weight in each head.

    Args:
        token: the query token, by position or text; None = chosen by `focus_on`.
        head: the name of the head, such as "L3H1"; None = chosen by `focus_on`.
        console: None = standard output.
    """
    console = console or Console(highlight=False)
    console.print(view(trace, focus_on(trace, token, head)))


def view(trace: Trace, focus: Focus) -> RenderableType:
    note = decoder_note(trace, focus.head.kind)
    # `patch_map` is None if no key is a patch, `time_map` if no key is a frame of a recording
    weights_of_query = patch_map(trace, focus) or time_map(focus) or sentence(focus)
    return Group(
        title(trace, focus),
        *([Text(note, style="dim")] if note else []),
        "",
        Text.assemble(
            (visible_name(focus.token.text), "bold"), f" looks, in {focus.head.name}, at", occurrence_note(focus)
        ),
        Padding(weights_of_query, (1, 0, 1, 2), expand=False),
        Padding.indent(key_table(focus, N_LISTED), 2),
        "",
        *other_heads(trace, focus, N_LISTED),
        "",
        Text(CAUTION, style="dim"),
    )


def other_heads(
    trace: Trace, focus: Focus, n_heads: int, translated: Callable[[str], str] = str
) -> list[RenderableType]:
    """Return the query's largest weight on another word: a table of `n_heads` heads, and a grid of all heads.

    `translated` returns a heading in another language, with {} for the query's name; str = English.
    """
    heads = trace.heads(focus.head.kind)
    strongest = strongest_other_words(heads, focus.query)  # (head, key position, weight)
    name = (isolated(token_label(focus.query, focus.head.queries)), "bold")
    noun = "token" if any(key.place for key in focus.head.keys) else "word"  # a patch or a frame is no word
    if not strongest:
        return [Text.assemble(name, f" looks at no other {noun} in any head.")]
    headings = (
        "heads in which {} looks most sharply at another ",
        "every head: the largest weight that {} gives to another ",
    )
    (before, after), (before_grid, after_grid) = (translated(text + noun).split("{}") for text in headings)
    return [
        Text.assemble(before, name, after),
        Padding.indent(head_table(strongest[:n_heads], focus), 2),
        "",
        Text.assemble(before_grid, name, after_grid),
        Padding.indent(head_grid(heads, strongest, focus), 2),
        Padding.indent(Text(translated(shades_legend()), style="dim"), 2),
    ]


def title(trace: Trace, focus: Focus, translated: Callable[[str], str] = str) -> Text:
    queries, keys = focus.head.queries, focus.head.keys
    tokens = counted(len(queries), "token")
    if focus.head.kind == "cross":
        tokens = f"{len(queries)} target and {len(keys)} source tokens"
    kind = f"{focus.head.kind} · " if len(trace.kinds) > 1 else ""
    size = translated(f"{kind}{size_label(trace.heads(focus.head.kind))} · {tokens}")
    return Text.assemble((visible_name(trace.model), "bold"), f" · {size}")


def occurrence_note(focus: Focus) -> Text:
    """Return a note such as "('it' occurs twice; this is it:1)" on the query token; empty if its text occurs once."""
    text = focus.token.text
    occurrences = [position for position, token in enumerate(focus.head.queries) if token.text == text]
    if len(occurrences) == 1:
        return Text()
    reference = f"{text}:{occurrences.index(focus.query) + 1}"
    note = f"{isolated(repr(text))} occurs {times(len(occurrences))}; this is {visible_name(reference)}"
    return Text(f"   ({note})", style="dim")


def sentence(focus: Focus) -> Text:
    """Return the keys as running text, each tinted by its weight; the query is underlined if it is a key."""
    text = Text()
    for position, (token, weight) in enumerate(zip(focus.head.keys, focus.weights, strict=True)):
        if position and not token.joined:
            text.append(" ")
        is_query = focus.head.kind != "cross" and position == focus.query
        text.append(escape_controls(token.text), tint(weight) + Style(underline=is_query, bold=is_query))
    return text


def patch_map(trace: Trace, focus: Focus) -> Text | None:
    """Return the weights on image patches as rows of block characters; None if no key is an image patch.

    Each picture has rows of its own. The blocks are scaled from the smallest to the largest weight, which are written
    below.
    """
    panels = patch_panels(focus, len(trace.images))
    if not panels:
        return None
    scale = WeightScale.of(panels)
    query = None if focus.head.kind == "cross" else focus.token.place
    legend = Text(f"{SHADES[1] * 2} {scale.label(0.0)} to {SHADES[-1] * 2} {scale.label(1.0)}", "dim")
    return Text("\n\n").join([*(panel_map(panel, scale, query) for panel in panels), legend])


def panel_map(panel: PatchPanel, scale: WeightScale, query: Place | None) -> Text:
    """Return the weights on the patches of one picture as block characters.

    If `query`, the place of the query, is a patch of this picture, it is shown as []. If the rows are too long for a
    line, a block character shows the largest weight of several patches side by side.
    """
    if panel.name and panel.total == 0:
        return Text(f"{panel.name}: 0", style="dim")
    text = Text(f"{panel.name}: {panel.total:.3f}\n" if panel.name else "", style="dim")
    patches_per_block = math.ceil(len(panel.columns) / MOST_BLOCKS)
    query_patches = [(patch.row, patch.column) for patch, _ in panel.weights if patch == query]
    for row, weights in zip(panel.rows, panel.grid(), strict=True):
        if row > panel.rows.start:
            text.append("\n")
        for start in range(0, len(weights), patches_per_block):
            block = range(start, min(start + patches_per_block, len(weights)))
            weight = float(weights[block].max())
            share = max(scale.share(weight), 1e-9) if weight > 0 else 0.0  # only a weight of 0 is a space
            has_query = any((row, panel.columns[column]) in query_patches for column in block)
            text.append("[]" if has_query else shade(share) * 2, Style(color=colour(share)))
    if panel.seconds_per_pixel is not None:
        step = panel.first_patch.column_step or panel.first_patch.width
        n_characters = 2 * math.ceil(len(panel.columns) / patches_per_block)
        seconds = n_characters / 2 * patches_per_block * step * panel.seconds_per_pixel
        text.append(f"\n{time_axis(seconds, n_characters)}", "dim")
    if patches_per_block > 1:
        text.append(f"\neach block: the largest weight of {patches_per_block} patches side by side", "dim")
    return text


def time_map(focus: Focus) -> Text | None:
    """Return the weights on the frames of a recording as a row of block characters; None if no key is a frame.

    Each block is the largest weight in an equal part of the time; the largest weight of all is a full block. Below the
    row are an axis of the time, and the weight on the silence after the recording, if the silence is one token.
    """
    if not (pairs := frame_weights(focus)):
        return None
    frames, weights = zip(*pairs, strict=True)
    frames_per_block = math.ceil(len(frames) / TIME_CELLS)
    largest = max(weights) or 1.0
    text = Text()
    for start in range(0, len(frames), frames_per_block):
        share = max(weights[start : start + frames_per_block]) / largest
        text.append(shade(share), Style(color=colour(share)))
    text.append("\n" + time_axis(frames[-1].end_seconds, len(text)), "dim")
    for key, weight in zip(focus.head.keys, focus.weights, strict=True):
        if key.text == SILENCE:
            text.append(f"\n{weight:.3f} on the silence after the recording", "dim")
    return text


def time_axis(seconds: float, n_cells: int) -> str:
    """Return the labels, at least 6 characters apart, of an axis of time below `n_cells` characters.

    >>> time_axis(2.0, 40)
    '0         0.5       1         1.5       2 s'
    """
    round_numbers = (digit * 10.0**power for power in range(-3, 6) for digit in (1, 2, 5))
    step = next(step for step in round_numbers if step * n_cells >= 6 * seconds)
    axis = ""
    for number in range(int(seconds / step + 1e-6) + 1):
        axis = axis.ljust(round(number * step * n_cells / seconds)) + f"{number * step:g}"
    return f"{axis} s"


def key_table(focus: Focus, n: int) -> Table:
    """Return a table of the n strongest keys, each with its weight and a bar."""
    table = Table.grid(padding=(0, 0, 0, 2), expand=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    for key in focus.head.top(focus.query, n):
        name = Text(isolated(token_label(key.position, focus.head.keys)))
        table.add_row(name, f"{key.weight:.3f}", Text(bar(key.weight), style="rgb(66,146,198)"))
    return table


def head_table(strongest: Sequence[tuple[Head, int, float]], focus: Focus) -> Table:
    """Return a table with a row for each (head, key position, weight); the head in `focus` is bold."""
    table = Table.grid(padding=(0, 0, 0, 2), expand=False)
    for head, key, weight in strongest:
        style = "bold" if head.name == focus.head.name else ""
        table.add_row(
            Text(head.name, style=style), Text(isolated(token_label(key, head.keys)), style=style), f"{weight:.3f}"
        )
    return table


def head_grid(heads: Sequence[Head], strongest: Sequence[tuple[Head, int, float]], focus: Focus) -> Columns:
    """Return a grid of layers × heads with the weights as block characters; the head in `focus` is in brackets.

    `strongest` has (head, key position, weight): the query's largest weight on another word. Other heads have 0.
    """
    weights = {head.name: weight for head, _, weight in strongest}
    layers = group_by_layer(heads)
    n_heads = max(map(len, layers))
    rows = [[Text()] * n_heads for _ in layers]
    for row, layer in zip(rows, layers, strict=True):
        for column, head in enumerate(layer):
            left, right = ("[", "]") if head.name == focus.head.name else (" ", " ")
            row[column] = Text.assemble(left, weight_block(weights.get(head.name, 0.0)), right)
    labels = [f"L{layer[0].layer} " for layer in layers]
    return Columns(labels, [f"H{head}".center(4) for head in range(n_heads)], rows, gap=0)


def weight_block(weight: float) -> Text:
    return Text(shade(weight) * 2, style=Style(color=colour(weight)))


def shade(weight: float) -> str:
    """Return the block character for a weight from 0 to 1; a larger weight has a fuller block.

    >>> [shade(weight) for weight in (0.0, 0.01, 0.3, 1.0)]
    [' ', '·', '░', '█']
    """
    if weight <= 0:
        return SHADES[0]
    fullest = len(SHADES) - 1
    return SHADES[min(fullest, 1 + int(weight * fullest))]


def shades_legend() -> str:
    """Return which weights each block character stands for.

    >>> shades_legend()
    '·· to 0.2  ░░ to 0.4  ▒▒ to 0.6  ▓▓ to 0.8  ██ to 1'
    """
    steps = len(SHADES) - 1
    return "  ".join(f"{block * 2} to {(place + 1) / steps:g}" for place, block in enumerate(SHADES[1:]))


def bar(weight: float) -> str:
    """Return a bar whose length is proportional to a weight, in eighths of a terminal cell."""
    eighths = round(weight * BAR_CELLS * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip()


def tint(weight: float) -> Style:
    if weight < 0.005:
        return Style()
    ink = "black" if weight < 0.5 else "white"
    return Style(bgcolor=colour(weight), color=ink)


def colour(weight: float) -> str:
    """Return the mixture of PALE (for 0) and DEEP (for 1).

    >>> colour(0.5)
    'rgb(115,158,202)'
    """
    mixed = (round(pale + (deep - pale) * min(1.0, weight)) for pale, deep in zip(PALE, DEEP, strict=True))
    return f"rgb({','.join(map(str, mixed))})"
