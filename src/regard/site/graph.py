"""A model as an ONNX graph, from which the page of a site takes the queries, keys and values of every layer.

    inputs     ids          [1 tokens]           the tokens of one text
               cut          [queries keys]       True = the query may not attend to the key, in the heads that are True
                            in `changed`
               changed      [layers heads]       True = `cut` applies to the head
               temperature  [layers heads]       the number that divides the head's scores

A causal model has further inputs:

               places       [logits]             the indices in `ids` of the tokens after which logits are computed
               "past decoder layer 0 key", "past decoder layer 0 value"     [1 heads past width], for each layer: the
                            keys and values of the tokens that the model has read before `ids`; their number, `past`,
                            may be 0

    outputs    output       the last hidden state [1 tokens d_model] of an encoder; or the logits [1 logits vocabulary]
                            of a causal model, which predict the token after each token in `places`
               "encoder layer 0 query", … key, value     [1 heads tokens width], for each layer; for a causal model
                            "decoder layer 0 query", …, whose keys and values may have fewer heads than its queries
               "encoder layer 0 before", … attention, feed_forward, after     [1 1 tokens d_model], for each layer: its
               input, the vectors that attention and feed-forward add, its output; missing if no modules were found

While the graph is made, transformers calls `recorded_attention` as the attention function of every layer.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.pattern import Pattern
from regard.export.onnx import write_graph
from regard.export.transformer_graphs import Axes, Graph
from regard.site.block_names import PARTS, block_name
from regard.site.hidden_vectors import Layer, hidden_names, layer_paths, recording_hidden
from regard.tracing.watching.layer_states import LayerPaths

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "regard_site"
"""The name under which transformers knows the attention function `recorded_attention`."""

MASKED = -1e30
"""The score of a query on a key that it may not attend to; finite, since a row of -inf alone would give NaN."""

PAST = "past "
"""The inputs with the cached keys and values of earlier tokens have names that begin with this word."""

EXAMPLE_TOKENS, EXAMPLE_PAST = 7, 3
"""The numbers of tokens, and of cached tokens before them, with which the exporter traces a model."""


@dataclass(frozen=True, slots=True)
class RunState:
    """The changes to apply in one run of a model, and a list for the vectors that `recorded_attention` records.

    Attributes:
        masked: True = no head's query may attend to the key; None = every query may attend to every key.
        cut: True = the query may not attend to the key, in the heads that are True in `changed`.
        temperature: the divisor of the scores of each head.
        past: the cached tokens' keys in the first layer, their values in it, their keys in the second layer, and so on;
            empty = the graph has no cache.
        layer_vectors: the query, key and value of each layer that has run.
    """

    masked: Bool[Tensor, "queries keys"] | None
    cut: Bool[Tensor, "queries keys"]
    changed: Bool[Tensor, "layers heads"]
    temperature: Float[Tensor, "layers heads"]
    past: tuple[Tensor, ...] = ()
    layer_vectors: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)


RUN_STATE: ContextVar[RunState] = ContextVar("run_state")
"""The state of the present run, which `recorded_attention` cannot get as an argument."""


def recorded_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **settings: Any
) -> tuple[Float[Tensor, "batch queries heads width"], None]:
    """Compute a layer's attention with the changes in `RUN_STATE`, and return (output, None), as transformers expects.

    The query, key and value are added to `RUN_STATE`. The model reads one text without padding. In a causal model,
    several heads of the query may share a head of key and value. Of transformers' `settings` only "scaling" is used.
    """
    state = RUN_STATE.get()
    layer = len(state.layer_vectors)
    state.layer_vectors.append((query, key, value))
    blocked: Bool[Tensor, "heads queries keys"] = state.cut & state.changed[layer][:, None, None]
    if state.masked is not None:
        blocked = blocked | state.masked
    if state.past:
        past_key, past_value = state.past[2 * layer : 2 * layer + 2]
        key, value = torch.cat([past_key, key], dim=2), torch.cat([past_value, value], dim=2)
        cached_keys_blocked = blocked.new_zeros(*blocked.shape[:2], past_key.shape[2])  # False everywhere
        blocked = torch.cat([cached_keys_blocked, blocked], dim=2)
    n_sharing = query.shape[1] // key.shape[1]
    if n_sharing > 1:
        key, value = (part.repeat_interleave(n_sharing, dim=1) for part in (key, value))
    scale = settings.get("scaling") or query.shape[-1] ** -0.5
    scores = query @ key.transpose(-1, -2) * scale / state.temperature[layer][:, None, None]
    weights = torch.softmax(scores.masked_fill(blocked, MASKED), dim=-1)
    weights = weights.masked_fill(blocked, 0.0)  # softmax gives weights above 0 if all keys of a query are blocked
    return (weights @ value).transpose(1, 2).contiguous(), None


class TextEncoderGraph(nn.Module):
    """An encoder; outputs: the last hidden state, each layer's query, key and value, each layer's hidden vectors."""

    def __init__(self, model: "PreTrainedModel", paths: Mapping[Layer, LayerPaths]) -> None:
        super().__init__()
        self.model = model
        self.paths = paths

    def forward(
        self,
        ids: Int[Tensor, "1 tokens"],
        cut: Bool[Tensor, "tokens tokens"],
        changed: Bool[Tensor, "layers heads"],
        temperature: Float[Tensor, "layers heads"],
    ) -> tuple[Tensor, ...]:
        return self.run(RunState(masked=None, cut=cut, changed=changed, temperature=temperature), ids)

    def run(self, state: RunState, ids: Int[Tensor, "1 tokens"], **settings: Any) -> tuple[Tensor, ...]:
        """Run the model with the changes in `state`; return its output, then the vectors of its layers.

        The output is the last hidden state of an encoder, or the logits of a causal model. The vectors of the layers
        are first the query, key and value of each layer, then the hidden vectors of each layer in `paths`. `settings`
        are arguments of the model.
        """
        token = RUN_STATE.set(state)
        try:
            with recording_hidden(self.model, self.paths) as hidden_vectors:
                output = self.model(input_ids=ids, return_dict=True, **settings)[0]
        finally:
            RUN_STATE.reset(token)
        vectors = [part for layer in state.layer_vectors for part in layer]
        return output, *vectors, *(hidden_vectors[name] for name in hidden_names(self.paths))


class CausalGraph(TextEncoderGraph):
    """A causal language model; outputs: logits, each layer's query, key and value, each layer's hidden vectors."""

    def forward(  # type: ignore[override]
        self,
        ids: Int[Tensor, "1 tokens"],
        cut: Bool[Tensor, "tokens tokens"],
        changed: Bool[Tensor, "layers heads"],
        temperature: Float[Tensor, "layers heads"],
        places: Int[Tensor, " logits"],
        past: tuple[Tensor, ...],
    ) -> tuple[Tensor, ...]:
        masked = torch.ones_like(cut).triu(diagonal=1)  # True for the keys after each query
        n_past = past[0].shape[2]
        positions = torch.arange(n_past, n_past + ids.shape[1])[None]
        state = RunState(masked, cut, changed, temperature, past)
        return self.run(state, ids, position_ids=positions, use_cache=False, logits_to_keep=places)


@contextmanager
def recording(model: "PreTrainedModel") -> Iterator[None]:
    """Within the with-block, make a model compute its attention by `recorded_attention`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, recorded_attention)
    # transformers makes no mask, because `recorded_attention` uses the mask in `RunState`
    AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)
    implementation = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(implementation)


def write_model(model: "PreTrainedModel", kind: str, layers: dict[int, Pattern], max_tokens: int, path: Path) -> None:
    """Write a model as an ONNX graph.

    Args:
        kind: "encoder", or "decoder" for a causal language model.
        layers: {layer: its attention to any text} in the order of computation; only the shapes are used.
        max_tokens: the largest number of tokens of a text.
    """
    n_tokens = min(EXAMPLE_TOKENS, max_tokens)
    ids = torch.arange(n_tokens)[None]
    paths = layer_paths(model, kind, ids)
    all_heads = [len(layers), next(iter(layers.values())).n_heads]
    inputs: dict[str, Axes] = {
        "ids": [1, "tokens"],
        "cut": ["tokens", "tokens"],
        "changed": all_heads,
        "temperature": all_heads,
    }
    example: list[Tensor | tuple[Tensor, ...]] = [
        ids,
        torch.zeros(n_tokens, n_tokens, dtype=torch.bool),
        torch.zeros(all_heads, dtype=torch.bool),
        torch.ones(all_heads),
    ]
    graph = TextEncoderGraph(model, paths)
    if kind == "decoder":
        graph = CausalGraph(model, paths)
        past = past_axes(kind, layers)
        inputs |= {"places": ["logits"]} | past
        example.append(torch.arange(n_tokens - 2, n_tokens))  # two places: the exporter would keep a size of 1 fixed
        example.append(tuple(torch.zeros(1, heads, EXAMPLE_PAST, width) for _, heads, _, width in past.values()))
    names = ["output", *(block_name(kind, layer, part) for layer in layers for part in PARTS), *hidden_names(paths)]
    # `write_graph` uses only the names of the outputs, and not their axes
    outputs: dict[str, Axes] = dict.fromkeys(names, ())
    with recording(model):
        write_graph(Graph(module=graph, example=tuple(example), inputs=inputs, outputs=outputs), max_tokens, path)


def past_axes(kind: str, layers: Mapping[int, Pattern]) -> dict[str, list[Any]]:
    """Return the axes of each input with cached keys or values: a number for a fixed size, a name for any size."""
    return {
        f"{PAST}{block_name(kind, layer, part)}": [1, vectors.shape[1], "past", vectors.shape[3]]
        for layer, pattern in layers.items()
        for part, vectors in (("key", pattern.key), ("value", pattern.value))
    }
