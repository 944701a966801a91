"""Tests of the check of an export: it passes if the translations are equal or equally probable, and else fails."""

import math

import pytest
import torch
from refusals import refusal

from regard import InputError
from regard.export.parity import Parity, compare, random_lines
from regard.text.vocabulary import EOS
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import SourceBatch

LINES = ["the cat sat", "two men"]


class Twin:
    """An export that translates as the translator itself, except for the errors given to it."""

    def __init__(self, translator, more=0.0, change=lambda tokens: tokens, text=lambda text: text):
        self.translator, self.more, self.change, self.text = translator, more, change, text

    def greedy(self, line):
        sources = SourceBatch.of(self.translator.model, [[*self.translator.source_vocabulary.encode(line), EOS]])
        return Greedy().run(self.translator.model, sources)[0][0]

    def translate(self, text, limit):
        tokens = self.change(list(self.greedy(text).tokens))
        return tokens, self.text(self.translator.target_vocabulary.decode(tokens))

    def log_probability(self, text, tokens):
        return self.greedy(text).log_probability + self.more


def test_a_twin_is_the_same(translator_of):
    parity = compare(translator_of(), Twin(translator_of()), LINES)
    assert (parity.n_lines, parity.n_same, parity.difference, parity.gap) == (2, 2, 0, 0)
    assert parity.holds
    assert str(parity) == "same translation of 2 of 2 lines; log-probabilities at most 0.0e+00 nats a token apart"


def test_both_are_given_tidy_lines(translator_of):
    """Both get cleaned lines, because other programs split lines that are not cleaned into different pieces."""
    given = []

    class Asked(Twin):
        def translate(self, text, limit):
            given.append(text)
            return super().translate(text, limit)

        def log_probability(self, text, tokens):
            given.append(text)
            return super().log_probability(text, tokens)

    untidy = ["the\u00a0cat\tsat", " two\u2028men\x00 ", "\t"]
    parity = compare(translator_of(), Asked(translator_of()), untidy)
    assert given == [LINES[0]] * 2 + [LINES[1]] * 2
    assert (parity.n_lines, parity.n_same) == (2, 2)


def test_another_log_probability_is_a_difference_for_each_token(translator_of):
    translator = translator_of()
    parity = compare(translator, Twin(translator, more=-0.5), LINES)
    lengths = [len(Twin(translator).greedy(line).tokens) + 1 for line in LINES]
    assert parity.difference == pytest.approx(0.5 / min(lengths))
    assert parity.n_same == 2
    assert not parity.holds


def test_another_piece_is_a_gap_of_our_own_log_probabilities(translator_of):
    translator = translator_of()
    own = Twin(translator).greedy(LINES[0]).tokens
    other = 5 if own[1] != 5 else 6
    parity = compare(translator, Twin(translator, change=lambda tokens: [tokens[0], other, *tokens[2:]]), LINES[:1])
    source = torch.tensor([[*translator.source_vocabulary.encode(LINES[0]), EOS]])
    step = translator.model.step(
        torch.tensor([[2, own[0]]]), translator.model.start(source, torch.tensor([source.shape[1]]))
    )
    logits = step.logits[0, -1].detach()
    assert parity.gap == pytest.approx(float(logits[own[1]] - logits[other]), rel=1e-4)
    assert (parity.n_same, parity.holds, parity.worst) == (0, False, LINES[0])


def test_that_the_export_has_no_placeholders_is_said(translator_of):
    translator = translator_of()
    assert "signs" not in str(compare(translator, Twin(translator), LINES))
    said = str(Parity(n_lines=1, n_same=1, difference=0.0, gap=0.0, worst="", placeholders=True))
    assert said.endswith("nats a token apart; the export puts no signs in place of names, numbers and addresses")


def test_a_piece_that_is_as_likely_is_a_tie(translator_of):
    """Two pieces with equal rows in the output projection always have the same logits."""
    translator = translator_of(share="none")
    own = Twin(translator).greedy(LINES[0]).tokens
    other = next(token for token in range(4, 40) if token not in own)
    with torch.no_grad():
        for parameter in translator.model.decoder.to_logits.parameters():
            parameter[other] = parameter[own[0]]
    change = {own[0]: other, other: own[0]}
    parity = compare(translator, Twin(translator, change=lambda tokens: [change[tokens[0]], *tokens[1:]]), LINES[:1])
    assert (parity.n_same, parity.gap) == (0, 0)
    assert parity.holds
    assert "same translation of 0 of 1 lines (the others are ties: 0.0e+00 nats apart); " in str(parity)


@pytest.mark.parametrize("change", [lambda tokens: tokens[:-1], lambda tokens: [*tokens, 5]])
def test_a_text_that_ends_elsewhere_differs_there(translator_of, change):
    translator = translator_of(max_tokens=15)  # so short that it is cut, where EOS was not what it preferred
    parity = compare(translator, Twin(translator, change=change), LINES[:1])
    assert parity.n_same == 0
    assert parity.gap != 0


def test_the_same_pieces_with_another_text_are_no_tie(translator_of):
    parity = compare(translator_of(), Twin(translator_of(), text=str.upper), LINES)
    assert parity.gap == math.inf
    assert not parity.holds


def test_lines_made_up_are_the_same_every_time_and_of_all_lengths(vocabularies):
    lines = random_lines(vocabularies[0])
    assert lines == random_lines(vocabularies[0])
    assert len(lines) == 20
    assert len(vocabularies[0].encode(lines[11])) > len(vocabularies[0].encode(lines[2]))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["", "  "], "there is no line to check the export with; give some with --lines."),
        (["a" * 60], f"a line to check with has 61 pieces and the model reads at most 23: '{'a' * 60}'; leave it out."),
    ],
)
def test_lines_that_check_nothing_or_are_too_long_are_refused(translator_of, lines, message):
    assert refusal(InputError, compare, translator_of(), Twin(translator_of()), lines) == message


@pytest.mark.parametrize(("difference", "gap", "holds"), [(9e-4, 9e-4, True), (2e-3, 0.0, False), (0.0, 2e-3, False)])
def test_differences_and_gaps_up_to_a_thousandth_hold(difference, gap, holds):
    assert Parity(n_lines=1, n_same=1, difference=difference, gap=gap, worst="").holds is holds
