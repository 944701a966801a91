"""The choice of a backend: the fastest backend that is exact for a call of `attend`, or the one set by `use_backend`.

    fused       PyTorch's scaled_dot_product_attention, which never stores the whole matrix of weights
    math        PyTorch's kernel that stores the matrix of weights; chosen only if the matrix is small
    tiled       supports every call: some by an engine, others by torch operations on one block of queries at a time
    flex        FlexAttention, compiled for the call; used only if `use_backend` names it, since compiling takes seconds
    reference   Python loops over queries and keys in float64; used only if `use_backend` names it, since it is slow

An engine is a module in `attention/statistics` with regard's own kernels, in C or Triton, which compute the context and
statistics of the weights together.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import NOTHING, Ask, Summary
from regard.attention.backends import flex, fused, reference
from regard.attention.call import Call
from regard.attention.progress import progress_callback
from regard.attention.representation import type_name
from regard.attention.statistics.choose import Engine, find_engine
from regard.attention.statistics.cpu.scores import kernel_computes_scores
from regard.attention.weights import BLOCK_WEIGHTS, context_of
from regard.kernels.library import has_avx2

Name = Literal["fused", "math", "tiled", "flex", "reference"]

Context = Float[Tensor, "batch heads queries d_value"]

MIN_WEIGHTS, MIN_WEIGHTS_OF_HEAD = 2**15, 1_100
"""With fewer weights in all heads together, or in one head, PyTorch's kernel is faster than regard's C kernel."""


@dataclass(frozen=True, slots=True)
class Backend:
    """An implementation of attention.

    Attributes:
        run: computes the context from a `Call` and the dropout probability.
        unsupported_reason: the reason why `run` does not support these arguments, or None if it does.
    """

    run: Callable[[Call, float], Context]
    unsupported_reason: Callable[[Call, float], str | None]


BACKENDS: Mapping[Name, Backend] = {
    "fused": Backend(fused.fused_context, fused.unsupported_reason),
    "math": Backend(fused.math_context, fused.math_unsupported_reason),
    "tiled": Backend(context_of, lambda call, dropout: None),
    "flex": Backend(flex.flex_context, flex.unsupported_reason),
    "reference": Backend(reference.reference_context, reference.unsupported_reason),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend chosen for a call of `attend`, and the reason.

    Attributes:
        engine: computes the context and statistics of the weights; None = the backend's `run` computes the context.
    """

    name: Name
    reason: str
    engine: Engine | None = None

    def compute(self, call: Call, dropout: float, ask: Ask | None) -> tuple[Context, Summary | None, bool]:
        """Return the context, the statistics (None without an engine), and whether to check for NaN and overflow."""
        if self.engine is None:
            return BACKENDS[self.name].run(call, dropout), None, True
        if ask is None:  # only the context is computed; no progress is reported
            context, summary, needs_check = self.engine.context_and_statistics(call, NOTHING, contexts=True)
        else:
            with progress_callback() as report:
                context, summary, needs_check = self.engine.context_and_statistics(
                    call, ask, contexts=True, report=report
                )
        assert context is not None
        return context, summary, needs_check


FASTEST = Choice("fused", "the fastest, and exact for this call")


@dataclass(slots=True)
class Preferred:
    """The name of the backend set by `use_backend`, for all threads; None outside of `use_backend`.

    This is not a ContextVar, because torch.compile does not recompile when a ContextVar changes.
    """

    name: Name | None = None


PREFERRED = Preferred()


@contextmanager
def use_backend(name: Name) -> Iterator[None]:
    """Make every call of `attend` inside the `with` block use the backend `name`, in all models and all threads.

    One exception: on a CPU, a context that may be wrong because of NaN or overflow is computed again by the backend
    "tiled", which ignores NaN in masked keys and values. With dropout, the second computation drops other weights.

    Raises:
        ValueError: no backend has this name; or, raised by `attend`, the backend does not support the call.

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


def check_dropout(dropout: float) -> None:
    if isinstance(dropout, str) or not 0 <= dropout < 1:
        raise ValueError(
            f"dropout={dropout!r} must be the probability that a weight is dropped, at least 0 and below 1."
        )


def choose(call: Call, dropout: float, ask: Ask | None) -> Choice:
    """Check `dropout` and `ask`, and return the backend that computes the call, with the reason for this choice."""
    check_dropout(dropout)
    if ask is not None:
        if not isinstance(ask, Ask):
            raise TypeError(f"ask is {type_name(ask)}; it takes an object such as Ask(top=8).")
        ask.check(call.grid)
    if PREFERRED.name is not None:
        return choose_by_name(PREFERRED.name, call, dropout, ask)
    engine = None if ask is None else usable_engine(call, dropout, ask)  # without `ask`, PyTorch's kernel may be faster
    if engine is not None:
        reason = "it computes the statistics that `ask` names and the context in one pass"
        return Choice("tiled", reason, engine)
    obstacle = fused.unsupported_reason(call, dropout)
    if obstacle is None:
        engine = usable_engine(call, dropout, ask) if favours_cpu_kernel(call) else None
        if engine is None:
            return FASTEST
        return Choice("tiled", "exact, and faster than the fused kernel for this call", engine)
    if fused.math_unsupported_reason(call, dropout) is None:
        n_weights = prod(call.grid)
        if n_weights <= BLOCK_WEIGHTS:
            return Choice("math", obstacle)
        obstacle += f", and {n_weights:,} weights are too many for the math backend, which stores them"
    return Choice("tiled", obstacle, usable_engine(call, dropout, ask))


def choose_by_name(name: Name, call: Call, dropout: float, ask: Ask | None) -> Choice:
    reason = BACKENDS[name].unsupported_reason(call, dropout)
    if reason is not None:
        raise ValueError(
            f"the {name} backend, set by use_backend, does not support this call: {reason}; use_backend('tiled') "
            "supports every call, or let attend choose a backend."
        )
    engine = usable_engine(call, dropout, ask) if name == "tiled" else None
    return Choice(name, "set by use_backend", engine)


def usable_engine(call: Call, dropout: float, ask: Ask | None) -> Engine | None:
    """Return the engine (a module of C or Triton kernels) that computes a call, or None if no engine can.

    No engine supports dropout, gradients, or tensors that C code cannot read (`call.is_concrete` is False). On a GPU,
    an engine is used only if the call requests statistics.
    """
    if dropout > 0 or not call.is_concrete or call.needs_gradients or (ask is None and not call.query.is_cpu):
        return None
    return find_engine(call)


def favours_cpu_kernel(call: Call) -> bool:
    """Return whether regard's C kernel computes a call faster than PyTorch's fused kernel (which supports the call).

    With AVX2 or AVX-512, the C kernel is faster in float32. In half precision, PyTorch's kernel may use matrix
    instructions that the C kernel lacks. The C kernel is then faster only if the mask or bias differs between queries:
    PyTorch's kernel also computes the scores of masked keys, and needs every mask but `Causal()` as a matrix.
    """
    grid, formula = call.grid, call.softmax_formula
    if not call.is_concrete or not call.query.is_cpu:
        return False
    if formula.projection is not None:  # the kernel would read projected queries and keys
        return False
    if prod(grid) < MIN_WEIGHTS or grid.queries * grid.keys < MIN_WEIGHTS_OF_HEAD:
        return False
    if grid.queries == 1 or not has_avx2():  # for a single query, PyTorch's kernel is faster
        return False
    if call.query.dtype != torch.float32 and not fused.mask_or_bias_varies_by_query(call.mask, formula.bias):
        return False
    return kernel_computes_scores(formula, grid)
