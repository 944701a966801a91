"""Encode a text for a Hugging Face model: its ids and its tokens, or the reason why the model cannot read it."""

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
    """Return the model's inputs, the tokens of its encoder's text and the tokens of its decoder's.

    Raises:
        InputError: an encoder-decoder without a target, another model with one, or a text that it cannot read.
    """
    has_target = bool(model.config.is_encoder_decoder)
    if has_target and target is None:
        raise InputError(f"{type(model).__name__} reads a source and writes a target; give the target text as well.")
    if not has_target and target is not None:
        raise InputError(f"{type(model).__name__} reads one text, so it takes no target.")
    inputs, tokens = encode_text(model, tokenizer, text, truncate)
    if not has_target:
        return (inputs, (), tokens) if is_causal(model) else (inputs, tokens, ())
    encoded_target, target_tokens = encode_text(model, tokenizer, target or "", truncate, as_target=True)
    start = torch.full((1, 1), decoder_start_id(model), device=model.device)
    shifted = torch.cat([start, encoded_target["input_ids"][:, :-1]], dim=1)
    piece = tokenizer.convert_ids_to_tokens(int(start))
    shifted_tokens = (Token(text=piece, piece=piece, special=True), *target_tokens[:-1])
    return {**inputs, "decoder_input_ids": shifted}, tokens, shifted_tokens


def decoder_start_id(model: "PreTrainedModel") -> int:
    """Return the id of the token that an encoder-decoder's target begins with."""
    for config in (model.config, getattr(model, "generation_config", None)):
        if isinstance(start := getattr(config, "decoder_start_token_id", None), int):
            return start
    raise InputError(
        f"{type(model).__name__} does not say what its target begins with; set model.config.decoder_start_token_id."
    )


def encode_text(
    model: "PreTrainedModel", tokenizer: Any, text: str, truncate: bool, as_target: bool = False
) -> tuple[dict[str, torch.Tensor], tuple[Token, ...]]:
    """Return the ids and the tokens of one text.

    Raises:
        InputError: the text is empty, not UTF-8 or too long, or the tokenizer does not belong to the model.
    """
    check_text(text)
    limit = token_limit(model, tokenizer)
    side = {"text_target": text} if as_target else {"text": text}
    limits = {"truncation": True, "max_length": limit} if truncate and limit else {"verbose": False}
    offsets = bool(getattr(tokenizer, "is_fast", False))
    try:
        encoded = tokenizer(**side, return_tensors="pt", return_offsets_mapping=offsets, **limits)
    except Exception as error:  # not regard's code: some tokenizers refuse a text until their languages are set
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
    check_vocabulary(model, tokenizer, encoded["input_ids"], as_target)
    tokens = tokens_of(tokenizer, encoded, text, as_target)
    inputs = {name: ids.to(model.device) for name, ids in encoded.items() if name != "offset_mapping"}
    return inputs, tokens


def check_reads_text(model: "PreTrainedModel") -> None:
    """Raise TypeError unless `model` is a Hugging Face model, and InputError unless it reads text."""
    if not (isinstance(model, torch.nn.Module) and hasattr(model, "config")):
        raise TypeError(
            f"trace takes a Hugging Face PreTrainedModel, or the name or folder of one; got {type_name(model)}."
        )
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise InputError(
            f"{type(model).__name__} reads no text; watch it with regard.install(model), which makes patterns of its "
            "outputs' attentions."
        )


def check_vocabulary(model: "PreTrainedModel", tokenizer: Any, ids: torch.Tensor, as_target: bool) -> None:
    """Raise InputError if a token's id is not in the model's embedding."""
    part = model.get_decoder() if as_target else model
    try:
        size = getattr(part.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # a model of several parts, each with an embedding of its own
        return
    if size is not None and ids.numel() and int(ids.max()) >= size:
        raise InputError(
            f"the tokenizer has {len(tokenizer):,} tokens and {type(model).__name__} knows {size:,}, so it cannot read "
            f"token {int(ids.max())}; give the model's own tokenizer with tokenizer=…."
        )


def check_text(text: str) -> None:
    """Raise TypeError unless `text` is a str, and InputError if it is empty or cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"the text is {type_name(text)}; give one text, a str, and for several call trace for each.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate, place = ord(text[error.start]), len(text[: error.start].encode()) + 1
        if 0xDC80 <= surrogate <= 0xDCFF:  # Python's escape ("surrogateescape") of a byte that is not UTF-8
            raise InputError(
                f"the text is not UTF-8 (byte 0x{surrogate - 0xDC00:02X} at place {place}); "
                "convert it first, for instance with iconv -f LATIN1 -t UTF-8."
            ) from error
        raise InputError(
            f"the text has half a character (U+{surrogate:04X} at place {error.start + 1}), "
            "which UTF-8 cannot write; remove it."
        ) from error
    if not text.strip():
        raise InputError("the text is empty; give at least one word to look at.")


def token_limit(model: "PreTrainedModel", tokenizer: Any) -> int | None:
    """Return the largest number of tokens that the model reads; None if neither model nor tokenizer states a limit."""
    limits = (position_limit(model), getattr(tokenizer, "model_max_length", None))
    return min((limit for limit in limits if limit and 0 < limit < 10**9), default=None)


def position_limit(model: "PreTrainedModel") -> int | None:
    """Return the number of positions in the model's configuration.

    RoBERTa and related models count positions from the one after the padding's, so they have fewer than that.
    """
    n_positions: int | None = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings) - int(module.padding_idx) - 1
    return n_positions


def is_causal(model: "PreTrainedModel") -> bool:
    """Return whether some module of the model says that its attention is causal."""
    return any(getattr(module, "is_causal", False) for module in model.modules())
