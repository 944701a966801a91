"""One head of a model as a worked example, which starts from the head's input x, or else from Q, K and V.

This works for any model. While the model runs, hooks record the calls of its linear layers. If some columns of a
layer's output are the head's queries, then Q = x W_q + b_q, where x is the input of the layer and W_q are these columns
of the layer's matrix; likewise for K and V. If there are no such columns, as with rotary positions, the example starts
from Q, K and V. The output parameters W_o are the head's rows of the linear layer that takes the contexts of all heads;
the worked example leaves out the outputs of the other heads and the layer's bias, which the model adds.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.masks.mask import keep_of_tile
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.biases.bias import numbers_of_bias
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.general import General
from regard.attention.scores.prepared import Prepared
from regard.by_hand.example_inputs import ExampleInputs, joined_names
from regard.by_hand.head_steps import Matrix
from regard.by_hand.linear_calls import (
    LinearCall,
    Projection,
    find_output_parameters,
    find_projection,
    linear_calls,
)
from regard.errors import InputError
from regard.tracing.decoder_note import decoder_note
from regard.tracing.focus import Focus, focus_on
from regard.tracing.head import Head
from regard.tracing.model_loading import load
from regard.tracing.run import trace
from regard.tracing.tokens.readable_tokens import unfamiliar_text_note
from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GENERAL_NOTE = "Q is the queries times the matrix W of the general score (Luong et al. 2015, section 3.1)."


def model_inputs(
    model: "PreTrainedModel | str | None",
    text: str,
    *,
    head: str | None = None,
    token: TokenReference | None = None,
    target: str | None = None,
    tokenizer: Any = None,
    truncate: bool = False,
) -> tuple[ExampleInputs, int]:
    """Let a model read a text; return the inputs of a worked example of one of its heads, and the query's position.

    Args:
        model: a loaded model, or the name or folder of one; None = MiniLM.
        head: the head's name, such as "L3H1"; None = the head with the most salient weight (large, on a distant key).
        token: the query token; None = the query with the most salient weight.
        target: the text that the decoder of an encoder-decoder reads; other models take none.
        truncate: cut a text that is too long; False = raise InputError.

    Raises:
        InputError: the model or the text cannot be traced, the head or the token does not exist, or the attention is
            not a softmax of dot products.
    """
    if model is None or isinstance(model, str):
        loaded = load(model)
        model, tokenizer = loaded.model, tokenizer or loaded.tokenizer
    assert not isinstance(model, str)
    with linear_calls(model.modules()) as calls, torch.no_grad():
        model_trace = trace(model, text, target=target, tokenizer=tokenizer, truncate=truncate)
        focus = focus_on(model_trace, token, head)
        inputs = traced_inputs(model_trace, focus, calls)
    note = unfamiliar_text_note(model_trace.model, model_trace.tokens)
    return replace(inputs, notes=(*inputs.notes, note) if note else inputs.notes), focus.query


def traced_inputs(model_trace: Trace, focus: Focus, calls: Sequence[LinearCall]) -> ExampleInputs:
    """Return `head_inputs`, in a decoder with a note on what a query is there."""
    inputs = head_inputs(focus, calls, head_title(model_trace, focus))
    note = decoder_note(model_trace, focus.head.kind)
    return replace(inputs, notes=(*inputs.notes, note)) if note else inputs


def head_title(model_trace: Trace, focus: Focus) -> str:
    kind = f"{focus.head.kind} " if len(model_trace.kinds) > 1 else ""
    return f"{model_trace.model} · {kind}{focus.head.name}"


def head_inputs(focus: Focus, calls: Sequence[LinearCall], title: str) -> ExampleInputs:
    """Return the matrices and settings of the head `focus.head`, from which a worked example is computed."""
    head = focus.head
    if head.head is None:  # the average over the heads of a layer
        raise InputError(f"{head.name} is an average of heads, which is not computed from a query; name a head.")
    steps = head.pattern.steps(batch=0, head=head.number)
    score = head.pattern.score
    query = steps.query @ score.weight if isinstance(score, General) else steps.query
    parts = {"Q": query, "K": steps.key, "V": steps.value}
    projections = {name: find_projection(part, calls) for name, part in parts.items()}
    matrices = projected_matrices(projections)
    notes: tuple[str, ...] = ()
    if matrices is None:
        matrices = {name: as_matrix(part) for name, part in parts.items()}
        notes = (GENERAL_NOTE if isinstance(score, General) else direct_note(projections),)
    output = find_output_parameters(steps.context.detach(), head.number, calls)
    if output is not None:
        matrices["W_o"] = as_matrix(output)
    is_cross_attention = head.kind == "cross"
    return ExampleInputs(
        title=title,
        source="one head of a model, recomputed in float64 from the head's inputs",
        matrices=matrices,
        tokens=head.queries,
        memory_tokens=head.keys if is_cross_attention else None,
        **head_scores(head),
        mask=head_mask(head),
        **head_softmax(head),
        notes=notes,
    )


def projected_matrices(projections: dict[str, Projection | None]) -> dict[str, Matrix] | None:
    """Return x, W_q, W_k, W_v and the biases by name, and "memory" if the input of K and V is not that of Q.

    None if no linear layer was found for Q, K or V, or if the inputs of K and V differ.
    """
    query, key, value = projections["Q"], projections["K"], projections["V"]
    if query is None or key is None or value is None or not torch.equal(key.source, value.source):
        return None
    matrices = {"x": as_matrix(query.source)}
    if not torch.equal(query.source, key.source):
        matrices["memory"] = as_matrix(key.source)
    for letter, projection in (("q", query), ("k", key), ("v", value)):
        matrices[f"W_{letter}"] = as_matrix(projection.parameters)
        if projection.bias is not None:
            matrices[f"b_{letter}"] = as_matrix(projection.bias)
    return matrices


def direct_note(projections: dict[str, Projection | None]) -> str:
    not_found = [name for name, projection in projections.items() if projection is None]
    reason = "K and V come from different inputs here"
    if not_found:
        predicate = "is not a plain product" if len(not_found) == 1 else "are not plain products"
        reason = f"{joined_names(not_found)} {predicate} x W here (positions or norms come in between)"
    return f"{reason}, so the numbers start from the Q, K and V that the attention got."


# The score, the mask and the softmax of a model's head, as arguments of `ExampleInputs`


def head_scores(head: Head) -> dict[str, Any]:
    """Return scale, softcap and bias of a head as keyword arguments of `ExampleInputs`."""
    score = head.pattern.score
    if isinstance(score, General):
        return {"scale": 1.0}
    if not isinstance(score, ScaledDot):
        name = type(score.score if isinstance(score, Prepared) else score).__name__
        raise InputError(
            f"{head.name} computes its scores by {name}, but `regard explain` works out only dot products; "
            "`regard look` shows its weights."
        )
    d_key = head.pattern.query.shape[-1]
    is_default = score.scale is None or abs(score.scale * d_key**0.5 - 1) < 1e-6
    grid, device = head.pattern.grid, head.pattern.device
    bias = None
    if score.bias is not None:
        bias = as_matrix(head_part(head, numbers_of_bias(score.bias, grid.whole(), device)))[None]
    return {"scale": None if is_default else score.scale, "softcap": score.softcap, "bias": bias}


def head_mask(head: Head) -> Bool[np.ndarray, "queries keys"] | None:
    """Return the mask of a head, True = may attend; None = every query may attend to every key."""
    if head.pattern.mask is None:
        return None
    mask = head_part(head, keep_of_tile(head.pattern.mask, head.pattern.grid.whole(), head.pattern.device)).numpy()
    return None if mask.all() else mask


def head_softmax(head: Head) -> dict[str, Any]:
    """Return temperature and sinks of a head as keyword arguments of `ExampleInputs`."""
    normalise = head.pattern.normalise
    if not isinstance(normalise, Softmax):
        raise InputError(
            f"{head.name} computes its weights by {normalise!r}, but `regard explain` works out only softmax; "
            "`regard look` shows its weights."
        )
    sinks = None if normalise.sinks is None else (float(normalise.sinks[head.number]),)
    return {"temperature": normalise.temperature, "sinks": sinks}


def head_part(head: Head, tensor: Tensor) -> Float[Tensor, "queries keys"] | Bool[Tensor, "queries keys"]:
    """Return the matrix of one head from a tensor that can be broadcast to [batch heads queries keys]."""
    grid = head.pattern.grid
    return tensor.detach().expand(grid.shape)[0, head.number].cpu()


def as_matrix(tensor: Float[Tensor, "_ _"]) -> Matrix:
    return tensor.detach().cpu().double().numpy()
