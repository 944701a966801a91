"""The roles of a model's attention heads in the terminal. A role is a kind of key, such as the previous token."""

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

N_LISTED = 4
"""The number of heads that are listed for each role, such as attending to the previous token."""


def show(roles: Roles, title: str = "", console: Console | None = None) -> None:
    """Print the heads that attend most to each kind of key (role), and a grid with the main role of each head.

    Args:
        title: a line to print first; empty = no title.
        console: None = standard output.
    """
    (console or Console(highlight=False)).print(view(roles, title))


def view(roles: Roles, title: str) -> RenderableType:
    legend = ", ".join(f"{LETTERS[role]} {role}" for role in KEY_ROLES)
    return Group(
        *([Text(title)] if title else []),
        "",
        Text("the heads that look most at"),
        Padding.indent(table(roles), 2),
        "",
        Text("every head: its main role, and its attention on keys of this role in percent"),
        Text(f"{legend}; the main role is the one in which the head exceeds the mean of all heads most", style="dim"),
        Padding.indent(head_map(roles), 2),
    )


def table(roles: Roles) -> Table:
    """Return a table with a row for each role (a kind of key): the heads that attend most to keys of this kind.

    Beside a head is the share of its attention on these keys; in the rows "distance" and "entropy", its mean distance
    and entropy. A role is left out if no text has such keys, or if no head attends to them.
    """
    heads_by_role = Table.grid(padding=(0, 0, 0, 2), expand=False)
    for role in ROLES:
        if top_heads := roles.top(role, N_LISTED):
            heads_by_role.add_row(Text(PHRASES[role]), *(Text(f"{head} {number:.2f}") for head, number in top_heads))
    return heads_by_role


def head_map(roles: Roles) -> Columns:
    """Return a grid of layers × heads: for each head, the letter of its role, and the role's share of attention.

    A role is a kind of key, such as the first token. The head's role is the one in which the head exceeds the mean of
    all heads most. The share is in percent.
    """
    cells_of_layer: dict[str, list[Text]] = {}
    for head in roles.heads:
        role = roles.role(head)
        share = float(roles[role][roles.heads.index(head)])
        percent = f"{round(100 * share):2d}"
        cell = Text.assemble(f" {LETTERS[role]}", (percent, colour(share)), " " * (3 - len(percent)))
        layer, _, _ = head.partition("H")
        cells_of_layer.setdefault(layer, []).append(cell)
    labels = [f"{layer} " for layer in cells_of_layer]
    n_heads = max(map(len, cells_of_layer.values()))
    rows = [cells + [Text()] * (n_heads - len(cells)) for cells in cells_of_layer.values()]
    return Columns(labels, [f"H{head}".center(5) for head in range(n_heads)], rows, gap=0)
