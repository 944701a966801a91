"""Compare the attention that regard records during `generate` with the weights that `generate` returns."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from seen_attention import Reference, attentions_of, compare_steps
from small_inputs import TOKENS, padding_mask, token_ids
from small_models import build, first_line, sharpen
from torch import Tensor, nn

import regard
from regard.tracing.watching.watched import check_contexts

NEW_TOKENS = 4
SIDES = "none", "left"
"""Padding on the right would come between a text and its new tokens."""


def writing_class(config_class: type) -> Any:
    """Return the model class that can generate text, or None."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING

    for mapping in (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING):
        if config_class in mapping:
            model_class = mapping[config_class]
            return model_class[0] if isinstance(model_class, tuple) else model_class
    return None


def generation(config: Any) -> dict[str, Any]:
    """Run `generate` with each padding and kind of attention; return the differences, by names such as "left, eager".

    The result is empty if the model cannot generate text, and has only the key "failed" if `generate` fails without
    regard too.
    """
    model_class = writing_class(type(config))
    if model_class is None:
        return {}
    try:
        model = build(model_class, config)
        sharpen(model)
        eager = build(model_class, config, attn_implementation="eager")
        eager.load_state_dict(model.state_dict())
        expected = {side: weights_of(eager, side) for side in SIDES}
        plain = {side: write(model, side) for side in SIDES}
    except Exception as error:
        return {"failed": first_line(error)}
    differences: dict[str, Any] = {}
    for side in SIDES:
        differences[f"{side}, default"] = watched_writing(model, side, plain[side], *expected[side])
        differences[f"{side}, eager"] = watched_writing(eager, side, plain[side], *expected[side])
    return differences


@torch.no_grad()
def write(model: Any, side: str, **options: Any) -> Any:
    """Return the output of `generate` for two texts, of which one is padded on the given side."""
    settings = {
        "max_new_tokens": NEW_TOKENS,
        "do_sample": False,
        "num_beams": 1,
        "eos_token_id": None,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }
    torch.manual_seed(0)
    ids = token_ids(TOKENS, seed=0, n_ids=60)
    return model.generate(ids, attention_mask=padding_mask(side), **settings, **options)


def weights_of(model: nn.Module, side: str) -> tuple[Tensor, list[Tensor]]:
    outputs = write(model, side, output_attentions=True, return_dict_in_generate=True)
    return outputs.sequences, attentions_of(outputs)


def watched_writing(
    model: nn.Module, side: str, plain: Tensor, sequences: Tensor, weights: Sequence[Tensor]
) -> dict[str, Any]:
    """Run `generate` within `regard.watching`; return the differences in the tokens, the contexts and the weights.

    Args:
        plain: the token ids that the model generates when it is not watched.
        sequences, weights: what the eager model generates, and its weights; these are compared only if the watched
            model generates the same.
    """
    with regard.watching(model) as watched:
        written = write(model, side)
    is_same = torch.equal(written, sequences)
    references = [Reference(None, step_weights) for step_weights in weights] if is_same else []
    comparison = compare_steps(watched.steps, references, padding_mask(side))
    check = check_contexts([step.attended for step in watched.steps])
    return {
        "written": torch.equal(written, plain) or is_same,
        "compared": is_same,
        "unseen": watched.unseen,
        "check": check.max_error / max(1.0, check.magnitude),
        **asdict(comparison),
    }
