"""Continue a text with a causal language model, token by token, as the reader of a page chooses."""

import base64
from dataclasses import replace
from typing import Any

import torch

from regard.errors import InputError
from regard.explore.question import Question
from regard.tracing.for_page import trace_for_page
from regard.tracing.model_loading import LoadedModel
from regard.tracing.reading import answer_text
from regard.tracing.tokens.encoding import encode_text
from regard.tracing.tokens.prompt import prompt_of
from regard.tracing.trace import Trace
from regard.tracing.watching.attention_kind import is_causal
from regard.tracing.writing import N_NEXT, written_tokens


def check_continues(loaded: LoadedModel, continuation: tuple[int, ...]) -> None:
    """Raise InputError unless a model is a causal language model whose vocabulary has all ids of a continuation."""
    config = loaded.model.config
    if config.is_encoder_decoder or not (is_causal(loaded.model) and loaded.model.can_generate()):
        raise InputError(f"{loaded.name} is no causal language model, so it cannot go on with a text.")
    unknown = [number for number in continuation if not 0 <= number < len(loaded.tokenizer)]
    if unknown:
        raise InputError(
            f"the vocabulary of {loaded.name} has the ids 0 to {len(loaded.tokenizer) - 1}, not {unknown[0]}."
        )


def continued_trace(loaded: LoadedModel, question: Question) -> Trace:
    """Return the trace of a text with the tokens after it: `question.continuation`, then those that the model writes.

    Raises:
        InputError: the model cannot read or write the text.
    """
    tokenizer = loaded.tokenizer
    inputs, tokens = encode_text(loaded.model, tokenizer, prompt_of(tokenizer, question.text, writes=True), False)
    n_read = len(tokens)
    ids = [*inputs["input_ids"][0].tolist(), *question.continuation]
    found = trace_for_page(
        loaded.model,
        ids,
        tokenizer=tokenizer,
        new_tokens=question.new_tokens,
        changes=question.change_objects(),
    )
    assert found.output is not None  # a model that continues a text has logits
    ids += ids_of(tokenizer, found)
    target = (*tokens, *found.target[n_read:])
    return replace(
        found,
        text=question.text + answer_text(tokenizer, torch.tensor(ids), n_read),
        target=target,
        written=written_tokens(tokenizer, torch.tensor([ids]), target, found.output, n_read),
    )


def ids_of(tokenizer: Any, found: Trace) -> list[int]:
    """Return the ids of the tokens that the model wrote in a trace."""
    pieces = [written.token.piece for written in found.written]
    ids: list[int] = tokenizer.convert_tokens_to_ids(pieces)
    return ids


def going_record(loaded: LoadedModel, question: Question, found: Trace) -> dict[str, Any]:
    """Return the JSON record with which a page lets a model continue a text (`Going` in front/src/data.ts).

    Args:
        found: the trace of the text, with the logits of the token after it.
    """
    assert found.output is not None
    logits = found.output[0, -1].detach().float().cpu()
    return {
        "text": question.text,
        "continuation": ids_of(loaded.tokenizer, found),
        "ids": logits.topk(min(N_NEXT, len(logits))).indices.tolist(),
        "logits": base64.b64encode(logits.numpy().astype("<f4").tobytes()).decode(),
    }
