"""Lets a model generate the text of a trace, and computes the probabilities of the generated tokens."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import InputError, first_paragraph
from regard.tracing.tokens.readable_tokens import Token, piece_text, pieces_of, readable_tokens
from regard.tracing.watching.attention_kind import is_causal
from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

N_ALTERNATIVES = 5

N_NEXT = 8
"""The number of most probable next tokens that a page shows."""


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """A token that the model generated, with its probability and likely alternatives.

    Attributes:
        position: the position of the token, counted from the start of the prompt; in an encoder-decoder, of the target.
        token: the token; in a trace of words (`Trace.words`), the word.
        probability: the probability that the model gives to the token after the tokens before it.
        alternatives: the texts and probabilities of the most likely tokens at this position, most likely first; a word
            has none.
    """

    position: int
    token: Token
    probability: float
    alternatives: tuple[tuple[str, float], ...]

    def __repr__(self) -> str:
        return f"WrittenToken({self.token.text!r}, {self.probability:.4g}, position={self.position})"


def written_words(
    written: Sequence[WrittenToken], groups: Sequence[range], words: Sequence[Token]
) -> tuple[WrittenToken, ...]:
    """Return the words that a model generated, each with the product of the probabilities of its tokens.

    A word is left out if some of its tokens were not generated. `groups` are the positions of the tokens of each word.
    """
    probabilities = {token.position: token.probability for token in written}
    return tuple(
        WrittenToken(position, words[position], math.prod(probabilities[i] for i in group), alternatives=())
        for position, group in enumerate(groups)
        if all(i in probabilities for i in group)
    )


def generate_text(
    model: "PreTrainedModel",
    tokenizer: Any,
    inputs: Mapping[str, Tensor],
    new_tokens: int | None,
    config: "GenerationConfig | None",
) -> Int[Tensor, "1 tokens"]:
    """Let a model generate a text; return the token ids of the prompt and of the generated text.

    The ids of an encoder-decoder are those of the target alone, from the decoder's start token on. `new_tokens` None =
    as many as `config` says; `config` None = the model's own generation_config.
    """
    # PaliGemma reads its prompt in both directions, but can generate: token_type_ids tell the answer from the prompt
    marks_answer = "pixel_values" in inputs and "token_type_ids" in inputs
    is_encoder = not (model.config.is_encoder_decoder or is_causal(model) or marks_answer)  # such as BERT
    if is_encoder or not model.can_generate():
        raise InputError(
            f"{type(model.base_model).__name__} writes no text; give a model that does, such as GPT-2, Llama or T5, "
            "with its language modelling head, as AutoModelForCausalLM or AutoModelForSeq2SeqLM loads it."
        )
    if new_tokens is not None and new_tokens < 1:
        raise InputError(f"new_tokens={new_tokens}: give the number of tokens to write, at least 1.")
    if getattr(config, "num_return_sequences", 1) not in (1, None):
        raise InputError("a trace follows one text; give a GenerationConfig with num_return_sequences=1.")
    options: dict[str, Any] = {} if new_tokens is None else {"max_new_tokens": new_tokens}
    if any(getattr(one, "stop_strings", None) for one in (config, model.generation_config)):
        options["tokenizer"] = tokenizer  # the `generate` of some models takes no tokenizer
    if "force_unique_generate_call" in signature(model.generate).parameters:  # Whisper, which else returns only what
        options["force_unique_generate_call"] = True  # it wrote, without the tokens of the start, language and task
    try:
        # [:1] keeps only the first text, since the model's own generation_config may request several
        return model.generate(**inputs, generation_config=config, **options)[:1]
    except Exception as error:  # the model's code may raise any exception
        raise InputError(f"{type(model).__name__} could not write: {first_paragraph(error)}.") from error


def n_given(model: "PreTrainedModel", ids: Int[Tensor, "1 tokens"]) -> int:
    """Return how many tokens at the beginning of the target (`ids`) an encoder-decoder did not generate.

    One token starts the target. In Whisper, tokens that choose the language and the task may follow, and the token
    <|notimestamps|>.
    """
    config = model.generation_config
    given = {getattr(config, "no_timestamps_token_id", None)}
    for name in ("lang_to_id", "task_to_id"):
        given |= set((getattr(config, name, None) or {}).values())
    n = 1
    while n < ids.shape[1] and int(ids[0, n]) in given:
        n += 1
    return n


def next_tokens(tokenizer: Any, logits: Float[Tensor, " vocabulary"], n: int) -> list[tuple[str, float]]:
    """Return the texts of the `n` most probable next tokens with their probabilities, most probable first.

    A text keeps its spaces; other white space, control characters and incomplete characters are made visible: ⏎,
    ‹EB›‹80›.
    """
    probabilities, ids = logits.float().softmax(dim=-1).topk(min(n, len(logits)))
    pieces = pieces_of(tokenizer, ids.tolist(), as_target=True)
    special = set(tokenizer.all_special_tokens)
    texts = [escape_controls(piece if piece in special else piece_text(piece, tokenizer)) for piece in pieces]
    return list(zip(texts, probabilities.tolist(), strict=True))


def tokens_of(tokenizer: Any, ids: Int[Tensor, "1 tokens"]) -> tuple[Token, ...]:
    """Return a `Token` with readable text for each id of the tokenizer's target vocabulary."""
    return readable_tokens(tokenizer, {"input_ids": ids}, text="", as_target=True)


def written_tokens(
    tokenizer: Any,
    ids: Int[Tensor, "1 tokens"],
    tokens: tuple[Token, ...],
    logits: Float[Tensor, "1 tokens vocabulary"],
    n_read: int,
) -> tuple[WrittenToken, ...]:
    """Return the tokens that a model generated: all `tokens` after the first `n_read`, which were its input."""
    probabilities = logits[0].double().softmax(dim=-1)
    written = []
    for position in range(n_read, len(tokens)):
        row = probabilities[position - 1]  # the logits at a position are those of the next token
        best = row.topk(min(N_ALTERNATIVES, len(row)))
        texts = tokens_of(tokenizer, best.indices[None])
        alternatives = tuple((token.text, p) for token, p in zip(texts, best.values.tolist(), strict=True))
        probability = float(row[ids[0, position]])
        written.append(WrittenToken(position, tokens[position], probability, alternatives))
    return tuple(written)
