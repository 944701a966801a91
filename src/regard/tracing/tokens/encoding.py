"""Encodes a text as the input tensors of a Hugging Face model, and checks that the model can read the text."""

from typing import TYPE_CHECKING, Any

import torch

from regard.attention.representation import type_name
from regard.errors import InputError, TooLongError, first_paragraph
from regard.likely_encoding import ends_within_character, likely_encoding
from regard.tracing.tokens.prompt import Prompt
from regard.tracing.tokens.readable_tokens import Token, pieces_of, readable_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def encode_text(
    model: "PreTrainedModel", tokenizer: Any, prompt: Prompt, truncate: bool, as_target: bool = False
) -> tuple[dict[str, torch.Tensor], tuple[Token, ...]]:
    """Return the tensors of a text for the model, on its device, and the tokens of the text.

    `as_target`: whether the decoder of an encoder-decoder reads the text; some tokenizers then use another language.
    """
    limit = token_limit(model, tokenizer)
    if prompt.ids is not None:
        encoded: Any = {"input_ids": prompt.ids[:, :limit] if truncate else prompt.ids}
        encoded["attention_mask"] = torch.ones_like(encoded["input_ids"])
    else:
        encoded = tokenized(tokenizer, prompt, limit if truncate else None, as_target)
    n_tokens = encoded["input_ids"].shape[1]
    if limit and n_tokens > limit:
        problem = f"the text is {n_tokens:,} tokens long and the model reads at most {limit:,}"
        raise TooLongError(problem, "shorten it", n_tokens, limit)
    check_vocabulary(model, tokenizer, encoded["input_ids"], as_target, were_given=prompt.ids is not None)
    tokens = readable_tokens(tokenizer, encoded, prompt.text, as_target)
    inputs = {name: ids.to(input_device(model)) for name, ids in encoded.items() if name != "offset_mapping"}
    return inputs, tokens


def tokenized(tokenizer: Any, prompt: Prompt, limit: int | None, as_target: bool) -> Any:
    """Return the tokenizer's output for a text, cut after `limit` tokens (None = not cut)."""
    text = prompt.text
    check_text(text)
    text_argument = {"text_target": text} if as_target else {"text": text}
    # verbose=False: without it, transformers would warn about a long text, for which `encode_text` raises an error
    options = {"truncation": True, "max_length": limit} if limit else {"verbose": False}
    options |= {"add_special_tokens": False} if prompt.has_special_tokens else {}
    has_offsets = bool(getattr(tokenizer, "is_fast", False))
    try:
        return tokenizer(**text_argument, return_tensors="pt", return_offsets_mapping=has_offsets, **options)
    except Exception as error:  # some tokenizers raise an error of their own until their languages are set
        raise InputError(
            f"{type(tokenizer).__name__} could not read the text: {first_paragraph(error)}; set what it needs "
            "(src_lang, tgt_lang where it knows languages) and give it with tokenizer=…."
        ) from error


def encode_target(
    model: "PreTrainedModel", tokenizer: Any, target: str, truncate: bool
) -> tuple[torch.Tensor, tuple[Token, ...]]:
    """Return the token ids [1 tokens] and the tokens that the decoder of an encoder-decoder reads.

    These are a start token, then all tokens of the target but the last.
    """
    encoded, tokens = encode_text(model, tokenizer, Prompt(target), truncate, as_target=True)
    start = torch.full((1, 1), decoder_start_id(model), device=input_device(model))
    (piece,) = pieces_of(tokenizer, [int(start)], as_target=True)
    ids = torch.cat([start, encoded["input_ids"][:, :-1]], dim=1)
    return ids, (Token(text=piece, piece=piece, special=True), *tokens[:-1])


def input_device(model: "PreTrainedModel") -> torch.device:
    """Return the device for the inputs of a model.

    The first parameters of a model that accelerate offloads are on the device meta, which has no numbers; accelerate
    moves the inputs from the CPU to where they are needed.
    """
    return torch.device("cpu") if model.device.type == "meta" else model.device


def decoder_start_id(model: "PreTrainedModel") -> int:
    """Return the id of the first input token of the decoder of an encoder-decoder."""
    for config in (model.config, getattr(model, "generation_config", None)):
        if isinstance(start := getattr(config, "decoder_start_token_id", None), int):
            return start
    raise InputError(
        f"{type(model).__name__} does not say what its target begins with; set model.config.decoder_start_token_id."
    )


PICTURE_CALL = "give it a picture: regard.trace(model, images=[picture]), or regard look --image FILE"
RECORDING_CALL = "give it a recording: regard.trace(model, audio=wave), or regard look --audio FILE"
MEDIA_CALLS = {"pixel_values": PICTURE_CALL, "input_values": RECORDING_CALL, "input_features": RECORDING_CALL}
"""Advice on models that read no text, by the name of their main input; `check_reads_text` puts it into its error."""


def check_is_pretrained(model: object) -> None:
    """Raise TypeError unless `model` is a Hugging Face model; other models may have a `config`, but no name or path."""
    is_module = isinstance(model, torch.nn.Module)
    if not (is_module and hasattr(model, "config") and hasattr(model, "name_or_path")):
        advice = " regard.watching(model) records the attention of any PyTorch model." if is_module else ""
        raise TypeError(
            f"trace takes a Hugging Face PreTrainedModel, or the name or folder of one; got {type_name(model)}.{advice}"
        )


def check_reads_text(model: "PreTrainedModel") -> None:
    """Raise TypeError unless `model` is a Hugging Face model, and InputError unless it reads text."""
    check_is_pretrained(model)
    if (reads := getattr(model, "main_input_name", "input_ids")) != "input_ids":
        instead = MEDIA_CALLS.get(reads, "record its attention with regard.watching(model)")
        raise InputError(f"{type(model).__name__} reads no text; {instead}.")


def check_vocabulary(
    model: "PreTrainedModel", tokenizer: Any, ids: torch.Tensor, as_target: bool, were_given: bool
) -> None:
    """Raise InputError if a model has no embedding for a token id, because the tokenizer belongs to another model.

    `as_target`: whether the decoder of an encoder-decoder reads the ids. `were_given`: whether the user gave ids, not a
    text.
    """
    reader = model.get_decoder() if as_target else model
    try:
        size = getattr(reader.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # the model has several submodels, each with an embedding matrix of its own
        return
    if size is None or not ids.numel() or int(ids.max()) < size:
        return
    if were_given:
        raise InputError(
            f"token id {int(ids.max())} is given and {type(model).__name__} knows {size:,} tokens; give ids from 0 to "
            f"{size - 1}."
        )
    raise InputError(
        f"the tokenizer has {len(tokenizer):,} tokens and {type(model).__name__} knows {size:,}, so it cannot read "
        f"token {int(ids.max())}; give the model's own tokenizer with tokenizer=…."
    )


def check_text(text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(
            f"the text is {type_name(text)}; give one text, a str, or trace several one by one: "
            "[regard.trace(model, text) for text in texts]."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate, place = ord(text[error.start]), len(text[: error.start].encode()) + 1
        if 0xDC80 <= surrogate <= 0xDCFF:  # Python's escape ("surrogateescape") of a byte that is not UTF-8
            given = text.encode(errors="surrogateescape")
            if ends_within_character(given):
                raise InputError(
                    "the text ends in the middle of a character; a part of it is missing: give the whole text."
                ) from error
            raise InputError(
                f"the text is not UTF-8 (byte 0x{surrogate - 0xDC00:02X} at position {place}); "
                f"convert it first, for instance with iconv -f {likely_encoding(given)} -t UTF-8."
            ) from error
        raise InputError(
            f"the text has a lone surrogate (U+{surrogate:04X} at position {error.start + 1}), "
            "which UTF-8 cannot encode; remove it."
        ) from error
    if not text.strip():
        raise InputError("the text is empty; give at least one word to look at.")


def token_limit(model: "PreTrainedModel", tokenizer: Any) -> int | None:
    """Return the largest number of tokens that both the model and the tokenizer accept; None = no limit."""
    limits = (position_limit(model), getattr(tokenizer, "model_max_length", None))
    numbers = [limit for limit in limits if isinstance(limit, int | float) and not isinstance(limit, bool)]
    return min((int(limit) for limit in numbers if 1 <= limit < 10**9), default=None)  # in a tokenizer, 10³⁰ = no limit


def position_limit(model: "PreTrainedModel") -> int | None:
    """Return the largest number of tokens for which the model has positions; None if its configuration does not say.

    RoBERTa counts positions from padding_idx + 1, so its first padding_idx + 1 position embeddings are not used.
    """
    n_positions: int | None = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings) - int(module.padding_idx) - 1
    return n_positions
