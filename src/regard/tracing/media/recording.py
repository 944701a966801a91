"""Encodes recordings as input tensors, and makes a token for each frame: one of many equal time spans.

A model such as Whisper reads a fixed length of 30 seconds: a shorter recording is followed by silence. The frames of
the silence have `recorded` False; views show them as one token, SILENCE.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError
from regard.tracing.media.folded_spectrogram import folded_tokens, spectrogram_picture
from regard.tracing.media.media import Grids, Media, Tokens, encoder_tokens, on_device, processed
from regard.tracing.media.overlapping_patches import overlapping_patches
from regard.tracing.tokens.places import Frame
from regard.tracing.tokens.readable_tokens import Token

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KALDI_HOP = 0.01
"""The seconds from one frame to the next in the spectrograms of Kaldi, which Speech2Text and AST read."""

SILENCE = "[silence after the recording]"
"""The text of the token that stands for all frames after the end of a recording."""


def read_audio(model: "PreTrainedModel", processor: Any, audio: Any, sampling_rate: int, text: str) -> Media:
    """Encode a recording, numbers from -1 to 1, as input of a model. `text` is empty, or is refused."""
    name, extractor = type(model).__name__, getattr(processor, "feature_extractor", processor)
    rate = getattr(extractor, "sampling_rate", None)
    if rate is None:
        raise InputError(f"{name} reads no recordings; give a model that does, such as Whisper.")
    if text:
        raise InputError(
            "a trace of a recording has no text beside it; leave the text out. The text of a decoder is target=…; "
            "regard.watching(model) records the attention of a model that reads both, without tokens."
        )
    check_samples(np.asarray(audio))
    if rate != sampling_rate:
        raise InputError(
            f"the recording has {sampling_rate:,} samples per second and {name} reads {rate:,}; "
            f"convert it, for instance with: ffmpeg -i FILE -ar {rate} speech.wav"
        )
    encoded, config = processed(processor, audio, sampling_rate=sampling_rate), model.config
    recorded_seconds = len(audio) / sampling_rate
    features, values = encoded.get("input_features"), encoded.get("input_values")
    images: tuple[Tensor, ...] = ()
    spectrogram = None
    source_of: Callable[[int, int, Grids | None], Tokens]
    if features is not None and features.ndim == 4 and hasattr(config, "spec_size"):  # CLAP: [1 1 frames bands]
        seconds = features.shape[2] * extractor.hop_length / rate
        images = (spectrogram_picture(features[0, 0].T),)
        n_parts = config.spec_size // config.num_mel_bins  # one below the other, in a square of this size
        source_of = partial(folded_tokens, images[0], n_parts, seconds)
    elif values is not None and values.ndim == 3 and hasattr(config, "frequency_stride"):  # AST: [1 frames bands]
        seconds = values.shape[1] * KALDI_HOP
        images = (spectrogram_picture(values[0].T),)
        layout = overlapping_patches(images[0], values.shape[2], config, KALDI_HOP)
        source_of = partial(encoder_tokens, name, layout, config.patch_size)
    else:
        seconds, spectrogram = time_and_spectrogram(model, extractor, encoded)
        hop = None if values is None else samples_per_token(model)
        source_of = partial(frame_tokens, seconds, recorded_seconds, None if hop is None else hop / rate)
    if recorded_seconds > seconds + 0.1:  # a spectrogram may leave out the last milliseconds, too few for a frame
        raise InputError(
            f"the recording has {recorded_seconds:.2f} seconds and {name} reads {seconds:.2f}; give a part of it, "
            f"made for instance with: ffmpeg -i FILE -t {seconds:.2f} part.wav"
        )
    return Media(on_device(encoded, model), images, spectrogram, source_of)


def check_samples(audio: np.ndarray) -> None:
    """Raise InputError unless a recording is one channel of finite floating-point numbers."""
    if audio.size == 0:
        raise InputError("the recording is empty; give at least one sample.")
    if audio.ndim != 1:
        raise InputError(f"the recording has shape {list(audio.shape)}; give the numbers of one channel, [samples].")
    if audio.dtype.kind != "f":
        raise InputError(
            f"the recording has numbers of type {audio.dtype}; give floating-point numbers from -1 to 1, for instance "
            "audio / 2**15 of numbers of 16 bits."
        )
    if not np.isfinite(audio).all():
        first = int(np.argmin(np.isfinite(audio)))
        raise InputError(f"sample {first:,} of the recording is {audio[first]}; give finite numbers.")


def time_and_spectrogram(
    model: "PreTrainedModel", extractor: Any, encoded: Mapping[str, Tensor]
) -> tuple[float, Float[Tensor, "bands frames"] | None]:
    """Return how many seconds a model reads, and the spectrogram; None = the model reads the waveform.

    `encoded` is the output of the feature extractor `extractor`.
    """
    wave, features = encoded.get("input_values"), encoded.get("input_features")
    if wave is not None and wave.ndim == 2:
        return wave.shape[-1] / extractor.sampling_rate, None
    if features is not None and features.ndim == 3 and features.shape[1] == extractor.feature_size:  # [1 bands frames]
        return features.shape[-1] * extractor.hop_length / extractor.sampling_rate, features[0].float()
    if features is not None and model.config.model_type == "speech_to_text":  # [1 frames bands]
        token_frames = 2**model.config.num_conv_layers  # the last token may stand for fewer
        return math.ceil(features.shape[1] / token_frames) * token_frames * KALDI_HOP, features[0].T.float()
    raise InputError(
        f"the tokens of {type(model).__name__} are not equal parts of the time of a recording, so no token has a place "
        "in it; regard.watching(model) records the attention without tokens."
    )


def frame_tokens(
    seconds: float,
    recorded_seconds: float,
    seconds_per_token: float | None,
    n_sequences: int,
    n_tokens: int,
    grids: Grids | None,
) -> Tokens:
    """Return a token for each of `n_tokens` equal time spans.

    `seconds_per_token` None = together, the time spans are the `seconds` that the model reads. `n_sequences` and
    `grids` are not used, but every `Media.source_of` gets them.
    """
    length = seconds / n_tokens if seconds_per_token is None else seconds_per_token
    frames = [Frame(n * length, (n + 1) * length, recorded=n * length < recorded_seconds) for n in range(n_tokens)]
    return tuple(Token(f"{frame.start_seconds:.2f}s", "frame", place=frame) for frame in frames)


def samples_per_token(model: "PreTrainedModel") -> int | None:
    """Return how many samples lie between the starts of two tokens, from the strides of the model's convolutions.

    The convolutions have no padding, so the last samples of a recording may not fill another token. SEW also joins
    `squeeze_factor` successive tokens into one. Moonshine's configuration does not have the strides. None = the model
    cuts the waveform into equal parts, without convolutions.
    """
    for config in (model.config, getattr(model.config, "encoder", None)):
        if config is not None and hasattr(config, "conv_stride"):
            return math.prod(config.conv_stride) * getattr(config, "squeeze_factor", 1)
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv1d)]
    reads_samples = bool(convolutions) and convolutions[0].in_channels == 1
    return math.prod(module.stride[0] for module in convolutions) if reads_samples else None


def silence_as_one(tokens: Sequence[Token]) -> tuple[tuple[Token, ...], list[range]]:
    """Join the frames after the end of a recording into one token; return new tokens and the old positions of each.

    These frames are the last tokens.
    """
    recorded = [i for i, token in enumerate(tokens) if not isinstance(token.place, Frame) or token.place.recorded]
    groups = [range(i, i + 1) for i in recorded]
    joined_tokens = [tokens[i] for i in recorded]
    if len(recorded) < len(tokens):
        groups.append(range(len(recorded), len(tokens)))
        joined_tokens.append(Token(SILENCE, "silence", special=True))
    return tuple(joined_tokens), groups
