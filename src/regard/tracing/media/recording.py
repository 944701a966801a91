"""Encodes recordings as input tensors, and makes a token for each frame: one of many equal time spans.

A model such as Whisper reads a fixed length of 30 seconds: a shorter recording is followed by silence. The frames of
the silence have `recorded` False; views show them as one token, SILENCE.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

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


def read_audio(model: "PreTrainedModel", processor: Any, audio: Any, sampling_rate: int) -> Media:
    """Encode a recording, numbers from -1 to 1, as input of a model."""
    name, extractor = type(model).__name__, getattr(processor, "feature_extractor", processor)
    rate = getattr(extractor, "sampling_rate", None)
    if rate is None:
        raise InputError(f"{name} reads no recordings; give a model that does, such as Whisper.")
    if np.ndim(audio) != 1:
        raise InputError(
            f"the recording has shape {list(np.shape(audio))}; give the numbers of one channel, [samples]."
        )
    if rate != sampling_rate:
        raise InputError(
            f"the recording has {sampling_rate:,} samples per second and {name} reads {rate:,}; "
            f"convert it, for instance with: ffmpeg -i FILE -ar {rate} speech.wav"
        )
    encoded = processed(processor, audio, sampling_rate=sampling_rate)
    recorded_seconds = np.shape(audio)[-1] / sampling_rate
    features = encoded.get("input_features")
    if features is not None and features.ndim == 4 and hasattr(model.config, "spec_size"):  # CLAP
        seconds = features.shape[2] * extractor.hop_length / extractor.sampling_rate
        check_length(name, recorded_seconds, seconds)
        n_parts = model.config.spec_size // model.config.num_mel_bins
        picture = spectrogram_picture(features[0, 0].T)
        return Media(on_device(encoded, model), (picture,), None, partial(folded_tokens, picture, n_parts, seconds))
    waves = encoded.get("input_values")
    if waves is not None and waves.ndim == 3 and hasattr(model.config, "frequency_stride"):  # AST's [1, frames, bands]
        frames = waves[0]
        check_length(name, recorded_seconds, len(frames) * KALDI_HOP)
        layout = overlapping_patches(spectrogram_picture(frames.T), frames.shape[1], model.config, KALDI_HOP)
        tokens_of = partial(encoder_tokens, name, layout, model.config.patch_size)
        return Media(on_device(encoded, model), layout.images, None, tokens_of)
    seconds, spectrogram = time_and_spectrogram(model, extractor, encoded)
    check_length(name, recorded_seconds, seconds)

    def source_of(n_sequences: int, n_tokens: int, grids: Grids | None) -> Tokens:
        length = seconds / n_tokens
        frames = [Frame(n * length, (n + 1) * length, recorded=n * length < recorded_seconds) for n in range(n_tokens)]
        return tuple(Token(f"{frame.start_seconds:.2f}s", "frame", place=frame) for frame in frames)

    return Media(on_device(encoded, model), (), spectrogram, source_of)


def check_length(model: str, recorded_seconds: float, seconds: float) -> None:
    if recorded_seconds > seconds + 0.1:
        raise InputError(
            f"the recording has {recorded_seconds:.2f} seconds and {model} reads {seconds:.2f}; give a part of it, "
            f"made for instance with: ffmpeg -i FILE -t {seconds:.2f} part.wav"
        )


def time_and_spectrogram(
    model: "PreTrainedModel", extractor: Any, encoded: Mapping[str, Tensor]
) -> tuple[float, Float[Tensor, "bands frames"] | None]:
    """Return how many seconds a model reads, and the spectrogram; None = the model reads the waveform.

    `encoded` is the output of the feature extractor `extractor`.
    """
    wave, features = encoded.get("input_values"), encoded.get("input_features")
    if wave is not None and wave.ndim == 2:
        return wave.shape[-1] / extractor.sampling_rate, None
    if features is not None and features.ndim == 3 and features.shape[1] == extractor.feature_size:
        return features.shape[-1] * extractor.hop_length / extractor.sampling_rate, features[0].float()
    if features is not None and model.config.model_type == "speech_to_text":  # [1, frames, bands]
        token_frames = 2**model.config.num_conv_layers  # the last token may stand for fewer
        return math.ceil(features.shape[1] / token_frames) * token_frames * KALDI_HOP, features[0].T.float()
    raise InputError(
        f"the tokens of {type(model).__name__} are not equal parts of the time of a recording, so no token has a place "
        "in it; regard.watching(model) records the attention without tokens."
    )


def silence_as_one(tokens: Sequence[Token]) -> tuple[tuple[Token, ...], list[range]]:
    """Join the frames after the end of a recording into one token; return new tokens and the old positions of each."""
    recorded = [i for i, token in enumerate(tokens) if not isinstance(token.place, Frame) or token.place.recorded]
    groups = [range(i, i + 1) for i in recorded]
    joined_tokens = [tokens[i] for i in recorded]
    if len(recorded) < len(tokens):
        groups.append(range(len(recorded), len(tokens)))
        joined_tokens.append(Token(SILENCE, "silence", special=True))
    return tuple(joined_tokens), groups
