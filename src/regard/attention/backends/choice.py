"""Which backend computes a context: the fastest that is exact for the call, or the one that was asked for by name.

    fused       PyTorch's scaled_dot_product_attention; on a CPU it builds the weights for dropout and a trained bias
    tiled       blocks of queries, each with its weights for a moment; does every call

Nothing falls back silently: `Attended.backend` names what ran, `explain_backend` says why, and a backend asked for by
name that cannot do a call refuses in words.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from regard.attention.backends.fused import why_not
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score

Backend = Literal["fused", "tiled"]

ASKED: ContextVar[Backend | None] = ContextVar("backend", default=None)


@contextmanager
def use_backend(name: Backend) -> Iterator[None]:
    """Within this, every `attend` uses one backend, in models too; without it, the fastest that is exact.

    Raises:
        ValueError: there is no such backend; and, from attend, a call that it cannot do.

    >>> import torch
    >>> from regard import attend, use_backend
    >>> x = torch.randn(1, 2, 5, 8)
    >>> with use_backend("tiled"):
    ...     attend(x, x, x).backend
    'tiled'
    """
    if name not in get_args(Backend):
        raise ValueError(f"no backend {name!r}; there are {' and '.join(get_args(Backend))}.")
    token = ASKED.set(name)
    try:
        yield
    finally:
        ASKED.reset(token)


def chosen_backend(score: Score, normalise: Normaliser) -> Backend:
    """The backend that computes a call."""
    asked, reason = ASKED.get(), why_not(score, normalise)
    if asked == "fused" and reason is not None:
        raise ValueError(
            f"the fused backend was asked for and cannot do this call: {reason}; use_backend('tiled') can, "
            "as can leaving the choice to attend."
        )
    return asked or ("fused" if reason is None else "tiled")


def explain_backend(score: Score = ScaledDot(), normalise: Normaliser = Softmax()) -> str:  # noqa: B008 (frozen)
    """Which backend computes attention of this kind, and why no faster one does.

    Every mask, bias, head layout and width can be given to the fused kernel, so that only these two decide.

    >>> from regard import ScaledDot, explain_backend
    >>> explain_backend()
    'fused: the fastest, and exact for this kind'
    >>> explain_backend(ScaledDot(softcap=30.0))
    'tiled: the fused kernel has no softcap'
    """
    backend, reason = chosen_backend(score, normalise), why_not(score, normalise)
    if reason is not None:
        return f"{backend}: {reason}"
    return f"{backend}: the fastest, and exact for this kind" if backend == "fused" else f"{backend}: asked for by name"
