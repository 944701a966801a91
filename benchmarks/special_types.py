"""Configuration values and model classes for the model types that the rules of `small_config.py` do not fit."""

from typing import Any

TIME_SERIES = {"prediction_length": 8, "context_length": 24, "lags_sequence": [1, 2, 3], "num_time_features": 1}
HEAD = {"head_dim": 32}
ROPE_BY_KIND = {
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5]},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5]},
    }
}

EXPERTS = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64}
SHARED_CACHE = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 32,
    "intermediate_size": 128,
    "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
}
HIERA = {
    "image_size": [64, 64],
    "hidden_size": 32,
    "blocks_per_stage": [1, 2, 2, 2],
    "embed_dim_per_stage": [32, 64, 128, 256],
    "num_attention_heads_per_stage": [1, 2, 4, 8],
    "window_size_per_stage": [8, 4, 4, 2],
    "global_attention_blocks": [4],
}
HIERA_VISION = {
    "backbone_config": {"model_type": "sam2_hiera_det_model", **HIERA},
    "backbone_channel_list": [256, 128, 64, 32],
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
}
REPVIT = {
    "backbone_config": {
        "model_type": "timm_wrapper",
        "architecture": "repvit_m1",
        "num_classes": 10,
        "num_labels": 10,
        "model_args": {"features_only": True, "out_indices": [0, 1, 2, 3]},
    },
    "backbone_channel_list": [384, 192, 96, 48],
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
}
CLAP = {
    "patch_embeds_hidden_size": 16,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "depths": [2, 2, 2, 2],
    "num_attention_heads": [1, 2, 4, 8],
}
ASSISTANT = {
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0,
}
INDEXER = {
    "indexer_budget": 16,
    "indexer_compress_ratio": 4,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 32,
}
SWIN = {
    "model_type": "swin",
    "embed_dim": 32,
    "depths": [1, 1, 2, 1],
    "num_heads": [1, 2, 4, 8],
    "window_size": 4,
    "image_size": 128,
    "out_features": ["stage2", "stage3", "stage4"],
}
GROUNDING = {"backbone_config": SWIN, "num_queries": 9}
BERT = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SMALL_VIT = {
    "model_type": "timm_wrapper",
    "architecture": "vit_tiny_patch16_224",
    "model_args": {"img_size": 64, "embed_dim": 192},
}
PE_VIT = {"model_args": {"img_size": [64, 64], "depth": 2}}
DINO = {"image_size": 64, "patch_size": 16, "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4}

VALUES: dict[str, dict[str, Any]] = {
    "clap": {"audio_config": CLAP},
    "depth_pro": {
        "patch_size": 64,
        "intermediate_hook_ids": [1, 0],
        "image_model_config": DINO,
        "patch_model_config": DINO,
        "fov_model_config": DINO,
    },
    "diffusion_gemma": {"text_config": EXPERTS},
    "diffusion_gemma_text": EXPERTS,
    "dots3_note": {"vision_config": {"num_experts_per_tok": 2}},
    "edgetam": {"vision_config": REPVIT},
    "edgetam_video": {
        "vision_config": {"model_type": "edgetam_vision_model", **REPVIT},
        "prompt_encoder_config": {"image_size": 64},
        "image_size": 64,
        "memory_attention_rope_feat_sizes": [4, 4],
        "memory_attention_rope_k_sizes": [4, 4],
        "perceiver_resampler_attention_head_dim": 64,
        "perceiver_resampler_num_latents": 16,
        "perceiver_resampler_num_latents_2d": 16,
    },
    "edgetam_vision_model": REPVIT,
    "eomt": {"num_hidden_layers": 6, "num_blocks": 2},
    "eomt_dinov3": {"num_hidden_layers": 6, "num_blocks": 2},
    "fast_vlm": {"vision_config": {"model_type": "timm_wrapper", "architecture": "fastvit_mci0"}},
    "gemma3n": {"text_config": SHARED_CACHE},
    "gemma4_assistant": {"text_config": ASSISTANT},
    "gemma4_unified_assistant": {"text_config": ASSISTANT},
    "grounding-dino": GROUNDING,
    "mm-grounding-dino": GROUNDING,
    "mimi_decoder": {"upsample_groups": 128},
    "neucodec": {"quantization_dim": 256},
    "xcodec2": {"quantization_dim": 256},
    "phi4_multimodal_audio": {
        "nemo_conv_channels": 128,
        "ext_pw_out_channel": 128,
        "depthwise_separable_out_channel": 128,
    },
    "pocket_tts_audio_tokenizer_decoder": {"upsample_groups": 128},
    "tvp": {"num_frames": 2, "max_img_size": 128, "visual_prompt_size": 8},
    "granite4_vision": {
        "deepstack_layer_map": [[0, 0], [1, 1]],
        "spatial_target_layers": [0, 1, 0, 1],
        "downsample_rate": "1/2",
    },
    "hrm_text": {"num_hidden_layers": 2, "num_layers_per_stack": None},
    "idefics": {"use_resampler": True},
    "instructblip": {"num_query_tokens": 16, "image_token_index": 99},
    "instructblipvideo": {"num_query_tokens": 4, "video_token_index": 99},
    "kosmos-2": {"latent_query_num": 16},
    "muse_spark": {"audio_config": {"out_hidden_size": 128}},
    "jev": {"offsets": dict.fromkeys(("noul", "one", "yes"), 0)},
    "lw_detr": {"projector_scale_factors": [1.0], "num_feature_levels": 1, "num_queries": 9},
    "pe_audio_video": {"audio_video_config": {"video_config": {"vision_config": PE_VIT}}},
    "pe_audio_video_encoder": {"video_config": {"vision_config": PE_VIT}},
    "pe_video": {"video_config": {"vision_config": PE_VIT}},
    "pe_video_encoder": {"vision_config": PE_VIT},
    "pix2struct": {"vision_config": {"patch_embed_hidden_size": 768}},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 64},
    "rf_detr": {"num_queries": 9},
    "speech-encoder-decoder": {
        "encoder": {"model_type": "wav2vec2", **BERT},
        "decoder": {"model_type": "bert", "is_decoder": True, "add_cross_attention": True, **BERT},
    },
    "janus_vqgan": {"num_patches": 4},
    "perception_lm": {"vision_config": SMALL_VIT},
    "qwen4_exp": {"text_config": INDEXER},
    "qwen4_exp_text": INDEXER,
    "sam": {"vision_config": {"output_channels": 128, "num_pos_feats": 64}},
    "sam_hq": {"vision_config": {"output_channels": 128, "num_pos_feats": 64}, "mask_decoder_config": {"vit_dim": 128}},
    "sam3_tracker": {"vision_config": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]}},
    "sam3_tracker_video": {
        "image_size": 56,
        "memory_attention_rope_feat_sizes": [4, 4],
        "vision_config": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    },
    "sam2": {"vision_config": HIERA_VISION, "prompt_encoder_config": {"image_size": 64}},
    "sam2_hiera_det_model": HIERA,
    "sam2_video": {
        "vision_config": HIERA_VISION,
        "prompt_encoder_config": {"image_size": 64},
        "image_size": 64,
        "memory_attention_rope_feat_sizes": [4, 4],
    },
    "sam2_vision_model": HIERA_VISION,
    "seggpt": {
        "image_size": [64, 32],
        "pretrain_image_size": 32,
        "num_hidden_layers": 4,
        "merge_index": 0,
        "intermediate_hidden_state_indices": [1, 2, 3],
    },
    "shieldgemma2": {"yes_token_index": 90, "no_token_index": 91},
    "step3p5": {"sliding_window": 12},
    "step3p7": {"text_config": {"sliding_window": 12}},
    "timm_backbone": {"backbone": "resnet18"},
    "uvdoc": {"backbone_config": {"out_features": [f"stage{number}" for number in range(1, 7)]}},
    "xcodec": {"codebook_dim": 256},
    "xlstm": {"num_blocks": 2, "num_hidden_layers": 2},
    "zamba": {
        "attention_hidden_size": 256,
        "attention_head_dim": 64,
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
    "autoformer": TIME_SERIES,
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 100},
    "chameleon": {"vocabulary_map": {"<image>": 99, "IMGIMGAZ": 98}},
    "cohere_compass": {"text_config": ROPE_BY_KIND},
    "cohere_compass_text": ROPE_BY_KIND,
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse"]}},
    "deepseek_ocr2_vision": {"sam_config": {"downsample_channels": [64, 128]}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "dots1": {"n_routed_experts": 4},
    "efficientnet": {"hidden_dim": 1280 * 2},
    "emu3": {"vocabulary_map": {"<image>": 99, "<|visual token 000001|>": 98}},
    "falcon_h1": {"mamba_d_ssm": 256, "mamba_n_heads": 4, "mamba_d_head": 64},
    "glm5_next": {"text_config": {"index_topk": 16}},
    "glm5_next_text": {"index_topk": 16},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "hunyuan_v1_dense": HEAD,
    "hunyuan_v1_moe": HEAD,
    "hunyuan_vl": {"text_config": HEAD},
    "hunyuan_vl_text": HEAD,
    "informer": TIME_SERIES,
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "llama4_vision_model": {"intermediate_size": 512, "projector_input_dim": 128, "projector_output_dim": 128},
    "mamba2": {"num_heads": 8, "head_dim": 32, "hidden_size": 128, "expand": 2},
    "ministral": HEAD,
    "moonshine_streaming": {"num_key_value_heads": 4},
    "nemotron": {"num_key_value_heads": 2, "head_dim": 32},
    "nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 40},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "time_series_transformer": TIME_SERIES,
    "xmod": {"default_language": "en_XX"},
}
"""Fields of the configuration to set, by model type."""


CLASSES = {
    "MusicgenConfig": "MusicgenForConditionalGeneration",
    "MusicgenMelodyConfig": "MusicgenMelodyForConditionalGeneration",
    "NougatConfig": "VisionEncoderDecoderModel",
    "PPChart2TableConfig": "GotOcr2ForConditionalGeneration",
}
"""The model class of a configuration that uses the class of another model type."""

GENERATES = "it has `generate` but no `forward`; its parts are types of their own"
ENCODES = "it has `encode` and `decode` but no `forward`; the model around it calls them"
DETECTRON = "it needs the package detectron2, which the Python package index does not have"
SHARES = "its layers must all take keys and values from another model; its own configuration refuses that"
BLOCKS = "it is made of convolutions; its configuration has no default for intraclass_block_config"
EMBEDS = "it is a configuration only; the model around it embeds its inputs without attention"

REASONS = {
    "bark": "it has `generate` but no `forward`",
    "chameleon_vqgan": ENCODES,
    "dinat": "it needs functions of the package natten that its present releases do not have",
    "emu3_vqgan": ENCODES,
    "esmfold2": "it reads molecules; the command makes no such inputs",
    "gemma4_assistant": SHARES,
    "gemma4_unified_assistant": SHARES,
    "gemma4_unified_audio": EMBEDS,
    "gemma4_unified_vision": EMBEDS,
    "glm_image_vqmodel": ENCODES,
    "higgs_audio_v2_tokenizer": "its two small encoders of sound give different numbers of frames",
    "layoutlmv2": DETECTRON,
    "layoutxlm": DETECTRON,
    "nougat": "its configuration names donut_swin, a type that transformers does not have",
    "omdet-turbo": "its parts of text and of pictures do not fit each other when they are small",
    "pp_ocrv5_server_det": BLOCKS,
    "pp_ocrv6_medium_det": BLOCKS,
    "pp_ocrv6_small_det": "it is made of convolutions, which do not fit each other when they are small",
    "qwen2_5_omni": GENERATES,
    "qwen2_5_omni_token2wav": "its two parts, of 449 million parameters, are types of their own",
    "qwen3_omni_moe": GENERATES,
    "sapiens2_head": "it is a head of convolutions in models that do not fit together when they are small",
    "vibevoice_diffusion": "the model around it runs it only while it writes sound",
    "sam3_video": "it reads a session of a detector and a tracker, which are types of their own",
}
"""Why a model type cannot be tested."""
