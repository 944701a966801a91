"""Runs a Hugging Face model on a text, pictures or a recording, and records its attention: `regard.trace`."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch

from regard.attention.ask import Ask
from regard.attention.attend import Attended
from regard.attention.representation import type_name
from regard.effects.changes import Change, check_list_of_changes
from regard.effects.interchange import Interchange
from regard.errors import InputError, first_paragraph
from regard.tracing.media.media import Media, read_pictures
from regard.tracing.media.picture_layout import PADDING
from regard.tracing.media.recording import read_audio
from regard.tracing.media.wave_file import read_wave
from regard.tracing.model_input import read_medium, read_text, with_generated
from regard.tracing.model_loading import (
    LoadedModel,
    load,
    load_media_model,
    load_processor,
    load_tokenizer,
    model_name,
)
from regard.tracing.recorded_layers import check_no_nan, select_layers, steps_by_kind
from regard.tracing.tokens.encoding import check_is_pretrained, check_reads_text
from regard.tracing.tokens.id_tokens import IdTokens
from regard.tracing.tokens.prompt import is_ids, prompt_of
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.trace import Trace
from regard.tracing.watching.changing import changed
from regard.tracing.watching.huggingface import installed, needs_installing
from regard.tracing.watching.joined_calls import in_one_sequence
from regard.tracing.watching.layer_states import recording_states
from regard.tracing.watching.shifted_windows import ShiftedWindows, recording_windows, windows_around
from regard.tracing.watching.watched import Watched, WatchedStep
from regard.tracing.watching.watching import recording

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

RUNNING = RLock()
"""A lock that is held while a model is traced: only one thread at a time may change a model's mode and functions."""


def trace(
    model: "PreTrainedModel | str | Path",
    text: "str | Sequence[Mapping[str, Any]] | Sequence[int] | torch.Tensor | None" = None,
    *,
    target: str | None = None,
    tokenizer: Any = None,
    layers: Collection[int] | None = None,
    truncate: bool = False,
    changes: Sequence[Change] = (),
    keep: Collection[str] = (),
    ask: Ask | None = None,
    new_tokens: int | None = None,
    generation: "GenerationConfig | None" = None,
    images: Any = None,
    video: Any = None,
    fps: float | None = None,
    audio: Any = None,
    sampling_rate: int = 16_000,
    processor: Any = None,
) -> Trace:
    """Run a Hugging Face model on a text, pictures or a recording and record every layer's attention pattern.

    Args:
        model: a loaded model, or the name or folder of one.
        text: a text; or the messages of a chat, such as [{"role": "user", "content": "Hello"}]; or token ids. With
            `new_tokens`, the model generates the next message of a chat.
        target: the text that the decoder of an encoder-decoder reads; other models take none.
        tokenizer: None = the tokenizer that belongs to the model's name; a model without a name reads token ids, whose
            tokens are shown as [17].
        layers: the numbers of the layers to keep, counted from 0; None = all layers that have attention.
        truncate: whether to cut off a text that is longer than the model can read, instead of raising InputError.
        changes: changes to the attention of heads: `Cut`, `Silence`, `Sharpen` and `Interchange` objects; tokens are
            given by their texts or positions.
        keep: ("hidden",) = also record the vectors of the tokens before, inside and after each layer, which
            `Head.contributions`, `Trace.movement` and `Trace.rollout` with flow=VectorLengths() need.
        ask: for long texts, store these statistics of every layer instead of queries, keys and values: the trace then
            has the statistics that `ask` requests, but no single weights, and the model's outputs may differ by
            rounding. None = store queries, keys and values.
        new_tokens: let the model generate up to this many tokens: they continue the text, or are the target of an
            encoder-decoder. The attention over the whole text is recorded; `trace.written` has the generated tokens
            with their probabilities. None = generate nothing.
        generation: how the model generates, a GenerationConfig of transformers; None = the model's own
            generation_config.
        images: a picture that the model reads (an image of Pillow, an array, or the path of a file), or a list of
            pictures, alone or beside the text; the tokens of the trace have the positions of their patches. In models
            for pictures and text, the kind "encoder" is the attention among patches, and "decoder" the attention of
            text and pictures together.
        video: a list of the frames of a video that the model reads, as pictures of the same size.
        fps: how many frames per second the video has; the tokens of the trace then have the times of their
            frames too, and a model that reads times, such as Qwen2.5-VL, gets them. None = not known.
        audio: the waveform of a recording that the model reads, numbers from -1 to 1, or the path of a WAV file; the
            tokens of the trace have the times of their frames.
        sampling_rate: how many numbers per second the waveform has; a WAV file has its own rate.
        processor: the processor for pictures or recordings; None = the processor that belongs to the model's name.

    Raises:
        InputError: the text is blank, not UTF-8 or longer than the model reads; the tokenizer has another vocabulary; a
            layer, or a head or token of a change, does not exist; the model reads no text, or its attention cannot be
            recorded; or the parts of its layers that `keep` asks for are not found.
        TypeError: the text is not a str, or the model, the tokenizer or `ask` is an object of another kind.
    """
    n_media = sum(medium is not None for medium in (images, video, audio))
    generates = new_tokens is not None or generation is not None
    check_list_of_changes(changes)
    check_keep(keep, ask, changes)
    check_arguments(text, target, tokenizer, n_media, generates)
    if fps is not None and video is None:
        raise InputError(f"fps={fps!r} is the frames per second of a video; give the frames too, with video=….")
    if fps is not None and not 0 < fps < math.inf:
        raise InputError(f"fps={fps!r} is not a number of frames per second; give a number above 0.")
    if isinstance(audio, str | Path):
        audio, sampling_rate = read_wave(Path(audio))
    medium: Media | None = None
    if n_media:
        if isinstance(model, str | Path):
            model = load_media_model(str(model), generates)
        check_is_pretrained(model)
        processor = processor or load_processor(model.name_or_path)
        tokenizer = tokenizer or getattr(processor, "tokenizer", None) or IdTokens()
        if audio is None:
            medium = read_pictures(model, processor, images, video, fps, str(text or ""))
        else:
            medium = read_audio(model, processor, audio, sampling_rate, str(text or ""))
    else:
        loaded = loaded_for_text(model, text, target, tokenizer, generates)
        model, tokenizer = loaded.model, loaded.tokenizer
    name = model_name(model)
    with evaluating(model):
        if medium is not None:
            model_input = read_medium(model, medium, target, tokenizer, generates, changes)
        else:
            prompt = prompt_of(tokenizer, text, generates=generates)
            model_input = read_text(model, tokenizer, prompt, target, truncate, generates, changes)
        if generates:
            model_input = with_generated(model, tokenizer, model_input, new_tokens, generation)
        with (
            recording_windows(model) as windows,  # of pictures, in models such as Swin
            recording(model, Watched(), ask, windows) as watched,
            recording_states(model, watched) if keep else nullcontext() as recorder,
            changed(model, model_input.changes),
        ):
            outputs = run_model(model, model_input.inputs)
    watched_steps = steps_by_kind(model, watched)
    check_no_nan(name, watched_steps)
    selected = select_layers(watched_steps, layers)
    attended = {kind: {n: step.attended for n, step in steps.items()} for kind, steps in selected.items()}
    sources: dict[int, tuple[Token, ...]] = {}
    if medium is not None and "encoder" in selected:
        if medium.target and "decoder" not in selected:  # there is a text, and only one kind of attention
            raise InputError(
                f"{type(model).__name__} reads the text and the patches of the picture as one sequence, so no token "
                "has a known place; regard.watching(model) records the attention without tokens."
            )
        encoder_steps = watched_steps["encoder"]
        last_source, sources, attended["encoder"] = encoder_of_medium(medium, windows, encoder_steps, selected)
        model_input = replace(model_input, source=last_source)
    output = output_of(outputs)
    states = None
    if recorder is not None:
        states = {
            kind: {n: recorder.states_of(step, windows_around(windows, step.path)) for n, step in steps.items()}
            for kind, steps in selected.items()
        }
    result = Trace(
        model=name,
        text=model_input.text if medium is None else str(text or ""),
        target_text=model_input.target_text,
        source=model_input.source,
        sources=sources if any(tokens != model_input.source for tokens in sources.values()) else None,
        target=model_input.target,
        attended=attended,
        output=output,
        changes=model_input.changes,
        states=states,
        written=model_input.written(tokenizer, output),
        images=() if medium is None else medium.images,
        spectrogram=None if medium is None else medium.spectrogram,
    )
    check_shapes(result)
    return result


def check_keep(keep: Collection[str], ask: Ask | None, changes: Sequence[Change]) -> None:
    if not set(keep) <= {"hidden"}:
        raise InputError(f"keep={keep!r}: besides patterns, a trace can only keep=('hidden',).")
    if keep and ask is not None:
        raise InputError(
            "keep=('hidden',) needs the queries and keys, and ask=… keeps statistics in their place; give only one."
        )
    if keep and any(isinstance(change, Interchange) for change in changes):
        raise InputError(
            "keep=('hidden',) computes what each head adds from its weights, and an Interchange replaces what a head "
            "adds; give only one."
        )


def check_arguments(text: Any, target: str | None, tokenizer: Any, n_media: int, generates: bool) -> None:
    if tokenizer is not None and not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise TypeError(
            f"tokenizer is {type_name(tokenizer)}; it takes what AutoTokenizer.from_pretrained gives, or None for the "
            "model's own."
        )
    if target is not None and generates:
        raise InputError("with target the model reads a text, with new_tokens it writes one; give only one of them.")
    if text is None and n_media == 0:
        raise InputError("there is nothing to read; give a text, images=…, video=… or audio=….")
    if n_media > 1:
        raise InputError("a trace is of pictures, a video or a recording; give only one of images=…, video=…, audio=….")
    if isinstance(text, torch.Tensor) and not is_ids(text):
        raise TypeError(
            f"the text is a {text.dtype} tensor of shape {list(text.shape)}; token ids are integers of one text, "
            "[tokens] or [1 tokens]; for several texts call trace for each."
        )
    if n_media and not isinstance(text, str | None):
        raise TypeError(f"beside images=…, video=… or audio=… the text must be a str; got {type_name(text)}.")


def loaded_for_text(
    model: "PreTrainedModel | str | Path", text: Any, target: str | None, tokenizer: Any, generates: bool = False
) -> LoadedModel:
    """Return a model that reads or `generates` text, with its tokenizer; load both if `model` is a name or folder."""
    if isinstance(model, str | Path):
        loaded = load(str(model), generates=generates)
        return replace(loaded, tokenizer=tokenizer or loaded.tokenizer)
    check_reads_text(model)
    if tokenizer is None:
        only_ids = is_ids(text) and target is None and not model.name_or_path
        tokenizer = IdTokens() if only_ids else load_tokenizer(model.name_or_path)
    return LoadedModel(name=model_name(model), model=model, tokenizer=tokenizer)


def encoder_of_medium(
    medium: Media,
    windows: Mapping[str, ShiftedWindows],
    steps: Mapping[int, WatchedStep],
    selected: Mapping[str, Mapping[int, WatchedStep]],
) -> tuple[tuple[Token, ...], dict[int, tuple[Token, ...]], dict[int, Attended]]:
    """Return the tokens and the attention calls of an encoder that reads pictures or a recording.

    The sequences that the encoder reads, such as windows or tiles of a picture, are joined into one sequence.

    Args:
        windows: the windows of each layer that divides pictures into windows, by the layer's path.
        steps: all attention calls of the encoder, by layer number.
        selected: the attention calls that the trace stores (see `layers` of `regard.trace`), by kind and layer number.

    Returns:
        The tokens of the last layer; the tokens of each layer in `selected`; and the attention call of each of these
            layers over all its tokens.
    """
    layers, has_cross = selected["encoder"], bool(selected.get("cross"))
    # Cross-attention reads the last layer of the model. Without cross-attention, the last selected layer counts, or the
    # model's last layer if none is selected.
    last = max(steps) if has_cross or not layers else max(layers)
    tokens_of = cache(medium.source_of)
    sources, attended = {}, {}
    for n in sorted({*layers, last}):
        layer_attended, grids = steps[n].attended, None
        layer_windows = windows_around(windows, steps[n].path) if medium.images else None
        if layer_windows is not None:
            layer_attended = layer_windows.in_rows(layer_attended)  # one picture in place of its windows
            grid = layer_windows.rows, layer_windows.columns
            grids = grid, layer_windows.padded_grid
        n_sequences, _, n_tokens, _ = layer_attended.pattern.shape
        sources[n] = tokens_of(n_sequences, n_tokens, grids)
        attended[n] = in_one_sequence(layer_attended)
    source = sources[last]
    if has_cross:  # padding fills windows of the encoder, and is no key of cross-attention
        source = tuple(token for token in source if token.text != PADDING)
    return source, {n: sources[n] for n in layers}, {n: attended[n] for n in layers}


@contextmanager
def evaluating(model: "PreTrainedModel") -> Iterator[None]:
    """Put a model into evaluation mode, and disable gradients, inside a `with` block; afterwards restore the mode.

    `regard.install` is in effect inside the block if it is necessary to record the model's attention.
    """
    with RUNNING:
        modes = [(module, module.training) for module in model.modules()]
        interface = installed(model) if needs_installing(model) else nullcontext()
        try:
            model.eval()
            with interface, torch.no_grad():
                yield
        finally:
            for module, training in modes:
                module.training = training


def run_model(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor]) -> Any:
    """Return the outputs of a model; convert any error of the model, such as a missing input, to InputError."""
    try:
        return model(**inputs, return_dict=True)
    except InputError:
        raise
    except Exception as error:  # the model's code may raise any exception
        raise InputError(f"{type(model).__name__} could not read its input: {first_paragraph(error)}.") from error


def output_of(outputs: Any) -> torch.Tensor | None:
    """Return a model's logits, or else its last hidden state; None = it has neither, or they have more than 3 axes.

    The axes batch and tokens become one, [1 tokens numbers]. A classifier's logits have no axis of tokens: the result
    then has one row for each text or picture.
    """
    output = next((outputs[name] for name in ("logits", "last_hidden_state") if name in outputs), None)
    if not isinstance(output, torch.Tensor) or output.ndim > 3:
        return None
    return output.reshape(1, -1, output.shape[-1])


def check_shapes(trace: Trace) -> None:
    for kind in trace.kinds:
        for head in trace.heads(kind):
            n_queries, n_keys = head.pattern.shape[2:]
            if (n_queries, n_keys) != (len(head.queries), len(head.keys)):
                raise InputError(
                    f"{trace.model} has {n_queries} queries and {n_keys} keys in {kind} layer {head.layer}, and "
                    f"{len(head.queries)} and {len(head.keys)} tokens; a trace needs a token for each query and key. "
                    "regard.install(model) gives the patterns without tokens."
                )
