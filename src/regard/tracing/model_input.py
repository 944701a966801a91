"""The input of a model: an encoded text, picture or recording, and the text that the model generates after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.effects.changes import Change, Cut, heads_of, named_tokens
from regard.effects.interchange import Interchange
from regard.errors import InputError
from regard.tracing.generation import WrittenToken, generate_text, n_given, tokens_of, written_tokens
from regard.tracing.media.media import Media
from regard.tracing.patterns_by_layer import SIDES
from regard.tracing.tokens.encoding import decoder_start_id, encode_target, encode_text, input_device
from regard.tracing.tokens.id_tokens import IdTokens
from regard.tracing.tokens.prompt import Prompt
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import TokenReference, token_position
from regard.tracing.watching.attention_kind import KindOfPath, is_causal, is_encoder_decoder
from regard.tracing.watching.changing import changed

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel


@dataclass(frozen=True, slots=True, eq=False)
class ModelInput:
    """The input of a model: its tensors, their tokens, and the changes to the model's attention.

    Attributes:
        inputs: the keyword arguments with which the model is called.
        text: the text that the model reads ("" for pictures and recordings). If a decoder-only model generated text,
            `text` ends with it.
        target_text: the text that the decoder of an encoder-decoder reads; empty for other models.
        source: the tokens that the encoder reads; empty for a decoder-only model, and for pictures and recordings.
        target: the tokens that the decoder reads, also in a decoder-only model; empty for an encoder-only model.
        changes: the changes to attention, in which tokens are given by their positions, not by their texts.
        written_ids: the ids of all tokens that the decoder reads, if the model generated some of them; else None.
        n_read: how many tokens at the beginning of `written_ids` the model did not generate.
    """

    inputs: Mapping[str, torch.Tensor]
    text: str
    target_text: str
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    changes: tuple[Change, ...]
    written_ids: torch.Tensor | None = None
    n_read: int = 0

    def written(self, tokenizer: Any, output: torch.Tensor | None) -> tuple[WrittenToken, ...]:
        """Return the tokens that the model generated; none if `output`, the model's logits, is None."""
        if self.written_ids is None or output is None:
            return ()
        return written_tokens(tokenizer, self.written_ids, self.target, output, self.n_read)


def read_text(
    model: "PreTrainedModel",
    tokenizer: Any,
    prompt: Prompt,
    target: str | None,
    truncate: bool,
    generates: bool,
    changes: Sequence[Change],
) -> ModelInput:
    """Return the input of a model that reads a text and, if it is an encoder-decoder, a target.

    `truncate`: whether to cut a text that is too long. `generates`: whether the model will generate text; an
    encoder-decoder then needs no `target`.
    """
    has_encoder_and_decoder = is_encoder_decoder(model)
    if has_encoder_and_decoder and target is None and not generates:
        raise missing_target_error(model)
    if not has_encoder_and_decoder and target is not None:
        raise InputError(f"{type(model).__name__} reads one text, so it takes no target.")
    inputs, tokens = encode_text(model, tokenizer, prompt, truncate)
    # a model that generates the continuation of its text reads it as a decoder does
    is_decoder = not has_encoder_and_decoder and (generates or is_causal(model))
    source_tokens, target_tokens = ((), tokens) if is_decoder else (tokens, ())
    if target is not None:
        decoder_ids, target_tokens = encode_target(model, tokenizer, target, truncate)
        inputs = {**inputs, "decoder_input_ids": decoder_ids}
    positioned = tuple(with_positions(change, model, source_tokens, target_tokens) for change in changes)
    return ModelInput(
        inputs=inputs,
        text=prompt.text,
        target_text=target or "",
        source=source_tokens,
        target=target_tokens,
        changes=positioned,
    )


def missing_target_error(model: "PreTrainedModel") -> InputError:
    return InputError(
        f"{type(model).__name__} also reads a target; give it with target=…, or in regard.trace and regard look let "
        "the model write it with new_tokens=…."
    )


def read_medium(
    model: "PreTrainedModel",
    medium: Media,
    target: str | None,
    tokenizer: Any,
    generates: bool,
    changes: Sequence[Change],
) -> ModelInput:
    """Return the input of a model that reads a picture, a video or a recording.

    `ModelInput.source`, the encoder's tokens, is empty: their number is known only after the model has run.
    """
    if any(map(named_tokens, changes)) and not medium.target:
        raise InputError(
            "a change that names parts of a picture or a recording needs positions: use it in regard.changed(model, "
            "changes) around the model's own call."
        )
    positioned = tuple(with_positions(change, model, (), medium.target) for change in changes)
    model_input = ModelInput(
        inputs=medium.inputs, text="", target_text=target or "", source=(), target=medium.target, changes=positioned
    )
    if generates:  # the model will write the target
        return model_input
    if not is_encoder_decoder(model):
        if target is not None:
            raise InputError(f"{type(model).__name__} reads no target; leave it out.")
        return model_input
    if target is None:
        raise missing_target_error(model)
    if isinstance(tokenizer, IdTokens):
        raise InputError("a target needs a tokenizer; give tokenizer=…, or a processor that has one.")
    ids = tokenizer(target, return_tensors="pt")["input_ids"].to(input_device(model))
    start = decoder_start_id(model)
    if int(ids[0, 0]) != start:
        ids = torch.cat([ids.new_full((1, 1), start), ids], dim=1)
    ids = ids[:, :-1]  # a decoder does not read the last token, but predicts it
    tokens = tokens_of(tokenizer, ids)
    return replace(model_input, inputs={**medium.inputs, "decoder_input_ids": ids}, target=tokens)


def with_generated(
    model: "PreTrainedModel",
    tokenizer: Any,
    model_input: ModelInput,
    new_tokens: int | None,
    generation: "GenerationConfig | None",
) -> ModelInput:
    """Let a model generate text after an input; return the input with the generated tokens appended."""
    inputs = dict(model_input.inputs)
    # models such as Gemma 3 tell pictures from text by token types; other models may refuse token types
    needs_types = "pixel_values" in inputs and "token_type_ids" in signature(model.forward).parameters
    if not needs_types:
        inputs.pop("token_type_ids", None)
    with changed(model, model_input.changes):
        ids = generate_text(model, tokenizer, inputs, new_tokens, generation)
    if model.config.is_encoder_decoder:
        return replace(
            model_input,
            inputs={**model_input.inputs, "decoder_input_ids": ids},
            target_text=tokenizer.decode(ids[0], skip_special_tokens=True),
            target=tokens_of(tokenizer, ids),
            written_ids=ids,
            n_read=n_given(model, ids),
        )
    from transformers.utils import ModelOutput

    n_read = len(model_input.target)
    # the token before is converted too, and left out again, since `Token.joined` of the first new token depends on it
    generated = tokens_of(tokenizer, ids[:, n_read - 1 :])[1:]
    for _ in generated:  # each call lengthens the attention mask and the token types by one token
        inputs = model._update_model_kwargs_for_generation(ModelOutput(), inputs, is_encoder_decoder=False)
    return replace(
        model_input,
        inputs={**inputs, "input_ids": ids},
        text=model_input.text + answer_text(tokenizer, ids[0], n_read),
        target=(*model_input.target, *generated),
        written_ids=ids,
        n_read=n_read,
    )


def answer_text(tokenizer: Any, ids: Int[Tensor, " tokens"], n_read: int) -> str:
    # all tokens are decoded, since a tokenizer may drop the space before the first token that it decodes
    text, prompt = (tokenizer.decode(part, skip_special_tokens=True) for part in (ids, ids[:n_read]))
    return str(text).removeprefix(str(prompt))


def with_positions(
    change: Change, model: "PreTrainedModel", source: Sequence[Token], target: Sequence[Token]
) -> Change:
    """Return a copy of a change in which tokens given by their text are replaced by their positions."""
    if not isinstance(change, Cut | Interchange) or not named_tokens(change):
        return change
    only_kind = None
    if KindOfPath.of(model).only_kind is not None:  # the model has attention of one kind; its tokens are on one side
        only_kind = "encoder" if source else "decoder"
    kinds = {heads.kind or only_kind for heads in heads_of(change)}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise InputError(
            f"{change} must name heads of one kind, since the tokens of each kind differ: for instance "
            "heads=['cross'] or heads=['decoder L0H1']."
        )
    tokens = {"source": source, "target": target}
    queries, keys = tokens[SIDES[kind].queries], tokens[SIDES[kind].keys]
    if isinstance(change, Cut):
        query = None if change.query is None else token_position(change.query, queries)
        return replace(change, query=query, key=token_position(change.key, keys))
    other_queries = getattr(change.other, SIDES[kind].queries)  # `change` is an Interchange with the trace `other`
    positions = {}
    for token, other_token in change.token_pairs or ():
        query = token_position(token, queries)
        positions[query] = position_in_other_run(other_token, other_queries)
    return replace(change, tokens=positions)


def position_in_other_run(token: TokenReference, tokens: Sequence[Token]) -> int:
    try:
        return token_position(token, tokens)
    except InputError as error:
        raise InputError(
            f"in the other run: {error} A dict gives a token of each run: tokens={{here: there}}."
        ) from error
