"""The attention function: every query reads the values, each in proportion to how well its key matches.

    context = normalise(mask(score(query, key))) value          softmax(Q Kᵀ / √d_key) V by default

The three stages are objects, so another mechanism is another object and never another flag. The context comes from a
fused kernel wherever one can express the call; the `Pattern` beside it computes the weights when you look at them.

Source: Vaswani et al. 2017, equation 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask
from regard.attention.backends.choose import BACKENDS, PREFERRED, chosen_backend, explanation
from regard.attention.grid.grid import Grid, divisors
from regard.attention.masks import Mask, as_mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.precision import without_autocast
from regard.attention.representation import type_name
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.statistics.choose import engine_with_context
from regard.attention.statistics.progress import reporting


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attended:
    """What one attention step read, and exactly how.

    Attributes:
        context: what each query read; its type is the input's.
        pattern: the weights it read with, computed when looked at.
        backend: what computed the context, such as "fused" or "tiled"; `explain_backend` says why.
    """

    context: Float[Tensor, "batch heads queries d_value"]
    pattern: Pattern
    backend: str


def attend(
    query: Float[Tensor, "query_batch heads queries d_query"],
    key: Float[Tensor, "key_batch key_heads keys d_key"],
    value: Float[Tensor, "value_batch key_heads keys d_value"],
    *,
    score: Score = ScaledDot(),  # noqa: B008 (frozen)
    mask: Mask | Tensor | None = None,
    normalise: Normaliser = Softmax(),  # noqa: B008 (frozen)
    dropout: float = 0.0,
    ask: Ask | None = None,
) -> Attended:
    """Read the values with each query.

    key and value may have fewer heads than query (each serves a group of them), and a batch of 1 serves every item.
    A query that sees no key has context 0 and weights 0. A NaN in the input comes out as NaN.

    Args:
        mask: which keys a query may attend to, as a rule (`Causal()`, joined with & | ~) or a boolean tensor that
            broadcasts to [batch heads queries keys], True = may attend. None = all.
        dropout: the chance that a weight is dropped; for training only. The pattern shows the weights before it.
        ask: statistics of the pattern to be computed with the context, in one pass where that is faster; the pattern
            then has them at once.

    Raises:
        ValueError: shapes, types or devices that do not fit together; a backend asked for that cannot do the call.
        TypeError: a query, key or value that is no tensor; a mask that is not boolean; a score or normaliser that is
            none.

    >>> import torch
    >>> from regard import attend, Causal
    >>> query, key, value = torch.randn(3, 2, 8, 64, 16).unbind()
    >>> seen = attend(query, key, value, mask=Causal())
    >>> seen.context.shape, seen.pattern
    (torch.Size([2, 8, 64, 16]), Pattern(batch=2, heads=8, queries=64, keys=64, mask=Causal()))
    """
    pattern = pattern_of(query, key, value, score, mask, normalise)
    check_dropout(dropout)
    if ask is not None:
        return with_answer(pattern, dropout, ask)
    backend = chosen_backend(pattern, dropout)
    with without_autocast(query.device):
        return Attended(context=BACKENDS[backend].run(pattern, dropout), pattern=pattern, backend=backend)


def with_answer(pattern: Pattern, dropout: float, ask: Ask) -> Attended:
    """The context and what is asked of the pattern: in one pass where both can be had from the same weights."""
    engine = engine_for_both(pattern, dropout, ask)
    if engine is not None:
        with reporting() as report:
            context, known = engine.read(pattern, ask, contexts=True, report=report)
        assert context is not None
        return Attended(context=context, pattern=replace(pattern, known=known), backend="tiled")
    backend = chosen_backend(pattern, dropout)
    with without_autocast(pattern.device):
        context = BACKENDS[backend].run(pattern, dropout)
    return Attended(context=context, pattern=replace(pattern, known=pattern.answer(ask)), backend=backend)


def engine_for_both(pattern: Pattern, dropout: float, ask: Ask) -> ModuleType | None:
    """The engine that has the context and what is asked from the same weights; None where that takes two passes."""
    if not isinstance(ask, Ask):
        raise TypeError(f"ask is {type_name(ask)}; it takes an object such as Ask(top=8).")
    ask.check(pattern.grid)
    return engine_with_context(pattern, dropout) if PREFERRED.name in (None, "tiled") else None


def explain_backend(
    query: Float[Tensor, "query_batch heads queries d_query"],
    key: Float[Tensor, "key_batch key_heads keys d_key"],
    value: Float[Tensor, "value_batch key_heads keys d_value"],
    *,
    score: Score = ScaledDot(),  # noqa: B008 (frozen)
    mask: Mask | Tensor | None = None,
    normalise: Normaliser = Softmax(),  # noqa: B008 (frozen)
    dropout: float = 0.0,
    ask: Ask | None = None,
) -> str:
    """Which backend computes the call of `attend` that takes the same arguments, and why no faster one does.

    >>> import torch
    >>> from regard import ScaledDot, explain_backend
    >>> x = torch.randn(1, 2, 5, 8)
    >>> explain_backend(x, x, x)
    'fused: the fastest, and exact for this call'
    >>> explain_backend(x, x, x, score=ScaledDot(softcap=30.0))
    'tiled: the fused kernel has no softcap'
    """
    pattern = pattern_of(query, key, value, score, mask, normalise)
    check_dropout(dropout)
    if ask is not None and engine_for_both(pattern, dropout, ask) is not None and PREFERRED.name is None:
        return "tiled: what is asked of the pattern comes with the context, in one pass"
    return explanation(pattern, dropout)


def pattern_of(
    query: Float[Tensor, "query_batch heads queries d_query"],
    key: Float[Tensor, "key_batch key_heads keys d_key"],
    value: Float[Tensor, "value_batch key_heads keys d_value"],
    score: Score,
    mask: Mask | Tensor | None,
    normalise: Normaliser,
) -> Pattern:
    """The pattern of a call, once its arguments are known to fit together; nothing is computed."""
    check_kind("score", score, Score, ScaledDot)
    grid = grid_of(query, key, value, score)
    mask = as_mask(mask)
    check_kind("normalise", normalise, Normaliser, Softmax)
    for part in (score, mask, normalise):
        if part is not None:
            part.check(grid)
    return Pattern(query, key, value, grid, score.of_type(query), mask, normalise)


def grid_of(query: Tensor, key: Tensor, value: Tensor, score: Score) -> Grid:
    """The grid of a call, once its arguments are known to fit together."""
    check_tensors(query, key, value)
    (query_batch, heads, queries, d_query), (key_batch, key_heads, keys, d_key) = query.shape, key.shape
    value_batch, value_heads, values, _ = value.shape
    if d_query == 0:
        raise ValueError("query has width 0; a query needs at least one number to be matched with keys.")
    score.check_widths(d_query, d_key)
    if (key_heads, keys) != (value_heads, values):
        raise ValueError(
            f"key has {key_heads} heads of {keys} tokens and value has {value_heads} heads of "
            f"{values} tokens; every key needs its value, so they must be the same."
        )
    if heads == 0:
        raise ValueError("query has 0 heads; attention needs at least one.")
    if key_heads == 0 or heads % key_heads:
        raise ValueError(
            f"query has {heads} heads and key has {key_heads}; each key head serves a group of query "
            f"heads, so it must be one of {divisors(heads)}."
        )
    batches = [size for size in (query_batch, key_batch, value_batch) if size != 1]
    if batches[1:] != batches[:-1]:
        raise ValueError(
            f"batch sizes do not fit together: query {query_batch}, key {key_batch}, value {value_batch}; "
            "each must be the same or 1."
        )
    return Grid(batches[0] if batches else 1, heads, queries, keys)


def check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse tensors that are not of one kind of number, in one place, with four axes."""
    try:
        one_place = query.device == key.device == value.device
        one_dtype = query.dtype == key.dtype == value.dtype
        if query.ndim == key.ndim == value.ndim == 4 and query.is_floating_point() and one_place and one_dtype:
            return
    except AttributeError:
        one_place = True  # one of them is no tensor
    named = {"query": query, "key": key, "value": value}
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name} is {type_name(tensor)}; attend takes tensors, and torch.as_tensor makes one of an array or a "
                "list."
            )
        if tensor.ndim != 4:
            raise ValueError(
                f"{name} has shape {list(tensor.shape)}; attend takes four axes, [batch heads tokens width]; "
                "add the missing ones with unsqueeze."
            )
        if not tensor.is_floating_point():
            raise ValueError(f"{name} has dtype {tensor.dtype}; attend takes floating-point numbers.")
    what = "dtype" if one_place else "device"
    have = ", ".join(f"{name} {getattr(tensor, what)}" for name, tensor in named.items())
    raise ValueError(f"query, key and value must share one {what}: {have}; convert them with .to(…).")


def check_dropout(dropout: float) -> None:
    """Refuse what is no chance."""
    if not 0 <= dropout < 1:
        raise ValueError(
            f"dropout={dropout} is the chance that a weight is dropped; it must be at least 0 and below 1."
        )


def check_kind(name: str, given: object, kind: type, example: Callable[[], object]) -> None:
    """Refuse a stage of attention that is not the object it should be."""
    if not isinstance(given, kind):
        raise TypeError(f"{name} is {given!r}; it takes an object such as {example()!r}.")
