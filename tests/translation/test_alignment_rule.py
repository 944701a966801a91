"""Tests of `AlignmentRule.weights`: the layer, one head or the mean of the heads, and the decoder step."""

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import attend
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.forced_decoding import forced_decoding
from regard.translation.model_protocol import evaluation_mode


@pytest.fixture
def cross(normal):
    """Four layers: three heads, five target and eleven source pieces."""
    return tuple(attend(normal(2, 3, 5, 7), normal(2, 3, 11, 7), normal(2, 3, 11, 7)).pattern for _ in range(4))


def test_the_default_is_the_mean_over_heads_of_the_layer_before_the_last(cross):
    assert_close(AlignmentRule().weights(cross), cross[2].dense().sum(dim=1) / 3)
    assert_close(AlignmentRule().weights(cross[:1]), cross[0].dense().sum(dim=1) / 3)


def test_a_layer_and_a_head_that_are_named(cross):
    assert_close(AlignmentRule(layer=0).weights(cross), cross[0].dense().sum(dim=1) / 3)
    assert_close(AlignmentRule(layer=3, head=1).weights(cross), cross[3].dense()[:, 1])


def test_the_step_that_reads_a_piece_comes_after_the_step_that_predicts_it(cross):
    found, rows = AlignmentRule(layer=1, head=2, step="reads").weights(cross), cross[1].dense()[:, 2]
    for piece in range(4):
        assert_close(found[:, piece], rows[:, piece + 1])
    assert_close(found[:, 4], rows[:, 4])  # EOS is read by no step


def test_the_end_of_a_shorter_sentence_in_a_batch_has_the_row_that_predicts_it(cross):
    rows = cross[1].dense()[:, 2]
    found = AlignmentRule(layer=1, head=2, step="reads").weights(cross, lengths=[3, 5])
    assert_close(found[0, :3], rows[0, [1, 2, 2]])
    assert_close(found[1], rows[1, [1, 2, 3, 4, 4]])


def test_words_are_aligned_without_computing_logits(translator, monkeypatch):
    (one,) = translator.translate(["the cat ran"])
    with evaluation_mode(translator.model), torch.no_grad():
        cross = forced_decoding(translator.model, [one], torch.device("cpu")).cross
    monkeypatch.setattr(translator.model.to_logits, "forward", None)
    assert_close(translator.align([one])[0].piece_weights, translator.alignment_rule.weights(cross)[0])


def test_a_layer_or_a_head_that_the_model_lacks_is_refused(cross):
    for rule, message in (
        (AlignmentRule(layer=4), "layer=4 does not exist; the model has 4 layers, counted from 0."),
        (AlignmentRule(layer=0, head=3), "head=3 does not exist; the layer has 3 heads, counted from 0."),
    ):
        assert refusal(ValueError, rule.weights, cross) == message


def test_a_rule_in_words():
    layer = "the last layer but one (or the only one)"
    assert str(AlignmentRule()) == f"{layer}, mean over heads, the step that predicts the piece"
    assert str(AlignmentRule(agreement=0.45)).endswith(
        "; 45 % of the target pieces measured have their largest weight on the source word without "
        "which the model predicts the piece worst; the alignments are unreliable"
    )
    by_erasure = AlignmentRule(layer=1, agreement=0.45, by="erasure")
    assert (str(by_erasure), by_erasure.caption) == (
        "the loss of probability without each source word, not attention",
    ) * 2
    assert (
        AlignmentRule(layer=1).caption == "cross-attention, layer 1, mean over heads, the step that predicts the piece"
    )
    assert AlignmentRule(agreement=0.45).caption.endswith("the step that predicts the piece; unreliable")
