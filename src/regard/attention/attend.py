"""The attention function: for each query, a sum of all values, weighted by how well their keys match the query.

    context = normalise(mask(score(query, key))) value          softmax(Q Kᵀ / √d_key) V by default

A fused kernel computes the context without storing the weights, if it supports the arguments. The `Pattern` returned
with the context computes the weights when they are read.

Source: Vaswani et al. 2017, equation 1.
"""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from regard.attention.ask import Ask
from regard.attention.backends.choose import choose
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.overflow import may_be_wrong, may_overflow, statistics_may_hold_nan, without_overflow
from regard.attention.pattern import Pattern
from regard.attention.precision import without_autocast
from regard.attention.pytorch_arguments import NotAPair, explain_arguments_of
from regard.attention.representation import Described
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.weights import context_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Attended(NotAPair, Described):
    """The result of one call of `attend`: the context, and the pattern of the attention weights.

    `context, weights = attend(…)` raises a TypeError that says what to write instead.

    Attributes:
        context: the weighted sum of the values for each query, in the data type of the input.
        pattern: the attention weights, computed when they are read.
        backend: the name of the backend that computed the context, such as "fused"; `explain_backend` says why.
    """

    context: Float[Tensor, "batch heads queries d_value"]
    pattern: Pattern
    backend: str


explain_sdpa_arguments = explain_arguments_of(
    "F.scaled_dot_product_attention",
    "after query, key and value write names, such as mask=Causal()",
    {
        "is_causal": "for is_causal=True write mask=Causal()",
        "attn_mask": "for a boolean attn_mask write mask=attn_mask, for numbers score=ScaledDot(bias=attn_mask)",
        "dropout_p": "for dropout_p write dropout",
        "scale": "for scale write score=ScaledDot(scale=scale)",
        "enable_gqa": "leave out enable_gqa, because key and value may always have fewer heads than query",
    },
)


@explain_sdpa_arguments
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
    """Return the context of each query (the weighted sum of the values), and the pattern of the attention weights.

    Key and value may have fewer heads than query: each key head is then shared by a group of query heads, as in
    grouped-query attention. A tensor with batch size 1 is used for all batch items of the other tensors. A query that
    may attend to no key has weights 0 and context 0. A NaN in a query, or in a key or value that the query may attend
    to, gives NaN in the context of this query. On a CPU, if scores of finite input overflow float32, the call is
    computed again in float64.

    Args:
        score: computes the scores from queries and keys; by default their dot products divided by √d_key.
        mask: which keys a query may attend to: a `Mask` such as `Causal()`, a combination of masks by &, | and ~, or a
            boolean tensor that broadcasts to [batch heads queries keys], True = may attend. None = all keys.
        normalise: turns the scores of each query over all keys into weights; by default softmax.
        dropout: the probability with which a weight is set to 0, for training; the other weights are divided by
            1 - dropout. The pattern shows the weights before dropout.
        ask: statistics of the weights to compute during this call, in the same pass as the context where that is
            faster; the methods of the pattern then return them without another pass.

    Raises:
        ValueError: shapes, types or devices do not fit together; or this is inside of `with use_backend(name)`, and
            the backend of this name does not support these arguments.
        TypeError: query, key or value is not a tensor; a tensor given as mask is not boolean; or mask, score, normalise
            or ask is an object of another type than annotated.

    >>> import torch
    >>> from regard import attend, Causal
    >>> query, key, value = torch.randn(3, 2, 8, 64, 16).unbind()
    >>> attended = attend(query, key, value, mask=Causal())
    >>> attended.context.shape, attended.pattern
    (torch.Size([2, 8, 64, 16]), Pattern(batch=2, heads=8, queries=64, keys=64, mask=Causal()))
    """
    if has_torch_function((query, key, value)):  # tensor subclasses and TorchFunctionModes may replace attend
        options: dict[str, Any] = {"score": score, "mask": mask, "normalise": normalise, "dropout": dropout, "ask": ask}
        return handle_torch_function(attend, (query, key, value), query, key, value, **options)
    call = Call.of(query, key, value, score, mask, normalise)
    choice = choose(call, dropout, ask)
    backend = choice.name
    with without_autocast(query.device):
        context, summary, needs_check = choice.compute(call, dropout, ask)
        if needs_check and may_be_wrong(call, context):  # because of NaN or overflow
            backend, summary = "tiled", None
            call = without_overflow(call)
            context = context_of(call, dropout).to(value.dtype)  # what the backend "tiled" does
        elif backend == "reference" and may_overflow(call):  # reference uses float64, so the pattern must too
            call = without_overflow(call)
    if ask is not None and (summary is None or statistics_may_hold_nan(summary)):
        # no kernel computed the statistics with the context, or NaN in masked keys has spoilt them
        summary = Pattern(call).answer(ask)
    return Attended(context=context, pattern=Pattern(call, summary), backend=backend)


@explain_sdpa_arguments
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
    """Return the name of the backend that `attend` would use for these arguments, and the reason, as one line of text.

    >>> import torch
    >>> from regard import ScaledDot, explain_backend
    >>> x = torch.randn(1, 2, 5, 8)
    >>> explain_backend(x, x, x)
    'fused: the fastest, and exact for this call'
    >>> explain_backend(x, x, x, score=ScaledDot(softcap=30.0))
    'tiled: the fused kernel has no softcap'
    """
    choice = choose(Call.of(query, key, value, score, mask, normalise), dropout, ask)
    return f"{choice.name}: {choice.reason}"
