"""Interchange: replace the output of a head by the output of the same head in another run of the model.

This is called an interchange intervention (Geiger et al. 2021), or activation patching (causal tracing in Meng et al.
2022). The output of a head is its context, weights · value, before the output projection.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from regard.attention.attend import Attended
from regard.attention.representation import type_name
from regard.errors import InputError


@runtime_checkable
class TracedRun(Protocol):
    """The fields of a `Trace` that an `Interchange` reads; regard.effects does not import `Trace`."""

    @property
    def attended(self) -> Mapping[str, Mapping[int, Attended]]:
        """The attention calls, by kind ("encoder", "decoder" or "cross") and layer number."""

    @property
    def images(self) -> tuple[Any, ...]:
        """The pictures that the model read."""

    @property
    def joined(self) -> Any:
        """None, unless the tokens of the trace were joined, for example to words."""


@dataclass(frozen=True, slots=True)
class Interchange:
    """A change of attention: the output of a head is that of the same head in another run of the model.

    The output is the head's context, before the output projection. It is replaced bit for bit; the pattern of the head
    is still the one that the head computes in this run.

    Attributes:
        head: the name of a head, such as "L3H1" or "cross L3H1", or of a layer, such as "L3".
        other: the trace of the other run, from `regard.trace`.
        tokens: the query tokens whose outputs are replaced: a position or a text, a list of them, or None = all tokens.
            A number is a position in both runs; a text is looked up in both. A dict gives for each token of this run a
            token of the other run.

    Raises:
        TypeError: `other` is not a trace.
        InputError: `other` is a trace whose tokens were joined to words, or `tokens` is empty.

    Source: Geiger et al. 2021, "Causal abstractions of neural networks", section 3; Meng et al. 2022, section 2.1.
    """

    head: str
    other: TracedRun
    tokens: int | str | Collection[int | str] | Mapping[int | str, int | str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.other, TracedRun):
            raise TypeError(
                f"other of Interchange is {type_name(self.other)}; it takes the trace of another run, as "
                "regard.trace(model, text) gives it."
            )
        if self.other.joined is not None:
            raise InputError("other of Interchange is a trace of words; give the trace of tokens it was made from.")
        if self.token_pairs == []:
            raise InputError("tokens of Interchange is empty; name tokens, or give tokens=None for all.")

    @property
    def token_pairs(self) -> list[tuple[int | str, int | str]] | None:
        """Pairs (a token whose output is replaced, the token of `other` with the new output); None = all tokens.

        Before a run, texts are replaced by positions; the methods below expect positions.
        """
        if self.tokens is None:
            return None
        if isinstance(self.tokens, Mapping):
            return list(self.tokens.items())
        tokens = [self.tokens] if isinstance(self.tokens, int | str) else self.tokens
        return [(token, token) for token in tokens]

    def last_token(self, n_tokens: int) -> int:
        """Return the position of the last token whose output is replaced, when the model reads `n_tokens` tokens."""
        return n_tokens - 1 if self.token_pairs is None else max(int(token) for token, _ in self.token_pairs)

    def positions(self, first_query: int, n_queries: int, n_other_queries: int) -> list[tuple[int, int]]:
        """Return pairs of indices (a query whose output is replaced, the query of the run `other` with the new output).

        Args:
            first_query: the position in the text of the first query of the call.
            n_queries: the number of queries of the call.
            n_other_queries: the number of queries in the run `other`.
        """
        pairs = self.token_pairs
        if pairs is None:
            if first_query + n_queries != n_other_queries:
                raise InputError(
                    f"Interchange({self.head!r}, …): the other run has {n_other_queries} tokens and this one "
                    f"{first_query + n_queries}; give tokens=… that are in both."
                )
            return [(position - first_query, position) for position in range(first_query, n_other_queries)]
        for _, other_token in pairs:
            if int(other_token) >= n_other_queries:
                raise InputError(
                    f"Interchange({self.head!r}, …): no token {other_token} in the other run, whose {n_other_queries} "
                    f"tokens are counted from 0 to {n_other_queries - 1}."
                )
        queries = [(int(token) - first_query, int(other_token)) for token, other_token in pairs]
        return [(query, other_query) for query, other_query in queries if 0 <= query < n_queries]

    def outputs(
        self, kind: str, layer: int, context: Float[Tensor, "batch heads queries d_value"]
    ) -> Float[Tensor, "1 heads others d_value"]:
        """Return the outputs of all heads of a layer in the run `other`; `context` has the outputs in this run.

        Raises:
            InputError: `other` has no such layer, has statistics in place of outputs (it was traced with ask=…), or is
                of a model of another shape.
        """
        layers = self.other.attended.get(kind, {})
        if layer not in layers:
            existing = f"{kind} layers {', '.join(map(str, layers))}" if layers else f"no {kind} attention"
            raise InputError(
                f"Interchange({self.head!r}, …): no {kind} layer {layer} in the other run: it has {existing}."
            )
        outputs = layers[layer].context
        if outputs.is_meta:
            raise InputError(
                f"Interchange({self.head!r}, …): the other run was traced with ask=…, which keeps no outputs of heads; "
                "trace it without ask=…."
            )
        _, n_heads, _, width = context.shape
        _, n_other_heads, _, other_width = outputs.shape
        if (n_heads, width) != (n_other_heads, other_width):
            raise InputError(
                f"Interchange({self.head!r}, …): {kind} layer {layer} has {n_heads} heads of width {width}, and in "
                f"the other run {n_other_heads} heads of width {other_width}; both runs must be of models of the same "
                "shape."
            )
        if self.other.images and context.shape[0] > 1:
            raise InputError(
                f"Interchange({self.head!r}, …): {kind} layer {layer} reads {context.shape[0]} pictures or parts of a "
                "picture in one batch; an Interchange needs a model that reads a single picture as a whole."
            )
        return outputs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Interchanged(Attended):
    """The result of an attention call in which outputs of heads were replaced by outputs in another run.

    Attributes:
        computed: the context that the call computed from its weights and values; `context` has the replaced outputs.
    """

    computed: Float[Tensor, "batch heads queries d_value"]


def interchanged(
    attended: Attended, interchanges: Sequence[tuple[int | None, Interchange]], kind: str, layer: int, first_query: int
) -> Attended:
    """Return the result of an attention call with the outputs of heads replaced by outputs in other runs.

    Args:
        interchanges: pairs (the number of the head, its `Interchange`); None = all heads of the layer.
        first_query: the position in the text of the first query of the call.
    """
    if not interchanges:
        return attended
    # while a model is traced, a TorchFunctionMode intercepts this function and records the new outputs
    if has_torch_function((attended.context,)):  # True for any tensor while such a mode is active
        return handle_torch_function(
            interchanged, (attended.context,), attended, interchanges, kind, layer, first_query
        )
    context = attended.context.clone()
    for head, change in interchanges:
        outputs = change.outputs(kind, layer, context).to(context)
        heads = range(context.shape[1]) if head is None else [head]
        for query, other_query in change.positions(first_query, context.shape[2], outputs.shape[2]):
            context[:, heads, query] = outputs[:, heads, other_query]
    return Interchanged(context=context, pattern=attended.pattern, backend=attended.backend, computed=attended.context)
