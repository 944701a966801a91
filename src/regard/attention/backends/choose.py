"""The choice of a backend: the fastest backend that is exact for a call, or the backend named in `use_backend`.

    fused       PyTorch's scaled_dot_product_attention, which never builds the whole matrix of weights
    math        PyTorch's kernel that builds the weights; chosen only for calls with few weights
    tiled       builds the weights of one block of queries at a time; supports every call, and is the fastest for some
    flex        FlexAttention, compiled for the call; only by name, since compiling takes seconds
    reference   Python loops over queries and keys, in float64; only by name, since it is slow

Nothing falls back silently: `Attended.backend` names the backend that ran, and `explain_backend` says why. If the
backend named in `use_backend` does not support a call, `attend` raises ValueError with the reason. One fallback is
known only afterwards: on a CPU, a context that contains NaN is computed again by `tiled` (see `finite.py`), and
`Attended.backend` is then "tiled".
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import NOTHING, Ask, Summary
from regard.attention.backends import flex, fused, reference, tiled
from regard.attention.call import Call
from regard.attention.progress import progress_callback
from regard.attention.statistics.choose import fused_engine
from regard.attention.statistics.cpu.scores import computes_scores
from regard.attention.statistics.engine import Engine
from regard.attention.weights import BLOCK_WEIGHTS

Name = Literal["fused", "math", "tiled", "flex", "reference"]

Context = Float[Tensor, "batch heads queries d_value"]

MIN_WEIGHTS, MIN_QUERIES = 2**19, 64
"""The numbers of weights in a call and of queries in a head from which regard's CPU kernel is faster than PyTorch's."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to compute a context.

    Attributes:
        run: computes the context from a `Call` (the checked arguments of `attend`) and the dropout probability.
        unsupported_reason: takes the same arguments, and returns why the backend does not support them, or None if it
            does.
    """

    run: Callable[[Call, float], Context]
    unsupported_reason: Callable[[Call, float], str | None]


BACKENDS: Mapping[Name, Backend] = {
    "fused": Backend(fused.fused, fused.unsupported_reason),
    "math": Backend(fused.math, fused.math_unsupported_reason),
    "tiled": Backend(tiled.tiled, lambda call, dropout: None),
    "flex": Backend(flex.flex, flex.unsupported_reason),
    "reference": Backend(reference.looped, reference.unsupported_reason),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend for a call, and why it was chosen.

    Attributes:
        run: computes the context from the call and the dropout probability, if `engine` is None.
        engine: computes the context and the statistics in one pass; None = the context comes from `run`.
    """

    name: Name
    reason: str
    run: Callable[[Call, float], Context]
    engine: Engine | None = None

    def compute(self, call: Call, dropout: float, ask: Ask | None) -> tuple[Context, Summary | None]:
        """Return the context of a call, and the statistics that `ask` names.

        Without an engine, the statistics are None: they are computed later, from the call.
        """
        if self.engine is None:
            return self.run(call, dropout), None
        if ask is None:
            context, summary = self.engine.read(call, NOTHING, contexts=True)
        else:
            with progress_callback() as report:
                context, summary = self.engine.read(call, ask, contexts=True, report=report)
        assert context is not None
        return context, summary


FASTEST = Choice("fused", "the fastest, and exact for this call", fused.fused)


@dataclass(slots=True)
class Preferred:
    """The backend that `use_backend` names, or None if no `use_backend` is active.

    Not a ContextVar, because torch.compile does not recompile when a ContextVar changes.
    """

    name: Name | None = None


PREFERRED = Preferred()


@contextmanager
def use_backend(name: Name) -> Iterator[None]:
    """Within this context, every call of `attend` uses the backend `name`, in models and in other threads too.

    On a CPU, a context that contains NaN is computed again by "tiled", which keeps NaN of masked keys out of it.
    Dropout then drops other weights.

    Raises:
        ValueError: there is no such backend; and, from attend, a call that the backend does not support.

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


def choose(call: Call, dropout: float, ask: Ask | None) -> Choice:
    """Return the backend for a call of `attend`, with the reason for the choice.

    Raises:
        ValueError: the backend that `use_backend` names does not support the call.
    """
    if PREFERRED.name is not None:
        return choose_by_name(PREFERRED.name, call, dropout, ask)
    if ask is not None and (engine := engine_with_context(call, dropout)) is not None:
        reason = "it computes the statistics that `ask` names and the context in one pass"
        return Choice("tiled", reason, tiled.tiled, engine)
    obstacle = fused.unsupported_reason(call, dropout)
    if obstacle is None:
        if not favours_cpu_kernel(call) or (engine := engine_with_context(call, dropout)) is None:
            return FASTEST
        faster = "exact, and faster than the fused kernel where a mask or a bias depends on the query"
        return Choice("tiled", faster, tiled.tiled, engine)
    if fused.math_unsupported_reason(call, dropout) is None:
        n_weights = call.grid.shape.numel()
        if n_weights <= BLOCK_WEIGHTS:
            return Choice("math", obstacle, fused.math)
        obstacle += f", and {n_weights:,} weights are too many for the math backend, which builds them"
    return Choice("tiled", obstacle, tiled.tiled, engine_without_ask(call, dropout))


def choose_by_name(name: Name, call: Call, dropout: float, ask: Ask | None) -> Choice:
    """Return the backend of this name for a call of `attend`; raise ValueError if it does not support the call."""
    reason = BACKENDS[name].unsupported_reason(call, dropout)
    if reason is not None:
        raise ValueError(
            f"the {name} backend was asked for and cannot do this call: {reason}; use_backend('tiled') can, "
            "as can leaving the choice to attend."
        )
    engine = None
    if name == "tiled":
        engine = engine_without_ask(call, dropout) if ask is None else engine_with_context(call, dropout)
    return Choice(name, "asked for by name", BACKENDS[name].run, engine)


def engine_with_context(call: Call, dropout: float) -> Engine | None:
    """Return the engine that computes the context and the statistics of a call in one pass, or None if none can.

    No engine supports dropout or gradients.
    """
    return None if dropout > 0 or call.needs_gradients else fused_engine(call, contexts=True)


def engine_without_ask(call: Call, dropout: float) -> Engine | None:
    """Return the CPU engine if it can compute the context of a call, without statistics, else None.

    None within torch.compile, and for calls that are not on a CPU.
    """
    if not call.query.is_cpu or torch.compiler.is_compiling():
        return None
    return engine_with_context(call, dropout)


def favours_cpu_kernel(call: Call) -> bool:
    """Return whether regard's C kernel computes a call faster than the fused backend, which supports the call too.

    The C kernel is faster for many weights if the mask or the bias depends on the query: PyTorch's kernel takes every
    mask but a causal one as a matrix, and spends time on masked keys.
    """
    if not call.query.is_cpu or torch.compiler.is_compiling() or call.softmax.projection is not None:
        return False
    if call.grid.queries < MIN_QUERIES or call.grid.shape.numel() < MIN_WEIGHTS:
        return False
    return fused.varies_by_query(call.mask, call.softmax.bias) and computes_scores(call)
