"""The input text of a model, given as a text, as the messages of a chat, or as token ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError, first_paragraph


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """The input text of a model.

    `ids` are the token ids that the user gave, whose text is `text`; None = the tokenizer has to encode `text`.
    `has_special_tokens`: whether `text` already contains all special tokens, as the text of a chat does.
    """

    text: str
    ids: Int[Tensor, "1 tokens"] | None = None
    has_special_tokens: bool = False


def prompt_of(tokenizer: Any, given: Any, generates: bool) -> Prompt:
    """Convert a text, the messages of a chat or token ids to a `Prompt`; any other object is treated as a text.

    `generates`: whether the model is to generate the next message of the chat.
    """
    if is_chat(given):
        return Prompt(chat_text(tokenizer, list(given), generates), has_special_tokens=True)
    if is_ids(given):
        ids = torch.as_tensor(given).reshape(1, -1)
        if ids.numel() == 0 or int(ids.min()) < 0:
            raise InputError("the token ids are empty or negative; give at least one id, each from 0 on.")
        return Prompt(tokenizer.decode(ids[0], skip_special_tokens=True), ids=ids)
    return Prompt(given)


def is_chat(given: object) -> bool:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) == 0:
        return False
    return all(isinstance(message, Mapping) for message in given)


def is_ids(given: object) -> bool:
    """Return whether an object is token ids: a list of integers, or an integer tensor [tokens] or [1 tokens]."""
    if isinstance(given, Tensor):
        return not given.is_floating_point() and (given.ndim == 1 or (given.ndim == 2 and given.shape[0] == 1))
    return isinstance(given, list | tuple) and all(type(number) is int for number in given)


def chat_text(tokenizer: Any, messages: list[Mapping[str, Any]], generates: bool) -> str:
    """Return the messages of a chat as one text in the format of the tokenizer's chat template.

    If `generates`, the text ends with the beginning of the next message, for the model to continue.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            f"{type(tokenizer).__name__} has no chat template, so it takes no messages; give the text itself, or set "
            "tokenizer.chat_template."
        )
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generates))
    except Exception as error:  # a template may raise any exception
        raise InputError(
            f"the chat template of {type(tokenizer).__name__} does not take these messages: {first_paragraph(error)}; "
            'give messages such as {"role": "user", "content": "Hello"}.'
        ) from error
