"""Print the roles of a model's attention heads: which heads attend most to the previous token, to the first token, …"""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from regard.effects.roles import KEY_ROLES, ROLES
from regard.tracing.roles import Roles
from regard.views.terminal.columns import Columns
from regard.views.terminal.trace import colour

PHRASES = {
    "previous": "the previous token",
    "next": "the next token",
    "same": "the token itself",
    "first": "the first token",
    "separator": "special tokens (separator)",
    "duplicate": "the same text elsewhere",
    "induction": "after an earlier copy",
    "distance": "mean distance, in tokens",
    "entropy": "entropy, in nats",
}
"""For each role, a phrase for the keys to which a head attends; "distance" and "entropy" are numbers, not keys."""

LETTERS = {role: role[0].upper() for role in KEY_ROLES} | {"separator": "|", "same": "="}
"""For each role, such as "previous" (attends to the previous token), the character that stands for it in the grid."""

MAIN_ROLE = "the main role is the one in which the head exceeds the mean of all heads most"

N_LISTED = 4
"""The number of heads that are listed for each role."""


def show(roles: Roles, title: str = "", console: Console | None = None) -> None:
    """Print which heads have each role most strongly, and a grid with one role for each head.

    A role is a kind of key to which a head attends, such as the previous token; see `view`.

    Args:
        title: a line to print first; empty = no title.
        console: None = standard output.
    """
    (console or Console(highlight=False)).print(view(roles, title))


def view(roles: Roles, title: str) -> RenderableType:
    """Return what `show` prints: for each role, the heads that have it most strongly; and a grid of all heads.

    A role is a kind of key, such as the previous token, to which a head attends. The grid shows one role for each head:
    the role in which the head exceeds the mean over all heads most.
    """
    legend = ", ".join(f"{LETTERS[role]} {role}" for role in KEY_ROLES)
    return Group(
        *([Text(title)] if title else []),
        "",
        Text("the heads that look most at"),
        Padding.indent(table(roles), 2),
        "",
        Text("every head: its main role, and its attention on keys of this role in percent"),
        Text(f"{legend}; {MAIN_ROLE}", style="dim"),
        Padding.indent(head_map(roles), 2),
    )


def table(roles: Roles) -> Table:
    """Return a table with a row for each role, such as "the previous token".

    The row lists the heads with the largest values. A head's value is the share of its attention on keys of this role;
    the rows of "distance" and "entropy" have the head's mean distance and its entropy. A role is left out if no text
    has a key of this role, or if no head attends to such keys.
    """
    rows = Table.grid(padding=(0, 0, 0, 2), expand=False)
    for role in ROLES:
        if best := roles.top(role, N_LISTED):
            rows.add_row(Text(PHRASES[role]), *(Text(f"{head} {number:.2f}") for head, number in best))
    return rows


def head_map(roles: Roles) -> Columns:
    """Return a grid of layers × heads, with a letter and a percentage for each head.

    The letter is the head's role, a kind of key, such as P for the previous token. The percentage is the share of the
    head's attention on keys of this kind.
    """
    layers: dict[str, list[Text]] = {}
    for head in roles.heads:
        role = roles.role(head)
        share = float(roles[role][roles.heads.index(head)])
        percent = f"{round(100 * share):2d}"
        cell = Text.assemble(f" {LETTERS[role]}", (percent, colour(share)), " " * (3 - len(percent)))
        layers.setdefault(head.partition("H")[0], []).append(cell)
    width = max(map(len, layers.values()))
    rows = [cells + [Text()] * (width - len(cells)) for cells in layers.values()]
    return Columns([f"{layer} " for layer in layers], [f"H{head}".center(5) for head in range(width)], rows, gap=0)
