"""Continue a text with a causal language model.

The reader of the explorer's page chooses the next tokens, or lets the model generate them.
"""

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from regard.errors import InputError
from regard.explore.question import Question
from regard.tracing.for_page import trace_for_page
from regard.tracing.generation import written_tokens
from regard.tracing.model_input import answer_text
from regard.tracing.model_loading import LoadedModel
from regard.tracing.tokens.encoding import encode_text
from regard.tracing.tokens.prompt import prompt_of
from regard.tracing.trace import Trace
from regard.tracing.watching.attention_kind import is_causal

if TYPE_CHECKING:
    from transformers import GenerationConfig


def check_continues(loaded: LoadedModel, continuation: tuple[int, ...]) -> None:
    """Raise InputError unless the model can read these token ids after a text."""
    config = loaded.model.config
    if config.is_encoder_decoder or not (is_causal(loaded.model) and loaded.model.can_generate()):
        raise InputError(f"{loaded.name} is not a causal language model, so it cannot go on with a text.")
    unknown = [token for token in continuation if not 0 <= token < len(loaded.tokenizer)]
    if unknown:
        raise InputError(
            f"the vocabulary of {loaded.name} has the ids 0 to {len(loaded.tokenizer) - 1}, not {unknown[0]}."
        )


def continued_trace(loaded: LoadedModel, question: Question) -> Trace:
    """Trace a text, the tokens in `question.continuation`, and the tokens that the model then generates."""
    check_continues(loaded, question.continuation)
    tokenizer = loaded.tokenizer
    prompt = prompt_of(tokenizer, question.text, generates=True)
    inputs, tokens = encode_text(loaded.model, tokenizer, prompt, question.truncate)
    n_read = len(tokens)
    ids = [*inputs["input_ids"][0].tolist(), *question.continuation]
    trace = trace_for_page(
        loaded.model,
        ids,
        tokenizer=tokenizer,
        new_tokens=question.new_tokens,
        generation=sampling_config(loaded, question),
        changes=question.change_objects(),
    )
    assert trace.output is not None  # a causal language model always has an output: its logits
    ids += generated_ids(tokenizer, trace)
    # `trace.target` was made from ids alone; the tokens of the text are those that were made from the text itself
    target = (*tokens, *trace.target[n_read:])
    return replace(
        trace,
        text=question.text + answer_text(tokenizer, torch.tensor(ids), n_read),
        target=target,
        # besides the generated tokens, the tokens in `question.continuation` count as written
        written=written_tokens(tokenizer, torch.tensor([ids]), target, trace.output, n_read),
    )


def generated_ids(tokenizer: Any, trace: Trace) -> list[int]:
    return tokenizer.convert_tokens_to_ids([written.token.piece for written in trace.written])


def sampling_config(loaded: LoadedModel, question: Question) -> "GenerationConfig | None":
    """Return a model's own settings for generation, with the temperature and nucleus replaced by those of the request.

    At temperatures above 0, the model's own limit on the number of candidate tokens (top_k) is removed. The result is
    None if no tokens are to be generated, or if the request has no temperature, so that the model's settings are used.
    """
    if question.new_tokens is None or question.temperature is None:
        return None
    config = copy.deepcopy(loaded.model.generation_config)
    if question.temperature > 0:
        config.update(do_sample=True, temperature=question.temperature, top_p=question.nucleus, top_k=0)
    else:
        config.update(do_sample=False, temperature=None, top_p=None, top_k=None)
    return config
