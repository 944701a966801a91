"""Run a Hugging Face model on a text and record every attention step: `regard.trace`."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.attention.attend import Attended
from regard.attention.representation import type_name
from regard.errors import InputError, first_words
from regard.tracing.encoding import check_reads_text, encode, is_causal
from regard.tracing.huggingface import RecordedStep, installed
from regard.tracing.model_loading import load, load_tokenizer, model_name
from regard.tracing.trace import AttentionSteps, Trace, no_layer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OUTPUT_NAMES = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
"""The output of an encoder-decoder that holds the patterns of each kind of attention."""


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
        target: the text on the decoder's side; an encoder-decoder needs it, other models refuse it.
        tokenizer: None = the tokenizer that belongs to the model's name.
        layers: the layers to keep, by the model's own numbers, from 0; None = all layers that have attention.
        truncate: read only as many tokens of the text as the model takes, instead of refusing a longer text.

    Raises:
        InputError: the text is empty, not UTF-8 or longer than the model takes; the tokenizer has another vocabulary;
            a layer does not exist; the model reads no text, or its attention cannot be recorded.
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
    """Return the outputs of a model that reads a text.

    Raises:
        InputError: the model raised an error, for instance because it needs more than a text.
    """
    try:
        return model(**inputs, output_attentions=True, return_dict=True)
    except InputError:
        raise
    except Exception as error:  # the model's code is not regard's: any exception may come out of it
        raise InputError(f"{type(model).__name__} could not read the text: {first_words(error)}.") from error


def steps_by_kind(model: "PreTrainedModel", outputs: Any, recorded: list[RecordedStep]) -> AttentionSteps:
    """Return every attention step by kind and layer, found by the patterns that transformers put into the outputs.

    Raises:
        InputError: the outputs lack the patterns of some kind of attention.
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
    """Return attention steps by layer: by their modules' numbers if these are distinct and rise, else from 0.

    The numbers have gaps where some of the model's layers have no attention.
    """
    own = [step.layer for step in steps if step.layer is not None]
    numbers = own if len(own) == len(steps) and own == sorted(set(own)) else range(len(steps))
    return {number: step.attended for number, step in zip(numbers, steps, strict=True)}


def select_layers(steps: AttentionSteps, layers: Collection[int] | None) -> AttentionSteps:
    """Return the attention steps of some layers, of each kind that has these layers; None = all layers.

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
            raise no_layer(layer, existing, "trace")
    return {kind: {n: step for n, step in by_layer.items() if n in wanted} for kind, by_layer in steps.items()}


def check_shapes(trace: Trace) -> None:
    """Raise InputError if a layer attends to other positions than the text's tokens; the message names the layer."""
    for kind in trace.kinds:
        for head in trace.heads(kind):
            tokens, places = (len(head.queries), len(head.keys)), tuple(head.pattern.shape[2:])
            if places != tokens:
                raise InputError(
                    f"{trace.model} attends from {places[0]} to {places[1]} places in {kind} layer {head.layer}, where "
                    f"the text has {tokens[0]} and {tokens[1]} tokens; a trace names places by their tokens. "
                    "regard.install(model) gives the patterns themselves."
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
