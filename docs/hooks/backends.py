"""The table of backends: which backend supports which kind of attention, computed from the call on each page."""

from dataclasses import dataclass
from typing import get_args

import torch

from regard import Pattern, explain_backend
from regard.attention.backends.choose import BACKENDS, Name


@dataclass(frozen=True, slots=True)
class Can:
    """Which backends support a call.

    Attributes:
        reasons: why each backend does not support the call; None = it does.
        chosen: the text of `explain_backend`.
        training: the text of `explain_backend` if query, key, value and parameters need gradients.
    """

    reasons: dict[str, str | None]
    chosen: str
    training: str


def what_can(pattern: Pattern) -> Can:
    """Return which backends support the call of a pattern."""
    with torch.no_grad():
        reasons = {name: BACKENDS[name].unsupported_reason(pattern.call, 0.0) for name in get_args(Name)}
        chosen = explained(pattern)
    return Can(reasons, chosen, explained(pattern))


def explained(pattern: Pattern) -> str:
    """Return the text of `explain_backend` for the call of a pattern."""
    parts = {"score": pattern.score, "mask": pattern.mask, "normalise": pattern.normalise}
    return explain_backend(pattern.query, pattern.key, pattern.value, **parts)


def table(kinds: dict[str, dict[str, Pattern]]) -> str:
    """Return a table of kinds and backends.

    Args:
        kinds: by the name of a group, the patterns of its kinds by the link to their page.
    """
    names = get_args(Name)
    lines = [f"| kind | {' | '.join(names)} | `attend` takes |", f"|---|{':-:|' * len(names)}---|"]
    for group, patterns in kinds.items():
        lines.append(f"| **{group}** |{' |' * len(names)} |")
        for link, pattern in patterns.items():
            can = what_can(pattern)
            cells = " | ".join("✓" if can.reasons[name] is None else "·" for name in names)
            lines.append(f"| {link} | {cells} | {shortly(can)} |")
    return '<div class="backends" markdown>\n\n' + "\n".join(lines) + "\n\n</div>"


def shortly(can: Can) -> str:
    """Return the backend that attend chooses, and why it chooses no faster one."""
    name, why = can.chosen.split(": ", 1)
    why = "" if name == "fused" else f": {why}"
    trained = can.training.split(": ", 1)[0]
    return f"{name}{why}" if trained == name else f"{name}{why}; {trained} in training"


def sentence(pattern: Pattern) -> str:
    """Return a sentence that names the backend of a page's call."""
    can = what_can(pattern)
    name, why = can.chosen.split(": ", 1)
    trained, reason = can.training.split(": ", 1)
    also = "" if trained == name else f" In training it takes **{trained}**: {reason}."
    return f"`attend` computes the call below with **{name}**: {why}.{also}"
