"""Encodes pictures and recordings as input tensors, and makes a token for each patch or frame.

A vision model has one token for each patch of the picture, often after some extra tokens (a class token, registers). In
a model of pictures and text, the text contains one image token for each patch or each square of patches. An audio model
has one token for each of many equal parts of the recording.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, first_paragraph
from regard.tracing.merged_patches import not_one_picture, patch_order, picture_grid, picture_of
from regard.tracing.places import Frame, Patch
from regard.tracing.readable_tokens import Token, readable_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MOST_EXTRA_TOKENS = 16
"""The largest number of extra tokens of a vision model, which do not stand for a patch."""

Tokens = tuple[Token, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Media:
    """A picture or a recording, as input of a model.

    Attributes:
        inputs: the input tensors of the model.
        image: the picture after the processor's resizing and cropping, with numbers from 0 to 1; None for a recording.
        spectrogram: the spectrogram of the recording; None for a picture, and for models that read the waveform.
        source_of: a function that returns the tokens of the encoder, given their number.
        target: the tokens of the decoder, or of the language model; empty if there is none.
    """

    inputs: Mapping[str, Tensor]
    image: Float[Tensor, "3 height width"] | None
    spectrogram: Float[Tensor, "bands frames"] | None
    source_of: Callable[[int], Tokens]
    target: Tokens = ()


def read_image(model: "PreTrainedModel", processor: Any, image: Any, text: str) -> Media:
    """Encode a picture, and the text beside it if there is one, as input of a model.

    Args:
        image: the picture, in any form that the processor accepts.
        text: the text beside the picture; empty = no text.

    Raises:
        InputError: the processor cannot read the picture or the text, or does not divide one picture into patches.
    """
    given = {"images": image} | ({"text": with_image_token(processor, text)} if text else {})
    encoded = processed(processor, **given)
    pixels = encoded.get("pixel_values")
    patch = patch_size(model)
    if "image_grid_thw" in encoded and pixels is not None and patch is not None:
        return read_merged(model, processor, encoded, patch)
    if pixels is not None and pixels.ndim == 5:
        raise not_one_picture(f"{type(processor).__name__} cuts the picture into {pixels.shape[1]} tiles")
    if pixels is not None and pixels.ndim == 4 and len(pixels) > 1:
        raise not_one_picture(f"there are {len(pixels)} pictures")
    if pixels is None or pixels.ndim != 4 or patch is None:
        raise InputError(
            f"{type(model).__name__} and {type(processor).__name__} do not divide one picture into patches, so no "
            "token has a place in it; regard.watching(model) records the attention without tokens."
        )
    height, width = pixels.shape[2:]
    grid = height // patch, width // patch

    def source_of(n_tokens: int) -> Tokens:
        n_extra = n_tokens - grid[0] * grid[1]
        if not 0 <= n_extra <= MOST_EXTRA_TOKENS:
            raise InputError(
                f"{type(model).__name__} has {n_tokens} tokens for {grid[0]} × {grid[1]} patches, so no token "
                "has a place in the picture; regard.watching(model) records the attention without tokens."
            )
        names = ["[CLS]" if number == 0 else f"[EXTRA {number}]" for number in range(n_extra)]
        extra = [Token(text=name, piece=name, special=True) for name in names]
        return (*extra, *patch_tokens(grid, (height, width)))

    target: Tokens = ()
    if "input_ids" in encoded:
        target = text_tokens(model, processor, encoded["input_ids"], grid, (height, width))
    shades = pixels[0].float()
    shades = (shades - shades.amin()) / (shades.amax() - shades.amin()).clamp(min=1e-9)
    return Media(on_device(encoded, model), shades, None, source_of, target)


def read_merged(model: "PreTrainedModel", processor: Any, encoded: Any, patch: int) -> Media:
    """Convert an encoded picture and text to a `Media`, for a model that merges squares of patches.

    Args:
        encoded: the processor's output for the picture and the text.
        patch: the side length of a patch in pixels.

    Raises:
        InputError: there are several pictures, or no text.
    """
    vision = model.config.vision_config
    merge, window = vision.spatial_merge_size, getattr(vision, "window_size", None)
    rows, columns = picture_grid(encoded, merge)
    if "input_ids" not in encoded:
        raise InputError(f"{type(model).__name__} reads a picture beside a text; give the text too.")
    shades = picture_of(encoded["pixel_values"].float(), rows, merge, patch)
    shades = (shades - shades.amin()) / (shades.amax() - shades.amin()).clamp(min=1e-9)
    size = (shades.shape[1], shades.shape[2])
    patches = patch_tokens((rows * merge, columns * merge), size)
    width = columns * merge
    order = patch_order(rows, columns, merge, None if window is None else window // merge // patch)
    source = tuple(patches[row * width + column] for row, column in order)
    target = text_tokens(model, processor, encoded["input_ids"], (rows, columns), size)
    return Media(on_device(encoded, model), shades, None, lambda n_tokens: source, target)


def read_audio(model: "PreTrainedModel", processor: Any, audio: Any, sampling_rate: int) -> Media:
    """Encode a recording as input of a model.

    Args:
        audio: the waveform, numbers from -1 to 1.
        sampling_rate: how many numbers per second the waveform has; the processor must support this rate.

    Raises:
        InputError: the processor cannot read the recording.
    """
    encoded = processed(processor, audio, sampling_rate=sampling_rate)
    extractor = getattr(processor, "feature_extractor", processor)
    features = encoded.get("input_features")
    if features is not None:
        seconds = features.shape[-1] * extractor.hop_length / extractor.sampling_rate
    else:
        seconds = encoded["input_values"].shape[-1] / sampling_rate

    def source_of(n_tokens: int) -> Tokens:
        step = seconds / n_tokens
        frames = [Frame(number * step, (number + 1) * step) for number in range(n_tokens)]
        return tuple(Token(f"{frame.start_seconds:.2f}s", "frame", place=frame) for frame in frames)

    spectrogram = None if features is None else features[0].float()
    return Media(on_device(encoded, model), None, spectrogram, source_of)


def processed(processor: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the output of a processor for a picture or a recording; raise InputError if this fails."""
    try:
        return processor(*args, return_tensors="pt", **kwargs)
    except Exception as error:  # processors raise exceptions of many classes
        raise InputError(
            f"{type(processor).__name__} could not read the picture or recording: {first_paragraph(error)}."
        ) from error


def on_device(encoded: Mapping[str, Any], model: "PreTrainedModel") -> dict[str, Tensor]:
    return {name: value.to(model.device) for name, value in encoded.items() if isinstance(value, Tensor)}


def patch_size(model: "PreTrainedModel") -> int | None:
    """Return the side length of a patch in pixels; None if the configuration of the model has no patch size."""
    for config in (model.config, getattr(model.config, "vision_config", None)):
        size = getattr(config, "patch_size", None)
        if isinstance(size, int | tuple | list):
            return int(size if isinstance(size, int) else size[0])
    return None


def with_image_token(processor: Any, text: str) -> str:
    """Return the text with the processor's image token at the beginning; unchanged if the text contains it already."""
    token = getattr(processor, "image_token", None)
    return text if not isinstance(token, str) or token in text else f"{token}{text}"


def patch_tokens(grid: tuple[int, int], size: tuple[int, int]) -> list[Token]:
    """Return a token for each patch, row by row.

    Args:
        grid: the numbers of rows and columns of patches.
        size: the height and width of the picture in pixels.
    """
    rows, columns = grid
    height, width = size[0] / rows, size[1] / columns
    patches = [Patch(0, row, column, height, width) for row in range(rows) for column in range(columns)]
    return [Token(text=f"{patch.row},{patch.column}", piece="patch", place=patch) for patch in patches]


def text_tokens(
    model: "PreTrainedModel", processor: Any, ids: Tensor, grid: tuple[int, int], size: tuple[int, int]
) -> Tokens:
    """Return the tokens of a text that contains image tokens, each of which stands for one part of the picture.

    Args:
        ids: the ids of the text's tokens.
        grid: the numbers of rows and columns of patches.
        size: the height and width of the picture in pixels.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    tokens = list(readable_tokens(tokenizer, {"input_ids": ids}, ""))
    image_id = getattr(model.config, "image_token_id", getattr(model.config, "image_token_index", None))
    places = [] if image_id is None else (ids[0] == image_id).nonzero()[:, 0].tolist()
    side = isqrt(len(places))
    if len(places) == grid[0] * grid[1]:
        squares = grid
    elif places and side * side == len(places):
        squares = (side, side)
    elif places:
        raise InputError(
            f"the text has {len(places)} tokens for {grid[0]} × {grid[1]} patches, which do not form a grid; "
            "regard.watching(model) records the attention without tokens."
        )
    for position, token in zip(places, patch_tokens(squares, size) if places else [], strict=True):
        tokens[position] = token
    return tuple(tokens)
