"""Run a Hugging Face model on a text and record every attention step: `regard.trace`."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.attention.attend import Attended
from regard.attention.representation import type_name
from regard.errors import InputError, first_paragraph
from regard.tracing.encoding import check_reads_text, encode, is_causal
from regard.tracing.huggingface import RecordedStep, installed
from regard.tracing.model_loading import load, load_tokenizer, model_name
from regard.tracing.trace import AttentionSteps, Trace, missing_layer_error

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OUTPUT_NAMES = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
"""For each kind of attention, the name of the output in which an encoder-decoder returns its patterns."""


def trace(
    model: "PreTrainedModel | str | Path",
    text: str,
    *,
    target: str | None = None,
    tokenizer: Any = None,
    layers: Collection[int] | None = None,
    truncate: bool = False,
) -> Trace:
    """Run a Hugging Face model on a text and record every layer's attention pattern.

    Args:
        model: a loaded model, or the name or folder of one.
        target: the text that the decoder of an encoder-decoder reads; other models take none.
        tokenizer: None = the tokenizer that belongs to the model's name.
        layers: the numbers of the layers to keep, counted from 0; None = all layers that have attention.
        truncate: cut off a text that is longer than the model reads, instead of raising.

    Raises:
        InputError: the text is blank, not UTF-8 or longer than the model reads; the tokenizer has another vocabulary; a
            layer does not exist; the model reads no text, or its attention cannot be recorded.
        TypeError: the text is not a str, or the model or the tokenizer is an object of another kind.
    """
    if tokenizer is not None and not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise TypeError(
            f"tokenizer is {type_name(tokenizer)}; it takes what AutoTokenizer.from_pretrained gives, or None for the "
            "model's own."
        )
    if isinstance(model, str | Path):
        loaded = load(str(model))
        name, model, tokenizer = loaded.name, loaded.model, tokenizer or loaded.tokenizer
    else:
        check_reads_text(model)
        name, tokenizer = model_name(model), tokenizer or load_tokenizer(model.name_or_path)
    inputs, source, target_tokens = encode(model, tokenizer, text, target, truncate)
    with installed(model) as recorded, torch.no_grad():
        outputs = run_model(model, inputs)
    steps = steps_by_kind(model, outputs, recorded)
    check_no_nan(name, steps)
    result = Trace(
        model=name,
        text=text,
        target_text=target or "",
        source=source,
        target=target_tokens,
        attended=select_layers(steps, layers),
    )
    check_shapes(result)
    return result


def run_model(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor]) -> Any:
    """Return the model's outputs for an encoded text.

    Raises:
        InputError: the model raised an error, for instance because it needs more than a text.
    """
    try:
        return model(**inputs, output_attentions=True, return_dict=True)
    except InputError:
        raise
    except Exception as error:  # the model's code may raise any exception
        raise InputError(f"{type(model).__name__} could not read the text: {first_paragraph(error)}.") from error


def steps_by_kind(model: "PreTrainedModel", outputs: Any, recorded: list[RecordedStep]) -> AttentionSteps:
    """Return the recorded attention calls by kind (encoder, decoder, cross) and layer.

    A call is found by its pattern, which transformers has put into the output for its kind.

    Raises:
        InputError: the outputs lack the patterns of some kind.
    """
    names = dict(OUTPUT_NAMES)
    if not model.config.is_encoder_decoder:
        names = {"decoder" if is_causal(model) else "encoder": "attentions"}
    steps = {id(step.attended.pattern): step for step in recorded}
    kinds = {kind: getattr(outputs, name, None) or () for kind, name in names.items()}
    missing = [kind for kind, patterns in kinds.items() if not patterns or any(id(p) not in steps for p in patterns)]
    if missing:
        raise InputError(
            f"{type(model).__name__} did not hand out its {' and '.join(missing)} attention, so it cannot be seen."
        )
    return {kind: steps_by_layer([steps[id(p)] for p in patterns]) for kind, patterns in kinds.items()}


def steps_by_layer(steps: Sequence[RecordedStep]) -> dict[int, Attended]:
    """Return attention calls by layer number: their modules' `layer_idx` if all have one and these rise, else 0, 1, …

    The numbers have gaps where layers of the model have no attention.
    """
    indices = [step.layer for step in steps if step.layer is not None]
    is_usable = len(indices) == len(steps) and indices == sorted(set(indices))
    numbers = indices if is_usable else range(len(steps))
    return {number: step.attended for number, step in zip(numbers, steps, strict=True)}


def select_layers(steps: AttentionSteps, layers: Collection[int] | None) -> AttentionSteps:
    """Return the attention calls of the given layers, by kind and layer; None = all layers.

    Raises:
        InputError: `layers` is empty, or names a layer that does not exist.
    """
    existing = sorted({layer for by_layer in steps.values() for layer in by_layer})
    wanted = existing if layers is None else layers
    if not wanted:
        raise InputError(
            f"no layer was asked for; name some from {min(existing)} to {max(existing)}, or give layers=None."
        )
    for layer in wanted:
        if layer not in existing:
            raise missing_layer_error(layer, existing, "trace")
    return {kind: {n: step for n, step in by_layer.items() if n in wanted} for kind, by_layer in steps.items()}


def check_shapes(trace: Trace) -> None:
    """Raise InputError if a layer does not have one query and one key for each token of its texts."""
    for kind in trace.kinds:
        for head in trace.heads(kind):
            n_tokens, n_positions = (len(head.queries), len(head.keys)), tuple(head.pattern.shape[2:])
            if n_positions != n_tokens:
                raise InputError(
                    f"{trace.model} has {n_positions[0]} queries and {n_positions[1]} keys in {kind} layer "
                    f"{head.layer}, and {n_tokens[0]} and {n_tokens[1]} tokens; a trace needs a token for each query "
                    "and key. regard.install(model) gives the patterns without tokens."
                )


def check_no_nan(name: str, steps: AttentionSteps) -> None:
    """Raise InputError if a query, key or value has a NaN; the message names the first such layer."""
    for kind, by_layer in steps.items():
        for layer, step in by_layer.items():
            for part in ("query", "key", "value"):
                if bool(getattr(step.pattern, part).isnan().any()):
                    raise InputError(
                        f"{name} gives NaN in the {part} of {kind} layer {layer}; its parameters are damaged, or too "
                        "small a number type overflows: load it in float32."
                    )
