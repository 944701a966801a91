"""A model as an ONNX graph, from which a page takes the queries, keys and values of every layer.

    inputs     ids          [1 tokens]           the tokens of one text
               cut          [queries keys]       True where a changed head may not attend
               changed      [layers heads]       True = the head is changed
               temperature  [layers heads]       what the head's scores are divided by
    outputs    output       the model's own, such as its last hidden state
               "encoder layer 0 query", … key, value     [1 heads tokens width], for each layer

transformers calls one attention function for every layer: `recorded_attention`, while the graph is made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.export.onnx import write_graph

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "regard_site"
"""The name under which transformers knows the attention function `recorded_attention`."""

MASKED = -1e30
"""The score of a query for a key that it may not attend to; finite, since a row of -inf alone would give NaN."""

PARTS = "query", "key", "value"


@dataclass(frozen=True, slots=True)
class Recorder:
    """The changes to heads that `recorded_attention` applies, and the query, key and value tensors of each layer."""

    cut: Bool[Tensor, "queries keys"]
    changed: Bool[Tensor, "layers heads"]
    temperature: Float[Tensor, "layers heads"]
    steps: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)


RECORDER: ContextVar[Recorder] = ContextVar("recorder")


def recorded_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **settings: Any
) -> tuple[Float[Tensor, "batch queries heads width"], None]:
    """Compute a layer's attention with the recorder's changes; record query, key and value; return the context.

    transformers calls this function. Every query attends to every key: the model reads one text without padding.
    """
    recorder = RECORDER.get()
    layer = len(recorder.steps)
    recorder.steps.append((query, key, value))
    scale = settings.get("scaling") or query.shape[-1] ** -0.5
    scores = query @ key.transpose(-1, -2) * scale / recorder.temperature[layer][:, None, None]
    cut = recorder.cut & recorder.changed[layer][:, None, None]
    weights = torch.softmax(scores.masked_fill(cut, MASKED), dim=-1).masked_fill(cut, 0.0)
    return (weights @ value).transpose(1, 2).contiguous(), None


class Graph(nn.Module):
    """A model whose outputs are tensors: its own output, then the query, key and value of each layer."""

    def __init__(self, model: "PreTrainedModel") -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: Int[Tensor, "1 tokens"],
        cut: Bool[Tensor, "tokens tokens"],
        changed: Bool[Tensor, "layers heads"],
        temperature: Float[Tensor, "layers heads"],
    ) -> tuple[Tensor, ...]:
        recorder = Recorder(cut, changed, temperature)
        token = RECORDER.set(recorder)
        try:
            output = self.model(input_ids=ids, return_dict=True)[0]
        finally:
            RECORDER.reset(token)
        return output, *(part for step in recorder.steps for part in step)


@contextmanager
def recording(model: "PreTrainedModel") -> Iterator[None]:
    """Within a `with` block, the model's attention is `recorded_attention`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, recorded_attention)
    AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def block_name(kind: str, layer: int, part: str) -> str:
    """Return the name of a layer's array in the page's data, such as "encoder layer 0 query".

    Args:
        kind: the kind of attention: "encoder", "decoder" or "cross".
        part: "query", "key" or "value".
    """
    return f"{kind} layer {layer} {part}"


def write_model(model: "PreTrainedModel", layers: list[int], n_heads: int, max_tokens: int, path: Path) -> None:
    """Write a model as an ONNX graph.

    Args:
        layers: the numbers of the layers, in the order in which the model computes them.
        max_tokens: the most tokens of a text.
    """
    n_example = 7
    changes = [len(layers), n_heads]
    inputs = {"ids": [1, "tokens"], "cut": ["tokens", "tokens"], "changed": changes, "temperature": changes}
    outputs = {"output": None} | {block_name("encoder", layer, part): None for layer in layers for part in PARTS}
    example = (
        torch.arange(n_example)[None],
        torch.zeros(n_example, n_example, dtype=torch.bool),
        torch.zeros(changes, dtype=torch.bool),
        torch.ones(changes),
    )
    with recording(model):
        write_graph(Graph(model), example, inputs, outputs, max_tokens, path)
