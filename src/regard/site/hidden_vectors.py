"""The hidden vectors of a model's layers as outputs of an ONNX graph; the page shows how each layer changes them.

The modules that compute the vectors of a text model are found in one run of the model. While the graph is made, forward
hooks on the modules record the vectors.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.site.block_names import HIDDEN, block_name
from regard.tracing.watching.layer_states import (
    LayerPaths,
    StatesNotFoundError,
    layer_input,
    layer_output,
    recording_states,
)
from regard.tracing.watching.watching import watching
from regard.transformer.model import Transformer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Layer = tuple[str, int]
"""The kind of attention ("encoder" or "decoder") of a layer, and its number from 0."""


def layer_paths(model: "PreTrainedModel", kind: str, ids: Int[Tensor, "1 tokens"]) -> dict[Layer, LayerPaths]:
    """Return, for each layer of a text model, the paths of its modules, such as "encoder.layer.3".

    To find the modules, the model reads `ids` (any text) once; the dict is empty if a module is not found. `kind` is
    "encoder", or "decoder" for a causal model.
    """
    with torch.no_grad(), watching(model) as watched, recording_states(model, watched) as recorder:
        model(input_ids=ids)
    try:
        return {(kind, step.layer): recorder.paths_of(step) for step in watched.steps if step.layer is not None}
    except StatesNotFoundError:
        return {}


def translator_paths(model: Transformer, kind: str) -> dict[Layer, LayerPaths]:
    """Return, for each layer of a translator's "encoder" or "decoder", the paths of its modules."""
    blocks = [f"{kind}.blocks.{number}" for number in range(len(getattr(model, kind).blocks))]
    return {
        (kind, number): LayerPaths(
            layer=block, projection=f"{block}.self_attention.to_output", feed_forward=f"{block}.feed_forward.narrow"
        )
        for number, block in enumerate(blocks)
    }


@contextmanager
def recording_hidden(model: nn.Module, paths: Mapping[Layer, LayerPaths]) -> Iterator[dict[str, Tensor]]:
    """Within the with-block, record the hidden vectors of each run of a model in the yielded dict.

    The keys of the dict are names such as "encoder layer 0 before"; each tensor has the axes [batch 1 tokens d_model].
    """
    recorded: dict[str, Tensor] = {}

    def store(layer: Layer, part: str, vectors: Tensor | None) -> None:
        assert vectors is not None  # `paths` contains only layers whose input and output are tensors
        recorded[block_name(*layer, part)] = vectors[:, None]

    def store_feed_forward(layer: Layer, output: Any) -> None:
        before, vectors = recorded[block_name(*layer, "before")], layer_output(output)
        assert vectors is not None
        recorded[block_name(*layer, "feed_forward")] = vectors.view_as(before)

    def hooks(layer: Layer, modules: LayerPaths) -> Iterator[Any]:
        module = model.get_submodule
        yield module(modules.layer).register_forward_pre_hook(
            lambda _, args, kwargs: store(layer, "before", layer_input(args, kwargs)), with_kwargs=True
        )
        yield module(modules.projection).register_forward_hook(
            lambda _, args, output: store(layer, "attention", output)
        )
        yield module(modules.feed_forward).register_forward_hook(
            lambda _, args, output: store_feed_forward(layer, output)
        )
        yield module(modules.layer).register_forward_hook(
            lambda _, args, output: store(layer, "after", layer_output(output))
        )

    with ExitStack() as stack:
        for layer, modules in paths.items():
            for handle in hooks(layer, modules):
                stack.callback(handle.remove)
        yield recorded


def hidden_names(paths: Mapping[Layer, LayerPaths]) -> list[str]:
    """Return the names of the hidden vectors (`HIDDEN`) of all layers, such as "encoder layer 0 before"."""
    return [block_name(*layer, part) for layer in paths for part in HIDDEN]
