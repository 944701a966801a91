"""Shrink the configuration of any transformers model, so that a random model can be built in a moment.

Sizes are recognised by the names of their fields. Sizes that must agree get one value everywhere.
"""

import re
from collections.abc import Mapping
from typing import Any

Values = dict[str, Any]

WIDTH, HEADS, D_HEAD, FEED_FORWARD, LAYERS, VOCABULARY = 128, 4, 32, 128, 2, 128

UNCHANGED = -1
"""In place of the largest value of a field: the field keeps its value."""

RULES: tuple[tuple[str, int], ...] = (
    (r"(?:^|_)vocab_size(?:_per_layer_input)?$|^vocab_size_base$|^n_words$", VOCABULARY),
    (r"num_mel_bins|num_channels|in_channels|in_chans|sampling_rate|rope_theta|^seed$", UNCHANGED),
    (r"(?:num|n)_(?:key_value|kv)_heads|num_kv_heads|num_key_value|query_groups", 2),
    (r"linear_num_(?:key|value)_heads", 2),
    (r"mamba_(?:n_heads|num_heads)|mamba_d_head|mamba_head_?dim", UNCHANGED),
    (r"(?:attention_|^)heads(?:_per_layer)?$|(?:num|n)_heads?$|^n_head$|^nhead$", HEADS),
    (r"rope_head_dim|rotary_dim", 16),
    (r"head_dim|d_kv$|kv_channels|d_head|dim_head|attention_head_size", D_HEAD),
    (r"lora_rank|lora_dim|_rank$", 32),
    (r"experts_per_tok|num_selected_experts|moe_top_?k|moe_k$|^top_k$", 2),
    (r"^n_groups?$|^topk_group$|num_expert_groups?", 1),
    (r"num_(?:local_|routed_)?experts$|n_routed_experts|moe_num_experts|zero_expert_num", 4),
    (r"first_k_dense_replace|offset$|num_kv_shared_layers", 1),
    (r"(?:period|interval|_pattern|every_n_layers|sparse_step)$", 2),
    (r"index_topk", 8),
    (r"local_attention|sliding_window|attention_window|attention_chunk_size|window_size_left|^attn_window", 12),
    (r"(?:feed_?forward|ffn|intermediate|mlp|inner)_?(?:hidden_)?(?:size|dim)?$|d_ff$|ffw", FEED_FORWARD),
    (r"n_inner|d_inner|intermediate_size", FEED_FORWARD),
    (r"(?:^|_)(?:n_|num_)?(?:hidden_)?layers?$|^depth$|^n_layer$|_depth$", LAYERS),
    (r"max_sequence_length|seq_len|context_length", 512),
    (r"max_source_positions", 40),
    (r"(?:hidden|embed(?:ding)?|projection|projector|decoder|encoder|model|out|output)_?(?:size|dim)s?$", WIDTH),
    (r"^d_model$|n_embd|embed_dim|_hidden_size|hidden_dim|projection_dim|proj_dim|^dim$|^width$|fpn_hidden", WIDTH),
    (r"hidden_size|adapter_(?:in|out|input|output)_(?:dim|size)", WIDTH),
)
"""Pairs (pattern of field names, largest value of such a field); the first match counts."""

SIZES = (WIDTH, FEED_FORWARD, HEADS, D_HEAD, 16, 32)
LAYER_COUNTS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers", "depth")
HEAD_COUNTS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads")


DERIVED = (
    "out_features",
    "out_indices",
    "stage_names",
    "per_layer_config",
    "transformers_version",
    "architectures",
    "conv_output_size",
)
"""Fields that are left out: their values follow from others and would no longer fit."""

MISSING = {
    "vocab_size": VOCABULARY,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "num_key_value_heads": HEADS,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "prediction_length": 8,
    "context_length": 24,
}
"""Values for fields that are None by default, although the models need a value."""


def shrink(config: Any, *, sizes: bool = True, derive: bool = False) -> Values:
    """Return the fields of a configuration with smaller values.

    Args:
        sizes: also shrink widths and heads, besides layers, vocabularies, experts, windows and images.
        derive: leave out the lists that the configuration derives itself, such as the kinds of its layers.
    """
    values = config.to_dict()
    n_layers = next((values[name] for name in LAYER_COUNTS if isinstance(values.get(name), int)), None)
    layers = [0, 1] if derive else layers_to_keep(values, n_layers)
    has_stages = any(isinstance(values.get(name), list) for name in (*HEAD_COUNTS, "depths", "hidden_sizes"))
    left_out = set(DERIVED)
    if "lags_sequence" in values:
        left_out.add("feature_size")
    if not hasattr(config, "from_dict"):
        left_out.add("model_type")
    small: Values = {}
    for name, value in values.items():
        part = part_of(config, name)
        if name in left_out:
            continue
        if hasattr(part, "to_dict"):
            small[name] = shrink(part, sizes=sizes, derive=derive)
            if name == "backbone_config":
                small[name] = small_backbone(small[name], part)
        elif isinstance(value, list | dict) and derive and getattr(type(config), name, 0) is None:
            continue
        elif isinstance(value, list):
            small[name] = small_list(name, value, n_layers, layers)
        elif isinstance(value, Mapping):
            small[name] = {key: entry for key, entry in value.items() if key != "mrope_section"}
            if isinstance(value.get("mrope_section"), list):
                small[name]["mrope_section"] = list(value["mrope_section"])
        elif value is None:
            small[name] = MISSING.get(name)
        elif isinstance(value, int) and not isinstance(value, bool):
            small[name] = small_number(name, value, values, sizes and not has_stages, len(layers))
        else:
            small[name] = value
    if sizes:
        repair(small, values)
        if "mrope_section" in (getattr(config, "ignore_keys_at_rope_validation", None) or ()):
            add_sections(small)
    return small


def small_backbone(small: Values, config: Any) -> Values:
    """Return a small backbone with as many feature maps as the original backbone `config`."""
    if small.get("model_type") == "timm_backbone":
        return dict(RESNET)
    features = getattr(config, "out_features", None) or []
    n_maps = len(features)
    if isinstance(small.get("num_hidden_layers"), int) and "depths" not in small:
        return {**small, "num_hidden_layers": n_maps + 1, "out_indices": list(range(1, n_maps + 1))}
    return {**small, "out_features": list(features)}


def part_of(config: Any, name: str) -> Any:
    """Return an attribute; None if it is missing or differs between layers."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


RESNET = {
    "model_type": "resnet",
    "embedding_size": 16,
    "hidden_sizes": [16, 32, 64, 128],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}
"""Replaces backbones that need the package timm."""


def layers_to_keep(values: Mapping[str, Any], n_layers: int | None) -> list[int]:
    """Return the indices of the first layer of each kind, and of at least two layers."""
    kinds = [str(kinds_of_layer) for kinds_of_layer in zip(*kind_lists(values, n_layers), strict=True)]
    first_of_kind = sorted({kinds.index(kind) for kind in kinds})
    others = [layer for layer in range(n_layers or LAYERS) if layer not in first_of_kind]
    return sorted([*first_of_kind, *others[: max(0, LAYERS - len(first_of_kind))]])


def kind_lists(values: Mapping[str, Any], n_layers: int | None) -> list[list[str]]:
    """Return the lists in a configuration that name a kind for each layer; none if there are at most two layers."""
    if n_layers is None or n_layers <= 2:
        return []
    lists = [value for value in values.values() if isinstance(value, list) and len(value) == n_layers]
    return [value for value in lists if all(isinstance(kind, str) for kind in value)]


def small_list(name: str, value: list[Any], n_layers: int | None, layers: list[int]) -> list[Any]:
    """Return a list without the entries of layers that are left out; `layers` are the indices of the layers kept."""
    if n_layers is not None and len(value) == n_layers and n_layers > len(layers):
        if sorted(value, key=str) == sorted(range(n_layers), key=str):  # the indices of all layers
            return list(range(len(layers)))
        return [value[layer] for layer in layers]
    if name == "depths" or name.endswith("num_blocks"):
        return [min(depth, 2) for depth in value]
    if re.search(r"indic|index|_layers$|_layer$|layer_ids$|idxs$", name) and all(isinstance(i, int) for i in value):
        return sorted({min(i, len(layers) - 1) for i in value})
    return value


def small_number(name: str, value: int, values: Mapping[str, Any], sizes: bool, n_layers: int) -> int:
    """Return a number within the limit of `RULES`; `n_layers` is the number of layers kept."""
    if re.search(r"token_(?:id|index)$|_id$", name):
        return token_id(name, value)
    if re.search(r"max_(?:text_)?position_embeddings|n_positions", name):
        return max(64, min(value, 512))
    if name == "image_size":
        patch = values.get("patch_size", 16)
        patch = max(patch) if isinstance(patch, list) else patch or 16
        return min(value, 4 * patch if patch > 7 else 16 * patch)
    limit = next((limit for pattern, limit in RULES if re.search(pattern, name)), UNCHANGED)
    if limit == UNCHANGED or (not sizes and limit in SIZES):
        return value
    if limit == LAYERS and name in LAYER_COUNTS:
        return min(value, n_layers)
    is_heads = limit == 2 and "heads" in name
    if is_heads and value == values.get(name.replace("key_value", "attention")):  # each head has its own key and value
        return HEADS if sizes else value
    return min(value, limit) if limit > 2 or value > 2 else value


def token_id(name: str, value: int) -> int:
    """Return an id within the small vocabulary: ids below 8 stay, others are made from the name."""
    return value if value < 8 else VOCABULARY - 1 - sum(map(ord, name)) % 50


def repair(small: Values, values: Mapping[str, Any]) -> None:
    """Correct sizes in `small` that depend on other sizes, as the original `values` show."""
    if "num_feat_extract_layers" in small and "conv_dim" in small:
        small["num_feat_extract_layers"] = len(small["conv_dim"])
    if isinstance(small.get("image_embedding_size"), int):
        small["image_embedding_size"] = small["image_size"] // small["patch_size"]
    d_rope = values.get("qk_rope_head_dim")
    if d_rope and small.get("qk_nope_head_dim"):
        if "qk_head_dim" in small:
            small["qk_head_dim"] = small["qk_nope_head_dim"] + small["qk_rope_head_dim"]
        if values.get("head_dim") == d_rope:
            small["head_dim"] = small["qk_rope_head_dim"]
        elif values.get("head_dim") and values["head_dim"] == values.get("qk_head_dim"):
            small["head_dim"] = small["qk_head_dim"]
    if values.get("mamba_expand") and "mamba_d_head" in values:
        small["mamba_n_heads"], small["mamba_d_head"] = 4, values["mamba_expand"] * WIDTH // 4


def add_sections(small: Values) -> None:
    """Add `mrope_section`, the split of a head's width between time, height and width in rotary positions."""
    rope = small.get("rope_parameters")
    if not rope:
        return
    of_layer_kinds = [parameters for parameters in rope.values() if isinstance(parameters, dict)]
    for parameters in of_layer_kinds or [rope]:
        factor = parameters.get("partial_rotary_factor") or small.get("partial_rotary_factor") or 1
        d_rotated = int((small.get("head_dim") or D_HEAD) * factor)
        parameters["mrope_section"] = split(d_rotated // 2, n_parts=3)


def split(total: int, n_parts: int) -> list[int]:
    """Split a number into parts that differ by at most 1."""
    return [(total + part) // n_parts for part in range(n_parts)]
