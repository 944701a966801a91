"""Tests of one head of a translator as a worked example, while the model reads a source and its translation."""

from dataclasses import replace

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import InputError
from regard.by_hand.translator_head import translate_or_score, translator_inputs
from regard.by_hand.work_out import work_out
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.tracing.decoder_note import DECODER_NOTE
from regard.translation.translator import Translator

TEXT = "a dog ran to the cat"


def module_of(translator, kind):
    """Return the first layer's attention module of a kind: encoder, decoder or cross."""
    model = translator.model
    block = (model.encoder if kind == "encoder" else model.decoder).blocks[0]
    return block.cross_attention if kind == "cross" else block.self_attention


@pytest.mark.parametrize("target", [None, "kein hund"])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_kind_starts_from_its_tokens_and_the_layer_s_parameters(translator, kind, target):
    numbers, _ = translator_inputs(translator, TEXT, head=f"{kind} L0H1", target=target)
    assert numbers.title == f"{translator.name} · {kind} L0H1"
    assert numbers.notes == (() if kind == "encoder" else (DECODER_NOTE,))
    assert ("memory" in numbers.matrices) == (kind == "cross")
    module = module_of(translator, kind)
    own = slice(module.d_head, 2 * module.d_head)
    for letter, layer in (("q", module.to_query), ("k", module.to_key), ("v", module.to_value)):
        assert torch.equal(torch.from_numpy(numbers.matrices[f"W_{letter}"]), layer.weight[own].T.double())
        assert torch.equal(torch.from_numpy(numbers.matrices[f"b_{letter}"]), layer.bias[None, own].double())
    seen = translate_or_score(translator, TEXT, target, truncate=False).trace[f"{kind} L0H1"]
    worked = work_out(numbers)
    with torch.no_grad():
        steps = seen.pattern.steps(0, 1)
    assert_close(torch.from_numpy(worked["weights"].matrix), steps.weights.double(), atol=5e-6, rtol=1e-4)
    assert_close(torch.from_numpy(worked["context"].matrix), steps.context.double(), atol=1e-5, rtol=1e-4)
    assert [token.text for token in numbers.tokens] == [token.text for token in seen.queries]


def test_nothing_of_the_translator_is_left_listening(translator):
    translator_inputs(translator, TEXT)
    assert not any(module._forward_hooks for module in translator.model.modules())


def test_a_text_without_a_word_is_refused(translator):
    assert refusal(InputError, translator_inputs, translator, " ") == (
        "the text is empty; give at least one word to look at."
    )


def recurrent_translator(score, vocabularies):
    source, target = vocabularies
    config = RecurrentConfig.preset("tiny", n_source_tokens=len(source), n_target_tokens=len(target), max_tokens=19)
    model = Recurrent(replace(config, score=score)).eval()
    return Translator(model=model, source_vocabulary=source, target_vocabulary=target)


@pytest.mark.parametrize("score", ["dot", "general"])
def test_a_recurrent_translator_by_hand_has_the_weights_of_its_trace(score, vocabularies):
    recurrent = recurrent_translator(score, vocabularies)
    numbers, _ = translator_inputs(recurrent, TEXT)
    (found,) = recurrent.translate([TEXT])
    weights = found.trace.cross[0].dense()[0, 0]
    assert_close(torch.from_numpy(work_out(numbers)["weights"].matrix), weights.double(), atol=5e-6, rtol=1e-4)
    assert numbers.notes[0].startswith("Q is the queries times the matrix W") == (score == "general")


def test_additive_scores_are_refused(vocabularies):
    assert refusal(InputError, translator_inputs, recurrent_translator("additive", vocabularies), TEXT) == (
        "L0H0 computes its scores by Additive, but `regard explain` works out only dot products; `regard look` shows "
        "its weights."
    )
