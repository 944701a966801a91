"""Inputs for any transformers model, from the names of the parameters of its `forward`."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from special_inputs import INPUTS
from torch import Tensor, nn

Inputs = dict[str, Any]

BATCH, TOKENS, TARGETS, PADDED = 2, 40, 13, 9
"""The numbers of texts, of tokens in a text, of tokens for a decoder, and of padding tokens in the second text."""

BINS = "num_mel_bins", "input_feat_per_channel", "feature_size", "n_mels", "mel_dim", "input_dim"
"""The names that configurations have for the number of frequency bands of a spectrogram."""

GRIDS, N_PATCHES = [[1, 4, 6], [1, 4, 4]], 40
"""The (frames, rows, columns) of patches of two pictures, and the number of patches in both."""

WANTED = "grid_thw", "input_features_mask", "visual_feats", "visual_pos", "flattened_patches"
"""Inputs that a model gets if its `forward` has such a parameter, even if the parameter has a default."""


def find(config: Any, *names: str, default: Any = None) -> Any:
    """Return the first attribute with one of these names that is not None, in a configuration or those inside it."""
    for name in names:
        try:
            value = getattr(config, name, None)
        except Exception:  # some configurations raise one if the value differs from layer to layer
            value = None
        if value is not None:
            return value
    for part in parts_of(config):
        value = find(part, *names)
        if value is not None:
            return value
    return default


def parts_of(config: Any) -> list[Any]:
    from transformers import PreTrainedConfig

    return [part for part in vars(config).values() if isinstance(part, PreTrainedConfig)]


def padding_mask(side: str, n_tokens: int = TOKENS) -> Tensor:
    """Return a mask whose second text is padded; `side` is "left", "right" or "none"."""
    mask = torch.ones(BATCH, n_tokens, dtype=torch.long)
    if side == "right":
        mask[1, -PADDED:] = 0
    elif side == "left":
        mask[1, :PADDED] = 0
    return mask


def token_ids(n_tokens: int, seed: int, n_ids: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(min(10, n_ids // 2), n_ids, (BATCH, n_tokens), generator=generator)


def pixels(config: Any, n_frames: int | None = None) -> Tensor:
    size = find(config, "image_size", "img_size", "input_size", default=64)
    if isinstance(size, dict):
        size = size["height"], size["width"]
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = find(config, "num_channels", "in_channels", "in_chans", default=3)
    frames = () if n_frames is None else (n_frames,)
    return torch.randn(BATCH, *frames, channels, height, width, generator=torch.Generator().manual_seed(3))


def candidate_inputs(model: nn.Module, side: str) -> Iterator[Inputs]:
    """Yield candidates for the inputs of a model, the most likely to work first; `side` as in `padding_mask`."""
    config: Any = model.config
    parameters = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    main = main[0] if isinstance(main, list | tuple) else main
    special = INPUTS[config.model_type](config) if config.model_type in INPUTS else {}
    usual = {name: value for name, value in inputs_from_config(config, side).items() if name in parameters}
    available = usual | special
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    def select(*names: str) -> Inputs:
        return {name: available[name] for name in names if name in available}

    text = select("input_ids", "attention_mask", "bbox") if "input_ids" in available else {}
    target, image, sound = select("decoder_input_ids"), select("pixel_values"), select("input_features", "input_values")
    always = select(*required, *WANTED, *time_series(config))
    text_and_image = {**text, **image, **always}
    candidates: list[Inputs] = [
        {**text, **target, **always},
        {**select(main), **target, **always},
        text_and_image,
        {**text, **sound, **target, **always},
        {**text, **image, **sound, **target, **always},
        {**sound, **always},
        {**image, **always},
        {**select(main), **always, **select("encoder_hidden_states")},
        select("inputs_embeds"),
    ]
    if special:
        special = {**always, **special}
        candidates = [{**text, **target, **special}, {**text, **special}, special, {**image, **special}, *candidates]
    elif main in image and text:
        candidates = [text_and_image, *candidates]
    tried_names: list[set[str]] = []
    for candidate in candidates:
        if candidate and set(candidate) not in tried_names:
            tried_names.append(set(candidate))
            yield from variants(candidate, config)


def variants(inputs: Inputs, config: Any) -> Iterator[Inputs]:
    """Yield inputs, then the same with images, videos and sounds of other shapes, which some models expect."""
    generator = torch.Generator().manual_seed(4)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    yield inputs
    bins = find(config, *BINS, default=80)
    if "input_features" in inputs:
        for shape in (
            (bins, 80),
            (80, bins),
            (bins, 3000),
            (64, 2 * bins),
            (1, 1024, bins),
            (1, bins, 80),
            (80, find(config, "input_dim", default=320) // 2),
            (80, 7 * bins),
        ):
            for mask in ("input_features_mask", "attention_mask"):
                n_frames = next((size for size in shape if size != bins), 80)  # the axis that is not the bands
                with_mask: Inputs = {mask: torch.ones(BATCH, n_frames, dtype=torch.long)} if mask in inputs else {}
                yield {**inputs, "input_features": random(BATCH, *shape), **with_mask}
    if "input_values" in inputs:
        for size in ((1, 4000), (find(config, "max_length", default=256), bins), (256, bins), (16000,)):
            yield {**inputs, "input_values": random(BATCH, *size)}
    for name in ("hidden_states", "pixel_values"):
        if name in inputs and "grid_thw" in inputs:
            patch = find(config, "patch_size", default=14)
            patch = patch[0] if isinstance(patch, list | tuple) else patch
            n_frames = find(config, "temporal_patch_size", default=1)
            n_channels = find(config, "in_channels", "num_channels", default=3)
            yield {**inputs, name: random(N_PATCHES, n_channels * n_frames * patch**2)}
            yield {**inputs, name: random(N_PATCHES, find(config, "hidden_size", "embed_dim", default=128))}
            yield {**inputs, name: random(N_PATCHES, 3, patch, patch)}
            yield {**inputs, name: random(1, N_PATCHES, 3, patch, patch)}
            yield {**inputs, name: random(N_PATCHES, 6 * patch**2)}
    if "hidden_states" in inputs and find(config, "input_dim") is not None:
        yield {**inputs, "hidden_states": random(BATCH, TOKENS, find(config, "input_dim"))}
    if "pixel_values" in inputs:
        patch = find(config, "patch_size", default=14)
        if isinstance(patch, int):
            yield {**inputs, "pixel_values": random(BATCH, 16, 3 * patch**2)}
        yield {**inputs, "pixel_values": pixels(config, find(config, "num_frames", default=2))}
        yield {**inputs, "pixel_values": random(BATCH, 3, 64, 64)}
        yield {**inputs, "pixel_values": random(BATCH, 3, 224, 224)}
    if inputs.get("input_ids") is not None:
        n_codebooks = find(config, "num_codebooks", "num_channels", "n_codebooks", default=4)
        if "decoder_input_ids" not in inputs:
            yield {**inputs, "input_ids": inputs["input_ids"].repeat(n_codebooks, 1)}
        yield {**inputs, "input_ids": inputs["input_ids"][..., None].expand(-1, -1, n_codebooks).contiguous()}


def time_series(config: Any) -> Inputs:
    """Return the inputs of models that read a past and predict a future."""
    generator = torch.Generator().manual_seed(5)
    n_past = find(config, "context_length", default=64) + max(getattr(config, "lags_sequence", None) or [0])
    n_future = find(config, "prediction_length", default=8)
    n_channels = getattr(config, "num_input_channels", None)
    channels = () if n_channels is None else (n_channels,)
    return {
        "past_values": torch.randn(BATCH, n_past, *channels, generator=generator),
        "past_observed_mask": torch.ones(BATCH, n_past, *channels),
        "past_time_features": torch.randn(BATCH, n_past, 1, generator=generator),
        "future_values": torch.randn(BATCH, n_future, *channels, generator=generator),
        "future_time_features": torch.randn(BATCH, n_future, 1, generator=generator),
    }


def inputs_from_config(config: Any, side: str) -> Inputs:
    """Return all inputs that can be made from the configuration alone; `side` as in `padding_mask`."""
    generator = torch.Generator().manual_seed(2)
    n_ids = max(3, min(70, find(config, "vocab_size", default=70) - 8))  # below the special tokens of small_config.py
    top_left = torch.randint(0, 400, (BATCH, TOKENS, 2), generator=generator)
    width = find(config, "hidden_size", "d_model", default=128)
    encoder_width = find(config, "encoder_hidden_size", default=width)
    bins = find(config, "num_mel_bins", "input_feat_per_channel", "feature_size", default=80)
    return {
        "input_ids": token_ids(TOKENS, seed=0, n_ids=n_ids),
        "attention_mask": padding_mask(side),
        "decoder_input_ids": token_ids(TARGETS, seed=1, n_ids=n_ids),
        "bbox": torch.cat([top_left, top_left + 20], dim=-1),
        "pixel_values": pixels(config),
        "pixel_values_videos": pixels(config, find(config, "num_frames", "frames_per_clip", default=2)),
        "pixel_mask": None,  # for models whose `forward` requires it
        "input_values": torch.randn(BATCH, 4000, generator=generator),
        "input_features": torch.randn(BATCH, 80, bins, generator=generator),
        "inputs_embeds": torch.randn(BATCH, TOKENS, width, generator=generator),
        "hidden_states": torch.randn(BATCH, TOKENS, width, generator=generator),
        "encoder_hidden_states": torch.randn(BATCH, 17, encoder_width, generator=generator),
        "image_embeds": torch.randn(BATCH, 17, width, generator=generator),
        **time_series(config),
        "grid_thw": torch.tensor(GRIDS),
        "input_features_mask": torch.ones(BATCH, 80, dtype=torch.long),
        "visual_feats": torch.randn(BATCH, 36, find(config, "visual_feat_dim", default=2048), generator=generator),
        "visual_pos": torch.rand(BATCH, 36, 4, generator=generator),
        "task_inputs": token_ids(77, seed=7, n_ids=n_ids),
        "qformer_input_ids": token_ids(TARGETS, seed=6, n_ids=n_ids),
        "mask": torch.ones(BATCH, TOKENS, dtype=torch.bool),
        "action_embeds": torch.randn(BATCH, 8, width, generator=generator),
        "context": torch.randn(BATCH, 17, width, generator=generator),
        "flattened_patches": torch.randn(BATCH, 20, 3 * 16**2 + 2, generator=generator).abs() * 5,
        "pixel_position_ids": torch.cartesian_prod(torch.arange(4), torch.arange(4)).expand(BATCH, 16, 2),
        "query_embeds": torch.randn(BATCH, 8, width, generator=generator),
    }
