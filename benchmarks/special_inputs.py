"""Inputs for the model types for which `small_inputs.py` finds none."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Inputs = dict[str, Any]


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def ids(*shape: int, n_ids: int = 60) -> Tensor:
    """Return seeded random token ids, from 10 to `n_ids` - 1."""
    return torch.randint(10, n_ids, shape, generator=torch.Generator().manual_seed(sum(shape)))


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.long)


def patches(config: Any) -> Inputs:
    """Return two pictures, each as a sequence of 24 patches in 4 rows and 6 columns."""
    return {
        "pixel_values": numbers(2, 24, 3 * config.patch_size**2),
        "pixel_attention_mask": ones(2, 24),
        "spatial_shapes": torch.tensor([[4, 6], [4, 6]]),
    }


def patches_in_a_row(config: Any) -> Inputs:
    """Return the 24 patches of one picture and the 16 of another as one picture of 40 patches in a row."""
    return {
        "pixel_values": numbers(1, 3, config.patch_size, 40 * config.patch_size),
        "target_sizes": torch.tensor([[4, 6], [4, 4]]),
    }


def points(size: int) -> Inputs:
    """Return two pictures of `size` × `size`, and two points on each that mark the object to segment."""
    return {
        "pixel_values": numbers(2, 3, size, size),
        "input_points": torch.tensor([[[[5.0, 9.0], [30.0, 40.0]]], [[[20.0, 7.0], [11.0, 50.0]]]]),
        "input_labels": torch.tensor([[[1, 0]], [[1, 1]]]),
    }


def picture_tokens_mask(n_tokens: int) -> Tensor:
    """Return a mask of two texts of 40 tokens that is 1 at the `n_tokens` tokens that stand for a picture."""
    mask = torch.zeros(2, 40, dtype=torch.long)
    mask[:, 2 : 2 + n_tokens] = 1
    return mask


def text_with_picture(token: int, n_tokens: int) -> Tensor:
    """Return two texts of 40 tokens, in which the id `token` stands for parts of a picture."""
    text = ids(2, 40)
    text[:, 10 : 10 + n_tokens] = token
    return text


def boxes(config: Any) -> Inputs:
    """Return two pictures, with three boxes on each that mark the objects to find."""
    return {
        "pixel_values": numbers(2, 3, *[config.vision_config.image_size] * 2),
        "input_boxes": torch.tensor([0.5, 0.4, 0.2, 0.3]).expand(2, 3, 4) + 0.02 * numbers(2, 3, 4),
        "input_boxes_labels": ones(2, 3),
    }


def sam3_decoder_inputs(config: Any) -> Inputs:
    width = config.hidden_size
    return {
        "vision_features": numbers(2, 36, width),
        "text_features": numbers(2, 11, width),
        "vision_pos_encoding": numbers(2, 36, width),
        "spatial_shapes": torch.tensor([[6, 6]]),
    }


def sam3_encoder_inputs(config: Any) -> Inputs:
    return {
        "vision_features": [numbers(2, config.hidden_size, 6, 6)],
        "vision_pos_embeds": [numbers(2, config.hidden_size, 6, 6)],
        "text_features": numbers(2, 11, config.hidden_size),
        "spatial_sizes": [(6, 6)],
    }


def sam3_mask_decoder_inputs(config: Any) -> Inputs:
    width = config.hidden_size
    return {
        "decoder_queries": numbers(2, 8, width),
        "backbone_features": [numbers(2, width, 24, 24), numbers(2, width, 12, 12), numbers(2, width, 6, 6)],
        "encoder_hidden_states": numbers(2, 36, width),
        "prompt_features": numbers(2, 11, width),
    }


def sound_frames(config: Any) -> Inputs:
    """Return the frames of two sounds, concatenated, and the number of frames of each sound."""
    return {"input_features": numbers(config.num_mel_bins, 130), "feature_lens": torch.tensor([70, 60])}


def video_with_sound(config: Any) -> Inputs:
    return {"pixel_values_videos": numbers(2, 4, 3, 64, 64), "input_values": numbers(2, 1, 1920 * 12)}


def second_video_frame(config: Any) -> Inputs:
    """Return the inputs for the second frame of a video, in whose first frame an object was found already."""
    import transformers

    name = type(config).__name__.removesuffix("Config")
    size = config.prompt_encoder_config.image_size
    session = getattr(transformers, f"{name}InferenceSession")(
        video=numbers(2, 3, size, size), video_height=size, video_width=size, dtype=torch.float32
    )
    width = config.memory_encoder_output_channels
    features = numbers(1, 16, width)
    is_edgetam = name == "EdgeTamVideo"
    memory = {
        "maskmem_features": features if is_edgetam else features.transpose(0, 1),
        "maskmem_pos_enc": features[None] if is_edgetam else features.transpose(0, 1),
        "pred_masks": numbers(1, 1, 16, 16),
        "object_pointer": numbers(1, config.mask_decoder_config.hidden_size),
        "object_score_logits": numbers(1, 1),
    }
    session.store_output(session.obj_id_to_idx(1), 0, output_value=memory, is_conditioning_frame=True)
    return {"inference_session": session, "frame_idx": 1}


def sound_and_features(config: Any) -> Inputs:
    return {
        "input_values": numbers(2, 1, 16000),
        "input_features": numbers(2, 50, 160),
        "input_features_mask": ones(2, 50),
    }


INPUTS: dict[str, Callable[[Any], Inputs]] = {
    "clap": lambda config: {
        "input_features": numbers(2, 1, 1024, 64),
        "is_longer": torch.zeros(2, 1, dtype=torch.bool),
    },
    "deepseek_ocr2_encoder": lambda config: {"inputs_embeds": numbers(2, 144, config.hidden_size), "num_patches": 144},
    "idefics": lambda config: {
        "pixel_values": numbers(2, 1, 3, *[config.vision_config.image_size] * 2),
        "image_attention_mask": ones(2, 40, 1),
    },
    "depth_pro": lambda config: {"pixel_values": numbers(2, 3, 256, 256)},
    "inkling_vision": lambda config: {"pixel_values": numbers(6, 2, 40, 40, 3)},
    "inkling2_vision": lambda config: {
        "pixel_values": numbers(40, 40, 40, 3),
        "image_grid_thw": torch.tensor([[1, 4, 6], [1, 4, 4]]),
    },
    "inkling_audio": lambda config: {"audio_input_ids": ids(2, 30, 80, n_ids=15)},
    "instructblip": lambda config: {
        "input_ids": text_with_picture(99, config.num_query_tokens),
        "pixel_values": numbers(2, 3, *[config.vision_config.image_size] * 2),
        "qformer_input_ids": ids(2, 13),
    },
    "instructblipvideo": lambda config: {
        "input_ids": text_with_picture(99, 4 * config.num_query_tokens),
        "pixel_values": numbers(2, 4, 3, *[config.vision_config.image_size] * 2),
        "qformer_input_ids": ids(2, 13),
    },
    "kosmos-2": lambda config: {
        "pixel_values": numbers(2, 3, *[config.vision_config.image_size] * 2),
        "image_embeds_position_mask": picture_tokens_mask(config.latent_query_num),
    },
    "mllama_vision_model": lambda config: {
        "pixel_values": numbers(2, 1, config.max_num_tiles, 3, config.image_size, config.image_size),
        "aspect_ratio_ids": torch.tensor([[6], [1]]),
        "aspect_ratio_mask": torch.tensor([[[1] * 4], [[1, 0, 0, 0]]]),
    },
    "minicpm_ocr_vision": patches_in_a_row,
    "minicpmv4_6_vision": patches_in_a_row,
    "minicpmv4_7_vision": patches_in_a_row,
    "mimi_decoder": lambda config: {"latents": numbers(2, config.hidden_size, 30)},
    "pocket_tts_audio_tokenizer_decoder": lambda config: {"latents": numbers(2, config.hidden_size, 30)},
    "molmo2_adapter": lambda config: {
        "image_features": numbers(2, 16, config.hidden_size),
        "pooled_patches_idx": torch.arange(32).reshape(8, 4),
    },
    "molmo2_vision": lambda config: {
        "pixel_values": numbers(2, (config.image_size[0] // config.patch_size) ** 2, 3 * config.patch_size**2)
    },
    "muse_spark_audio": lambda config: {"input_values": numbers(2, 30 * 1920)},
    "perceiver": lambda config: {"inputs": numbers(2, 40, config.d_model)},
    "pe_video": lambda config: {"pixel_values_videos": numbers(2, 4, 3, 64, 64)},
    "pe_video_encoder": lambda config: {"pixel_values_videos": numbers(2, 4, 3, 64, 64)},
    "pe_audio_video": video_with_sound,
    "pe_audio_video_encoder": video_with_sound,
    "phi4_multimodal_audio": lambda config: {"hidden_states": numbers(2, 160, 80), "mask": ones(2, 160).bool()},
    "pi0": lambda config: {"pixel_values": numbers(2, 1, 3, 64, 64), "pixel_attention_mask": ones(2, 1)},
    "pp_chart2table": lambda config: {
        "input_ids": text_with_picture(config.image_token_id, 1),
        "pixel_values": numbers(2, 3, 64, 64),
    },
    "qwen2_5_omni_audio_encoder": sound_frames,
    "qwen3_omni_moe_audio_encoder": sound_frames,
    "qwen3_omni_moe_talker_text": lambda config: {
        "input_ids": None,
        "inputs_embeds": numbers(2, 40, config.hidden_size),
    },
    "qwen2_5_omni_bigvgan": lambda config: {"mel_spectrogram": numbers(2, 80, 40)},
    "qwen2_5_omni_dit": lambda config: {
        "hidden_states": numbers(2, 40, config.mel_dim),
        "condition_vector": numbers(2, 40, config.mel_dim),
        "speaker_embedding": numbers(2, 40, config.enc_emb_dim),
        "quantized_code": ids(2, 20),
        "time_step": torch.tensor(0.3),
        "apply_cfg": False,
    },
    "rag": lambda config: {
        "context_input_ids": ids(10, 30),
        "context_attention_mask": ones(10, 30),
        "doc_scores": numbers(2, 5),
    },
    "sam": lambda config: points(config.vision_config.image_size),
    "sam_hq": lambda config: points(config.vision_config.image_size),
    "sam2": lambda config: points(64),
    "sam3_tracker": lambda config: points(config.vision_config.image_size),
    "edgetam": lambda config: points(64),
    "sam3_detr_decoder": sam3_decoder_inputs,
    "sam3_lite_text_detr_decoder": sam3_decoder_inputs,
    "sam3_detr_encoder": sam3_encoder_inputs,
    "sam3_lite_text_detr_encoder": sam3_encoder_inputs,
    "sam3_mask_decoder": sam3_mask_decoder_inputs,
    "sam3_lite_text_mask_decoder": sam3_mask_decoder_inputs,
    "sam3": boxes,
    "sam3_lite_text": boxes,
    "sam2_video": second_video_frame,
    "sam3_tracker_video": second_video_frame,
    "edgetam_video": second_video_frame,
    "seggpt": lambda config: {
        name: numbers(2, 3, 32, 32) for name in ("pixel_values", "prompt_pixel_values", "prompt_masks")
    },
    "siglip2": lambda config: patches(config.vision_config),
    "siglip2_vision_model": patches,
    "speech-encoder-decoder": lambda config: {"input_values": numbers(2, 4000), "decoder_input_ids": ids(2, 13)},
    "higgs_audio_v2_tokenizer": lambda config: {"input_values": numbers(2, 1, 9600)},
    "speecht5_hifigan": lambda config: {"spectrogram": numbers(2, 40, config.model_in_dim)},
    "timesfm": lambda config: {
        "past_values": numbers(2, 256),
        "past_values_padding": torch.zeros(2, 256),
        "freq": torch.zeros(2, 1, dtype=torch.long),
    },
    "tvp": lambda config: {
        "pixel_values": numbers(1, 2, 3, 128, 128),
        "input_ids": ids(1, 40),
        "attention_mask": ones(1, 40),
    },
    "unlimited_ocr_vision_encoder": lambda config: {"patch_embeds": numbers(2, config.hidden_size, 4, 4)},
    "vibevoice_acoustic_tokenizer_decoder": lambda config: {"hidden_states": numbers(2, 64, 8)},
    "vibevoice_acoustic_tokenizer_encoder": lambda config: {"hidden_states": numbers(2, 1, 6400)},
    "video_llama_3_vision": lambda config: {
        "pixel_values": numbers(40, 3 * config.patch_size**2),
        "grid_thw": torch.tensor([[1, 4, 6], [1, 4, 4]]),
        "merge_sizes": torch.tensor([2, 2]),
    },
    "videomt": lambda config: {"pixel_values_videos": numbers(2, 3, 3, 64, 64)},
    "voxtral_realtime_text": lambda config: {"t_cond": numbers(1, config.hidden_size)},
    "voxtral_realtime": lambda config: {"input_features": numbers(2, 128, 320)},
    "xclip_vision_model": lambda config: {"pixel_values": numbers(8, 3, *[config.image_size] * 2)},
    "moshi_depth": lambda config: {"input_ids": ids(2, 8), "last_hidden_state": numbers(2, 1, config.input_size)},
    "muse_glimmer_assistant": lambda config: {
        "noise_embeds": numbers(2, 8, config.hidden_size),
        "context_hidden_states": numbers(2, 40, len(config.target_layer_ids) * config.hidden_size),
    },
    "dots3_note_vision_encoder": lambda config: {
        "pixel_values": numbers(40, 3 * config.patch_size**2),
        "grid_thw": torch.tensor([[1, 4, 6], [1, 4, 4]]),
    },
    "dots3_note_audio_encoder": lambda config: {
        "input_features": numbers(2, 128, 160),
        "chunk_sample_lengths": torch.tensor([160 * 160, 160 * 160]),
    },
    "blt": lambda config: {"use_cache": False},
    "gemma3n_audio": lambda config: {
        "audio_mel": numbers(2, 160, config.input_feat_size),
        "audio_mel_mask": torch.zeros(2, 160, dtype=torch.bool),
    },
    "jev": lambda config: {
        "marks": torch.tensor([[10, 20, 30]]),
        "num_options": torch.tensor([[4, 3, 5]]),
        "question_type_ids": torch.zeros(1, 3, dtype=torch.long),
    },
    "granite_speech5_ctc": lambda config: {"input_features": numbers(2, 300, 4 * config.encoder_config.num_mel_bins)},
    "granite_speech5_encoder": lambda config: {"input_features": numbers(2, 300, 4 * config.num_mel_bins)},
    "gemma4_audio": lambda config: {"input_features": numbers(2, 160, 128), "attention_mask": ones(2, 160).bool()},
    "musicgen": lambda config: {"decoder_input_ids": ids(2 * config.decoder.num_codebooks, 13)},
    "musicgen_melody": lambda config: {"decoder_input_ids": ids(2 * config.decoder.num_codebooks, 13)},
    "florence_vision": lambda config: {"hidden_states": numbers(2, 3, 64, 64)},
    "xcodec": lambda config: {"input_values": numbers(2, 1, 16000)},
    "xcodec2": sound_and_features,
    "neucodec": sound_and_features,
}
"""For each model type, a function from its small configuration to the arguments of the model's `forward`."""
