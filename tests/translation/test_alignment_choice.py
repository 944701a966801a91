"""Tests of choosing the attention weights that align words, with a model whose true alignment is known.

The model copies a source backwards: piece t of the target is piece n - t of the source. Only one of its heads, at the
decoder step that reads a piece, attends to the source piece that was copied.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from trained_translator import new_transformer

from regard import attend
from regard.attention.masks import Padding
from regard.text.vocabulary import BOS, EOS
from regard.translation import alignment_choice
from regard.translation.alignment_choice import (
    LEAST_NEED,
    choose_rule,
    erasure_weights,
    measured_rules,
    needed_words,
    piece_needs,
)
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.forced_decoding import word_alignment
from regard.translation.translation import Translation
from regard.translation.translator import Translator

CPU = torch.device("cpu")
N_TOKENS = 31
LOOKS = AlignmentRule(layer=2, head=1, step="reads")


class Backwards(nn.Module):
    def forward(self, source, lengths, target):
        batch, n_source, n_target = len(source), source.shape[1], target.shape[1]
        logits = torch.zeros(batch, n_target, N_TOKENS)
        looks = torch.zeros(batch, 6, n_target, n_source)
        looks[:, :, :, 0] = 20.0  # every other head looks at the first piece
        for row, length in enumerate(lengths.tolist()):
            for step in range(n_target):
                written = {token for token in target[row, : step + 1].tolist() if token not in (BOS, EOS)}
                unwritten = [token for token in source[row, : length - 1].tolist() if token not in written]
                logits[row, step, unwritten[-1] if unwritten else EOS] = 9.0
                at = (source[row] == target[row, step]).nonzero()
                if len(at):
                    looks[row, 5, step] = 0.0
                    looks[row, 5, step, int(at[0])] = 20.0
        keys = torch.eye(n_source).expand(batch, 6, n_source, n_source) * n_source**0.5
        pattern = [
            attend(looks[:, heads], keys[:, heads], keys[:, heads], mask=Padding(lengths)).pattern
            for heads in (slice(0, 2), slice(2, 4), slice(4, 6))
        ]
        return SimpleNamespace(logits=logits, cross=tuple(pattern), encoder=(), decoder=())


NO_TRANSLATOR = SimpleNamespace(
    alignment_rule=AlignmentRule(), usual=None, training_texts=None, calibration=None, align=print, trace=print
)
"""The value of the field `translator` of translations, which these tests never use."""


def translation(*source):
    """A translation of one-piece words, written backwards."""
    target = tuple(reversed(source))
    return Translation(
        source=" ".join(f"s{token}" for token in source),
        text=" ".join(f"t{token}" for token in target),
        score=0.0,
        log_probability=0.0,
        source_ids=(*source, EOS),
        source_pieces=(*(f"▁s{token}" for token in source), "</s>"),
        target_ids=target,
        target_pieces=tuple(f"▁t{token}" for token in target),
        translator=NO_TRANSLATOR,
    )


PAIRS = [translation(7, 11, 13), translation(29, 5), translation(17, 23, 19, 6, 8)]


@pytest.mark.usefixtures("without_type_checks")
def test_each_piece_needs_the_word_that_it_was_copied_from():
    for one, needs in zip(PAIRS, piece_needs(Backwards(), PAIRS, CPU), strict=True):
        n = len(one.target_ids)
        assert needed_words(needs) == {target: n - 1 - target for target in range(n)}


@pytest.mark.usefixtures("without_type_checks")
def test_the_head_and_the_step_that_look_at_the_needed_word_are_chosen():
    chosen = choose_rule(Backwards(), PAIRS, CPU)
    assert (chosen.layer, chosen.head, chosen.step, chosen.agreement) == (2, 1, "reads", 1.0)
    rules = measured_rules(Backwards(), PAIRS, CPU)
    assert len(rules) == 3 * 2 + 3 * 2 * 2
    assert (rules[0].layer, rules[0].head, rules[0].step) == (1, None, "predicts")
    assert rules[0].agreement == pytest.approx(3 / 10)  # the first source word is the last word of each target


@pytest.mark.usefixtures("without_type_checks")
def test_if_no_attention_aligns_well_words_are_aligned_by_leaving_out_source_words(monkeypatch):
    monkeypatch.setattr(alignment_choice, "all_rules", lambda cross: [AlignmentRule(layer=0), AlignmentRule(layer=1)])
    chosen = choose_rule(Backwards(), PAIRS, CPU)
    assert (chosen.by, chosen.agreement, chosen.reliable) == ("erasure", pytest.approx(3 / 10), True)
    for one, weights in zip(PAIRS, erasure_weights(Backwards(), PAIRS, CPU), strict=True):
        n = len(one.target_ids)
        assert weights.shape == (n + 1, n + 1)
        assert word_alignment(one, weights, "</s>").pairs == tuple((n - 1 - target, target) for target in range(n))


def test_weights_by_erasure_are_shares_of_the_needs(translator):
    scored = translator.score(["the cat sat", ""], ["die katze", "der"])
    by_erasure = replace(translator, alignment_rule=AlignmentRule(by="erasure"))
    first, empty = by_erasure.align(scored)
    assert empty.pairs == ()
    (needs,) = piece_needs(translator.model, scored[:1], CPU)
    for rows, need in zip(first.piece_weights, needs, strict=False):
        words = torch.stack(
            [rows[[i for i, of in enumerate(first.source_word_of) if of == word]].sum() for word in range(3)]
        )
        positive = need.clamp(min=0)
        assert_close(words, positive / positive.sum() if need.max() >= LEAST_NEED else torch.zeros(3))
    assert (first.piece_weights[-1] == 0).all()


@pytest.mark.usefixtures("without_type_checks")
def test_without_a_word_that_needs_another_the_rule_is_the_default():
    assert choose_rule(Backwards(), [], CPU) == AlignmentRule()
    assert choose_rule(Backwards(), [translation(7)], CPU) == AlignmentRule()  # one source word leaves no choice


def test_needs_are_differences_of_log_probabilities(translator):
    (one,) = translator.score(["the cat sat"], ["die katze sass"])
    (needs,) = piece_needs(translator.model, [one], CPU)

    def known(source):
        ids = [*translator.source_vocabulary.encode(source), EOS]
        target = torch.tensor([[BOS, *one.target_ids]])
        logits = translator.model(torch.tensor([ids]), torch.tensor([len(ids)]), target).logits
        tokens = logits[0].detach().double().log_softmax(dim=-1)
        return torch.stack([tokens[at, token] for at, token in enumerate(one.target_ids)])

    whole, without = known("the cat sat"), [known(text) for text in ("cat sat", "the sat", "the cat")]
    by_hand = torch.stack([whole - lower for lower in without], dim=1).float()
    assert_close(needs, by_hand, atol=1e-4, rtol=1e-4)


def test_the_choice_stays_with_the_translator(translator, tmp_path):
    sharp = Translator(
        model=new_transformer(translator.source_vocabulary, translator.target_vocabulary, seed=3),
        source_vocabulary=translator.source_vocabulary,
        target_vocabulary=translator.target_vocabulary,
    )
    with torch.no_grad():  # larger parameters, so that each source word matters
        for parameter in sharp.model.parameters():
            parameter.mul_(5)
    sources, targets = ["the cat sat", "no dog"], ["die katze sass", "kein hund"]
    chosen = sharp.with_chosen_rule(sources, targets)
    assert chosen.alignment_rule.agreement is not None
    again = Translator.load(chosen.save(tmp_path / "chosen"))
    assert again.alignment_rule == chosen.alignment_rule
    (one,) = chosen.score(sources[:1], targets[:1])
    assert_close(one.alignment.piece_weights, sharp.align([one], chosen.alignment_rule)[0].piece_weights)
