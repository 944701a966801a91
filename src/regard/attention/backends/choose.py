"""Which backend computes a context: the fastest that is exact for the call, or the one that was asked for by name.

    fused       PyTorch's scaled_dot_product_attention: no weights are ever built
    math        PyTorch's kernel that builds the weights, chosen only while they are few
    tiled       blocks of queries, each with its weights for a moment; does every call, and on a CPU some the fastest
    flex        FlexAttention, compiled for the call: by name only, as that takes seconds
    reference   the definition, one query after the other, in float64: by name only, as it is slow

Nothing falls back silently: `Attended.backend` names what ran, `explain_backend` says why, and a backend asked for by
name that cannot do a call refuses in words.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from regard.attention.backends import flex, fused, reference, tiled
from regard.attention.backends.fused import Run
from regard.attention.pattern import BLOCK_WEIGHTS, Pattern

Name = Literal["fused", "math", "tiled", "flex", "reference"]


@dataclass(slots=True)
class Preferred:
    """The backend that `use_backend` names; an attribute, as torch.compile guards those and no ContextVar."""

    name: Name | None = None


PREFERRED = Preferred()


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to compute a context.

    Attributes:
        run: from a pattern, and the chance that a weight is dropped, to the context.
        why_not: why it cannot do a call; None if it can.
    """

    run: Run
    why_not: Callable[[Pattern, float], str | None]


def why_not_fused(pattern: Pattern, dropout: float) -> str | None:
    """The kernel must have this kind of attention, and must not build the weights for it."""
    return fused.why_not(pattern.score, pattern.normalise) or fused.why_built(pattern, dropout)


def why_not_math(pattern: Pattern, dropout: float) -> str | None:
    """The kernel must have this kind of attention."""
    return fused.why_not(pattern.score, pattern.normalise)


BACKENDS: Mapping[Name, Backend] = {
    "fused": Backend(fused.fused, why_not_fused),
    "math": Backend(fused.math, why_not_math),
    "tiled": Backend(tiled.tiled, lambda pattern, dropout: None),
    "flex": Backend(flex.flex, flex.why_not),
    "reference": Backend(reference.looped, reference.why_not),
}


@contextmanager
def use_backend(name: Name) -> Iterator[None]:
    """Within this, every `attend` uses one backend, in models and other threads too; else the fastest that is exact.

    Raises:
        ValueError: there is no such backend; and, from attend, a call that it cannot do.

    >>> import torch
    >>> from regard import attend, use_backend
    >>> x = torch.randn(1, 2, 5, 8)
    >>> with use_backend("tiled"):
    ...     attend(x, x, x).backend
    'tiled'
    """
    if name not in get_args(Name):
        raise ValueError(f"no backend {name!r}; there are {', '.join(get_args(Name)[:-1])} and {get_args(Name)[-1]}.")
    before, PREFERRED.name = PREFERRED.name, name
    try:
        yield
    finally:
        PREFERRED.name = before


def chosen_backend(pattern: Pattern, dropout: float) -> Name:
    """The backend that computes a call."""
    name = PREFERRED.name
    if name is None:
        if why_not_fused(pattern, dropout) is not None:
            return slower(pattern, dropout)
        return "tiled" if tiled.faster(pattern, dropout) else "fused"
    reason = BACKENDS[name].why_not(pattern, dropout)
    if reason is not None:
        raise ValueError(
            f"the {name} backend was asked for and cannot do this call: {reason}; use_backend('tiled') can, "
            "as can leaving the choice to attend."
        )
    return name


def slower(pattern: Pattern, dropout: float) -> Name:
    """The backend for a call that the fused kernel cannot do."""
    if why_not_math(pattern, dropout) is None and pattern.shape.numel() <= BLOCK_WEIGHTS:
        return "math"
    return "tiled"


def explanation(pattern: Pattern, dropout: float) -> str:
    """Which backend computes a call, and why no faster one does."""
    name = chosen_backend(pattern, dropout)
    if PREFERRED.name is not None:
        return f"{name}: asked for by name"
    reason = why_not_fused(pattern, dropout)
    if reason is None and name == "tiled":
        return "tiled: exact, and faster than the fused kernel where a mask or a bias depends on the query"
    if reason is None:
        return "fused: the fastest, and exact for this call"
    if name == "tiled" and why_not_math(pattern, dropout) is None:
        reason += f", and {pattern.shape.numel():,} weights are too many to be built, which math would do"
    return f"{name}: {reason}"
