"""Which backend can compute which kind: asked of the code, with the call that each page shows."""

from dataclasses import dataclass
from typing import get_args

import torch

from regard import Pattern, explain_backend
from regard.attention.backends.choose import BACKENDS, Name


@dataclass(frozen=True, slots=True)
class Can:
    """What the backends can do of one call.

    Attributes:
        reasons: of each backend, why it cannot; None where it can.
        chosen: what `explain_backend` says.
        training: the same where gradients flow to query, key, value and parameters.
    """

    reasons: dict[str, str | None]
    chosen: str
    training: str


def what_can(pattern: Pattern) -> Can:
    """What the backends can do of the call that a pattern comes from."""
    with torch.no_grad():
        reasons = {name: BACKENDS[name].unsupported_reason(pattern.call, 0.0) for name in get_args(Name)}
        chosen = explained(pattern)
    return Can(reasons, chosen, explained(pattern))


def explained(pattern: Pattern) -> str:
    """What `explain_backend` says of the call that a pattern comes from."""
    parts = {"score": pattern.score, "mask": pattern.mask, "normalise": pattern.normalise}
    return explain_backend(pattern.query, pattern.key, pattern.value, **parts)


def table(kinds: dict[str, dict[str, Pattern]]) -> str:
    """Kinds × backends: the groups of kinds, each with its pages' links and patterns."""
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
    """The backend that attend takes, and why no faster one."""
    name, why = can.chosen.split(": ", 1)
    why = "" if name == "fused" else f": {why}"
    trained = can.training.split(": ", 1)[0]
    return f"{name}{why}" if trained == name else f"{name}{why}; {trained} in training"


def sentence(pattern: Pattern) -> str:
    """What computes the call of a page, in words."""
    can = what_can(pattern)
    name, why = can.chosen.split(": ", 1)
    trained, reason = can.training.split(": ", 1)
    also = "" if trained == name else f" In training it takes **{trained}**: {reason}."
    return f"`attend` computes the call below with **{name}**: {why}.{also}"
