"""A text as a Hugging Face model reads it: its ids and its tokens, or in words why it cannot."""

from typing import TYPE_CHECKING, Any

import torch

from regard.attention.representation import type_name
from regard.errors import InputError, first_words
from regard.tracing.tokens import Token, tokens_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def encode(
    model: "PreTrainedModel", tokenizer: Any, text: str, target: str | None, truncate: bool
) -> tuple[dict[str, torch.Tensor], tuple[Token, ...], tuple[Token, ...]]:
    """The model's inputs, and the tokens of source and target."""
    two = bool(model.config.is_encoder_decoder)
    if two and target is None:
        raise InputError(f"{type(model).__name__} reads a source and writes a target; give the target text as well.")
    if not two and target is not None:
        raise InputError(f"{type(model).__name__} reads one text, so it takes no target.")
    inputs, tokens = encode_one(model, tokenizer, text, truncate)
    if not two:
        return (inputs, (), tokens) if is_causal(model) else (inputs, tokens, ())
    written, target_tokens = encode_one(model, tokenizer, target or "", truncate, as_target=True)
    start = torch.full((1, 1), first_of_target(model), device=model.device)
    shifted = torch.cat([start, written["input_ids"][:, :-1]], dim=1)
    piece = tokenizer.convert_ids_to_tokens(int(start))
    begun = (Token(text=piece, piece=piece, special=True), *target_tokens[:-1])
    return {**inputs, "decoder_input_ids": shifted}, tokens, begun


def first_of_target(model: "PreTrainedModel") -> int:
    """The token that an encoder-decoder's target begins with."""
    for config in (model.config, getattr(model, "generation_config", None)):
        if isinstance(start := getattr(config, "decoder_start_token_id", None), int):
            return start
    raise InputError(
        f"{type(model).__name__} does not say what its target begins with; set model.config.decoder_start_token_id."
    )


def encode_one(
    model: "PreTrainedModel", tokenizer: Any, text: str, truncate: bool, as_target: bool = False
) -> tuple[dict[str, torch.Tensor], tuple[Token, ...]]:
    """One text as ids and tokens, refused where it is empty or too long."""
    refuse_unreadable(text)
    limit = longest(model, tokenizer)
    side = {"text_target": text} if as_target else {"text": text}
    limits = {"truncation": True, "max_length": limit} if truncate and limit else {"verbose": False}
    offsets = bool(getattr(tokenizer, "is_fast", False))
    try:
        encoded = tokenizer(**side, return_tensors="pt", return_offsets_mapping=offsets, **limits)
    except Exception as error:  # a tokenizer is somebody else's program, and may want to know the languages first
        raise InputError(
            f"{type(tokenizer).__name__} could not read the text: {first_words(error)}; set what it needs (src_lang, "
            "tgt_lang where it knows languages) and give it with tokenizer=…."
        ) from error
    n_tokens = encoded["input_ids"].shape[1]
    if limit and n_tokens > limit:
        raise InputError(
            f"the text is {n_tokens:,} tokens long and the model reads at most {limit:,}; "
            f"shorten it, or read only its beginning with --truncate (truncate=True)."
        )
    refuse_unknown(model, tokenizer, encoded["input_ids"], as_target)
    tokens = tokens_of(tokenizer, encoded, text, as_target)
    inputs = {name: ids.to(model.device) for name, ids in encoded.items() if name != "offset_mapping"}
    return inputs, tokens


def refuse_unread(model: "PreTrainedModel") -> None:
    """There must be a model, and one that reads text."""
    if not (isinstance(model, torch.nn.Module) and hasattr(model, "config")):
        raise TypeError(
            f"trace takes a Hugging Face PreTrainedModel, or the name or folder of one; got {type_name(model)}."
        )
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise InputError(
            f"{type(model).__name__} reads no text; watch it with regard.install(model), which makes patterns of its "
            "outputs' attentions."
        )


def refuse_unknown(model: "PreTrainedModel", tokenizer: Any, ids: torch.Tensor, as_target: bool) -> None:
    """Every token must be one of the model's."""
    reader = model.get_decoder() if as_target else model
    try:
        size = getattr(reader.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # a model of several that read
        return
    if size is not None and ids.numel() and int(ids.max()) >= size:
        raise InputError(
            f"the tokenizer has {len(tokenizer):,} tokens and {type(model).__name__} knows {size:,}, so it cannot read "
            f"token {int(ids.max())}; give the model's own tokenizer with tokenizer=…."
        )


def refuse_unreadable(text: str) -> None:
    """There must be something to look at: one text, of which each letter is one."""
    if not isinstance(text, str):
        raise TypeError(f"the text is {type_name(text)}; give one text, a str, and for several call trace for each.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half, place = ord(text[error.start]), len(text[: error.start].encode()) + 1
        if 0xDC80 <= half <= 0xDCFF:  # what Python makes of a byte that is not UTF-8 ("surrogateescape")
            raise InputError(
                f"the text is not UTF-8 (byte 0x{half - 0xDC00:02X} at place {place}); "
                "convert it first, for instance with iconv -f LATIN1 -t UTF-8."
            ) from error
        raise InputError(
            f"the text has half a character (U+{half:04X} at place {error.start + 1}), "
            "which UTF-8 cannot write; remove it."
        ) from error
    if not text.strip():
        raise InputError("the text is empty; give at least one word to look at.")


def longest(model: "PreTrainedModel", tokenizer: Any) -> int | None:
    """How many tokens the model reads at most; None where neither it nor its tokenizer says so."""
    limits = (positions_of(model), getattr(tokenizer, "model_max_length", None))
    return min((limit for limit in limits if limit and 0 < limit < 10**9), default=None)


def positions_of(model: "PreTrainedModel") -> int | None:
    """How many positions a model says that it knows; RoBERTa and its kin count from after that of padding."""
    n_positions: int | None = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings) - int(module.padding_idx) - 1
    return n_positions


def is_causal(model: "PreTrainedModel") -> bool:
    """Whether a model's tokens see only what came before them."""
    return any(getattr(module, "is_causal", False) for module in model.modules())
