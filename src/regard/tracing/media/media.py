"""Encodes pictures and videos as input tensors, and makes a token for each patch.

A vision model has one token for each patch of a picture, often after some extra tokens (a class token, registers). In
a model of pictures and text, the text contains one image token for each patch or each square of patches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError, first_paragraph
from regard.tracing.media.merged_patches import merged_squares
from regard.tracing.media.picture_file import pictures_in_file, with_channels
from regard.tracing.media.picture_layout import PictureLayout, tubelets, whole_pictures, with_grid, with_seconds
from regard.tracing.media.tiles import anyres_layout, tile_shapes, tiles_in_turn, tiles_with_empty_ones
from regard.tracing.tokens.encoding import input_device
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.readable_tokens import Token, readable_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROUNDING = 0.02
"""How far rounding, as by bfloat16 or by resizing, may put a colour outside of the range from 0 to 1."""

MOST_EXTRA_TOKENS = 16

Tokens = tuple[Token, ...]

Grids = tuple[tuple[int, int], tuple[int, int]]
"""The grid of patches in one layer: ((rows, columns), (rows with padding, columns with padding))."""


@dataclass(frozen=True, slots=True, eq=False)
class Media:
    """Pictures, a video or a recording, as input of a model.

    Attributes:
        inputs: the keyword arguments with which the model is called.
        images: the pictures or frames after the processor's resizing and cropping, with numbers from 0 to 1.
        spectrogram: the spectrogram of the recording; None for a picture, and for models that read the waveform.
        source_of: returns the tokens of the encoder, given the number of sequences that it reads, the number of tokens
            in each, and the grid of patches in the layer. The grid is None in models whose layers all have the same
            grid; in Swin, it differs from stage to stage.
        target: the tokens of the decoder, or of the language model; empty for a model with neither.
    """

    inputs: Mapping[str, Tensor]
    images: tuple[Float[Tensor, "3 _ _"], ...]
    spectrogram: Float[Tensor, "bands frames"] | None
    source_of: Callable[[int, int, Grids | None], Tokens]
    target: Tokens = ()


def read_pictures(
    model: "PreTrainedModel", processor: Any, images: Any, video: Any, fps: float | None, text: str
) -> Media:
    """Encode pictures or a video, and the text beside them, as input of a model.

    `images` or `video` is None; both are in any form that the processor accepts, or paths of picture files. `fps` is
    the frames per second of the video, or None; `text` may be empty.
    """
    name = "image" if video is None else "video"
    is_tokenizer = hasattr(processor, "convert_ids_to_tokens")
    reads_recordings = hasattr(processor, "feature_extractor") or hasattr(processor, "sampling_rate")
    is_for_recordings = reads_recordings and not hasattr(processor, "image_processor")
    if is_tokenizer or is_for_recordings:
        raise InputError(f"{type(model).__name__} reads no {name}s; give a model that does, such as ViT or Qwen2-VL.")
    n_channels = channels(model)
    images, video = as_model_reads(images, n_channels), as_model_reads(video, n_channels)
    pictures = [] if images is None else flat_pictures(images)
    if video is None and not pictures:
        raise InputError("images=… is an empty list; give at least one picture.")
    arguments = {f"{name}s": video if images is None else images}
    if video is not None and is_picture_processor(processor):  # that of VideoMAE, for which a video is a list
        arguments = {"images": [video]}
    if fps is not None and hasattr(processor, "video_processor"):  # these processors accept the times of the frames
        metadata = {"total_num_frames": len(video), "fps": fps, "frames_indices": list(range(len(video)))}
        arguments |= {"video_metadata": [metadata], "do_sample_frames": False}
    if text:
        if getattr(processor, "tokenizer", None) is None:
            raise InputError(f"{type(model).__name__} reads {name}s without a text; leave the text out.")
        arguments["text"] = with_media_tokens(model, processor, name, text, len(pictures) or 1)
    encoded = processed(processor, **arguments)
    # in MLlama, no token of the text stands for a patch: the text attends to the patches by cross-attention
    positions = [] if "cross_attention_mask" in encoded else media_positions(model.config, encoded, name)
    layout = layout_of(model, processor, encoded, pictures, len(positions))
    if fps is not None:
        layout = with_seconds(layout, fps, len(video))
    if positions and len(positions) != len(layout.text_patches):
        raise InputError(
            f"the text has {len(positions)} {name} tokens and {type(processor).__name__} makes "
            f"{len(layout.text_patches)} patches or squares of patches, so no token has a known place; "
            "regard.watching(model) records the attention without tokens."
        )
    target = list[Token]()
    if "input_ids" in encoded:
        tokenizer = getattr(processor, "tokenizer", processor)
        target += readable_tokens(tokenizer, {"input_ids": encoded["input_ids"]}, text="")
    if positions:
        for position, patch in zip(positions, layout.text_patches, strict=True):
            target[position] = patch_token(patch, names_picture=len(layout.images) > 1)
    sides = patch_sides(model)
    assert sides is not None  # `layout_of` refuses a model whose patch sizes are not known
    side, _ = sides  # needed in models such as Swin, whose patches are squares
    return Media(
        inputs=on_device(encoded, model),
        images=tuple(colours_of(image, processor, name) for image in layout.images),
        spectrogram=None,
        source_of=partial(encoder_tokens, type(model).__name__, layout, side),
        target=tuple(target),
    )


def layout_of(
    model: "PreTrainedModel", processor: Any, encoded: Mapping[str, Any], pictures: Sequence[Any], n_image_tokens: int
) -> PictureLayout:
    """Return the pictures as the model reads them, and the patch that each token of the model stands for.

    `encoded` is the processor's output for the list `pictures` (empty for a video). `n_image_tokens` is the number of
    tokens in the text that stand for parts of pictures.
    """
    config, sides = model.config, patch_sides(model)
    pixels = encoded.get("pixel_values", encoded.get("pixel_values_videos"))
    image_processor = getattr(processor, "image_processor", processor)
    unknown_division = InputError(
        f"{type(model).__name__} and {type(processor).__name__} do not divide pictures into patches in a way that "
        "regard knows, so no token has a place in them; regard.watching(model) records the attention without tokens."
    )
    if pixels is None or sides is None or pads_pictures(model, sides):
        raise unknown_division
    if hasattr(config, "tubelet_size") and pixels.ndim == 5 and len(pixels) == 1:  # VideoMAE, ViViT
        n_frames = len(pixels[0])
        if n_frames != getattr(config, "num_frames", n_frames):
            name = type(model).__name__
            raise InputError(f"the video has {n_frames} frames and {name} reads {config.num_frames}; give as many.")
        size = config.tubelet_size  # [frames height width], or the frames alone
        return tubelets(pixels[0], sides, n_merged=size if isinstance(size, int) else size[0])
    if config.model_type == "vit_mae":  # a masked autoencoder: it reads a random choice of the patches, shuffled
        raise InputError(
            f"{type(model).__name__} reads the patches of a picture in a random order, so no token has a known place; "
            "load its parameters as a ViTModel, or record the attention without tokens by regard.watching(model)."
        )
    is_one_tensor_a_picture = bool(pictures) and pixels.ndim == 4 and len(pixels) == len(pictures)
    patch, patch_width = sides
    if patch != patch_width:  # patches that are no squares: only of whole pictures
        if not is_one_tensor_a_picture:
            raise unknown_division
        return whole_pictures(config, encoded, sides, n_image_tokens)
    if "image_grid_thw" in encoded or "video_grid_thw" in encoded:  # Qwen2-VL and models like it
        if "input_ids" not in encoded:
            raise InputError(f"{type(model).__name__} reads pictures beside a text; give the text too.")
        return merged_squares(config.vision_config, encoded, patch)
    if not pictures:
        # other models, such as TimeSformer, may also attend from frame to frame
        reads_each_frame_as_picture = (
            "pixel_values_videos" in encoded  # LLaVA-OneVision and LLaVA-NeXT-Video
            or hasattr(image_processor, "crop_to_patches")  # InternVL
            or hasattr(image_processor, "return_row_col_info")  # SmolVLM
        )
        if not reads_each_frame_as_picture:
            raise unknown_division
        return video_layout(config, pixels, sides, n_image_tokens)
    if pixels.ndim == 6:  # MLlama: [batch pictures tiles 3 height width]
        return tiles_with_empty_ones(getattr(config, "vision_config", config), encoded, patch)
    if pixels.ndim == 5 and hasattr(config, "image_grid_pinpoints"):  # LLaVA-NeXT: [pictures tiles 3 height width]
        return anyres_layout(config, encoded, patch)
    shapes = tile_shapes(processor, pictures, pixels)
    if shapes is not None:  # SmolVLM, InternVL, Gemma 3 and models like them
        tiles = pixels.flatten(0, -4)  # [tiles 3 height width]
        is_gemma3 = hasattr(image_processor, "do_pan_and_scan")
        return tiles_in_turn(tiles, shapes, patch, n_image_tokens, thumbnail_first=is_gemma3)
    if is_one_tensor_a_picture:  # ViT, CLIP, LLaVA and most other models
        return whole_pictures(config, encoded, sides, n_image_tokens)
    raise unknown_division


def video_layout(config: Any, pixels: Tensor, sides: tuple[int, int], n_image_tokens: int) -> PictureLayout:
    """Return the layout of a video: the model reads each frame as one picture, and cuts no frame into tiles."""
    has_newline = n_image_tokens > 0 and hasattr(config, "vision_aspect_ratio")  # LLaVA-OneVision's last token
    newlines = ("[NEWLINE]",) if has_newline else ()
    frames = {"pixel_values": pixels.flatten(0, -4)}  # [frames 3 height width]
    layout = whole_pictures(config, frames, sides, n_image_tokens - len(newlines))
    return replace(layout, text_patches=(*layout.text_patches, *newlines))


def encoder_tokens(
    model: str, layout: PictureLayout, patch_size: int, n_sequences: int, n_tokens: int, grids: Grids | None
) -> Tokens:
    """Return the tokens of the vision model: for each part of the layout, extra tokens, then a token for each patch.

    A token attends only to tokens of its own sequence. `grids` is the grid of patches of one layer, in a model whose
    layers have different grids; None = the grids of `layout`.
    """
    if grids is not None:
        layout = with_grid(layout, *grids, patch_size)
    n_parts = len(layout.encoder)  # the model reads each part as a sequence, or all parts as one sequence
    n_patches = sum(map(len, layout.encoder))
    n_extra, remainder = divmod(n_sequences * n_tokens - n_patches, n_parts)  # extra tokens at the start of each part
    if n_sequences not in (1, n_parts) or remainder or not 0 <= n_extra <= MOST_EXTRA_TOKENS:
        sizes = f"{n_sequences} sequences of {n_tokens} tokens" if n_sequences > 1 else f"{n_tokens} tokens"
        raise InputError(
            f"{model} has {sizes} for {n_patches} patches, so no token has a known place in a picture; "
            "regard.watching(model) records the attention without tokens."
        )
    names = ["[CLS]" if number == 0 else f"[EXTRA {number}]" for number in range(n_extra)]
    extra = [Token(text=name, piece=name, special=True) for name in names]
    names_picture = len(layout.images) > 1
    tokens = list[Token]()
    for patches in layout.encoder:
        tokens += [*extra, *(patch_token(patch, names_picture) for patch in patches)]
    return tuple(tokens)


def patch_token(patch: Patch | str, names_picture: bool = False) -> Token:
    """Return the token of a patch: "2,3" (row 2, column 3) or "thumbnail 2,3".

    If `names_picture`, the number of the picture comes first: "1:2,3". A str in place of a patch is the text of a
    token that stands for no patch.
    """
    if isinstance(patch, str):
        return Token(text=patch, piece=patch, special=True)
    text = f"{'thumbnail ' if patch.thumbnail else ''}{patch.row},{patch.column}"
    return Token(text=f"{patch.image}:{text}" if names_picture else text, piece="patch", place=patch)


def colours_of(
    image: Float[Tensor, "channels height width"], processor: Any, name: str
) -> Float[Tensor, "3 height width"]:
    """Return a picture that a model reads in its own colours, from 0 to 1: the normalisation is undone.

    If the processor does not tell how it normalises, or the picture has not three channels, return `shades_of(image)`.

    Args:
        name: "image" or "video", for processors that normalise the two in different ways.
    """
    normaliser = getattr(processor, f"{name}_processor", processor)
    if getattr(normaliser, "do_normalize", False):
        mean, std = (torch.as_tensor(getattr(normaliser, f"image_{part}", None) or 0.0) for part in ("mean", "std"))
        if mean.shape == std.shape == (len(image),):
            image = image.float().cpu() * std[:, None, None] + mean[:, None, None]
    is_colours = len(image) == 3 and float(image.amin()) > -ROUNDING and float(image.amax()) < 1 + ROUNDING
    return image.float().clamp(0, 1) if is_colours else shades_of(image)


def shades_of(image: Float[Tensor, "channels height width"]) -> Float[Tensor, "3 height width"]:
    """Return a picture with its numbers shifted and scaled to the range from 0 to 1.

    A picture that has not three channels is returned as grey: the mean of its channels.
    """
    image = image.float()
    if len(image) != 3:
        image = image.mean(dim=0, keepdim=True).expand(3, -1, -1)
    return (image - image.amin()) / (image.amax() - image.amin()).clamp(min=1e-9)


def processed(processor: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return processor(*args, return_tensors="pt", **kwargs)
    except Exception as error:  # processors raise exceptions of many classes
        raise InputError(
            f"{type(processor).__name__} could not read the picture or recording: {first_paragraph(error)}."
        ) from error


def on_device(encoded: Mapping[str, Any], model: "PreTrainedModel") -> dict[str, Tensor]:
    """Return the tensors in a processor's output, on the device of the model."""
    return {name: value.to(input_device(model)) for name, value in encoded.items() if isinstance(value, Tensor)}


def patch_sides(model: "PreTrainedModel") -> tuple[int, int] | None:
    """Return the height and the width of a patch in pixels; None if the model's configuration has none."""
    for config in vision_configs(model):
        size = getattr(config, "patch_size", getattr(config, "tubelet_size", None))  # ViViT has no patch_size
        if isinstance(size, int | tuple | list):
            return (size, size) if isinstance(size, int) else (int(size[-2:][0]), int(size[-1]))
    return None


def pads_pictures(model: "PreTrainedModel", sides: tuple[int, int]) -> bool:
    """Return whether the first patches begin outside of the picture: in ViTPose, the patch convolution has padding."""
    convolutions = (module for module in model.modules() if isinstance(module, nn.Conv2d))
    of_patches = (one for one in convolutions if one.kernel_size == one.stride == sides)
    return any(isinstance(one.padding, tuple) and any(one.padding) for one in of_patches)


def channels(model: "PreTrainedModel") -> int:
    """Return how many channels the pictures have that a model reads: mostly 3 (red, green and blue)."""
    return next((config.num_channels for config in vision_configs(model) if hasattr(config, "num_channels")), 3)


def vision_configs(model: "PreTrainedModel") -> tuple[Any, ...]:
    return model.config, getattr(model.config, "vision_config", None), getattr(model.config, "encoder", None)


def as_model_reads(pictures: Any, n_channels: int) -> Any:
    """Return pictures, alone or in lists, with `n_channels` if they are pictures of Pillow or paths of picture files.

    Other pictures, such as arrays and addresses, are returned unchanged.
    """
    if isinstance(pictures, list | tuple):
        return [as_model_reads(picture, n_channels) for picture in pictures]
    if isinstance(pictures, Path) or (isinstance(pictures, str) and "://" not in pictures):
        (pictures,) = pictures_in_file(Path(pictures), n_most=1)
    if getattr(pictures, "ndim", 3) < 3:
        raise InputError(
            f"a picture has shape {list(pictures.shape)}; give it as [height width channels], or as an image of Pillow."
        )
    return with_channels(pictures, n_channels) if hasattr(pictures, "getbands") else pictures


def with_media_tokens(model: "PreTrainedModel", processor: Any, name: str, text: str, n_media: int) -> str:
    """Return a text that begins with an image (or video) token for each of `n_media` pictures (or videos).

    A text that already contains such a token is returned unchanged. If the model has tokens that begin and end a
    picture, they are put around each image token. `name` is "image" or "video".
    """
    token, tokenizer = getattr(processor, f"{name}_token", None), getattr(processor, "tokenizer", None)
    if not isinstance(token, str) or token in text:
        return text
    for kind in (name, "vision"):
        ends = [getattr(model.config, f"{kind}_{end}_token_id", None) for end in ("start", "end")]
        if tokenizer is not None and None not in ends:
            start, end = tokenizer.convert_ids_to_tokens(ends)
            token = f"{start}{token}{end}"
            break
    return f"{token * n_media}{text}"


def media_positions(config: Any, encoded: Mapping[str, Any], name: str) -> list[int]:
    """Return the positions of the tokens in an encoded text that stand for parts of an "image" or a "video".

    In some models, image tokens also stand for parts of a video.
    """
    settings = (f"{name}_token_id", f"{name}_token_index", "image_token_id", "image_token_index")
    token_id = next((getattr(config, setting) for setting in settings if hasattr(config, setting)), None)
    if token_id is None or "input_ids" not in encoded:
        return []
    return [int(position) for position in (encoded["input_ids"][0] == token_id).nonzero()[:, 0]]


def is_picture_processor(processor: Any) -> bool:
    """Return whether a processor is one of transformers for pictures alone, which has no argument for videos."""
    from transformers.image_processing_utils import BaseImageProcessor

    return isinstance(processor, BaseImageProcessor) and "pixel_values_videos" not in processor.model_input_names


def flat_pictures(images: Any) -> list[Any]:
    """Return a flat list of pictures, given one picture, nested lists of pictures, or an array of several pictures."""
    if isinstance(images, list | tuple) or getattr(images, "ndim", 3) == 4:
        return [picture for part in images for picture in flat_pictures(part)]
    return [images]
