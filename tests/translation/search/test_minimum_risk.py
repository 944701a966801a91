"""Minimum Bayes risk: the candidate that is most similar to the samples, by sacrebleu's chrF."""

from dataclasses import replace

import pytest
from refusals import refusal
from sacrebleu.metrics import CHRF
from tiny_model import Tiny, alone, some_sources

from regard.translation.search.beam import Beam
from regard.translation.search.interface import Hypothesis
from regard.translation.search.minimum_risk import MinimumRisk, mean_chrf

SEARCH = MinimumRisk(n_samples=7, candidates=Beam(4, n_best=4), n_best=4)


def text_of(tokens):
    """Return the text of some token ids, in which each id is a short word."""
    return " ".join("abcdefg"[token] * 2 for token in tokens)


def sources_of(model, n=5):
    return replace(some_sources(model, n), text_of=text_of)


def test_the_best_candidate_has_the_highest_mean_chrf():
    model = Tiny(5, sharpness=0.6)
    sources, changed = sources_of(model), 0
    candidates = SEARCH.candidates.run(model, sources)
    samples = [search.run(model, sources) for search in SEARCH.searches()]
    for row, found in enumerate(SEARCH.run(model, sources)):
        texts = [text_of(of_source[row][0].tokens) for of_source in samples]
        chrf = {
            one.tokens: sum(CHRF().sentence_score(text_of(one.tokens), [text]).score for text in texts) / len(texts)
            for one in candidates[row]
        }
        assert [one.tokens for one in found] == sorted(chrf, key=lambda tokens: -chrf[tokens])
        assert [one.score * 100 for one in found] == pytest.approx([chrf[one.tokens] for one in found])
        assert {(one.tokens, one.log_probability) for one in found} == {
            (one.tokens, one.log_probability) for one in candidates[row]
        }
        changed += found[0].tokens != candidates[row][0].tokens
    assert changed > 0


def test_samples_differ_and_follow_from_the_seed():
    model = Tiny(5, sharpness=0.3)
    sources = sources_of(model)
    samples = {tuple(one[0].tokens for one in search.run(model, sources)) for search in SEARCH.searches()}
    assert len(samples) == 7
    assert SEARCH.run(model, sources) == SEARCH.run(model, sources)
    assert SEARCH.searches() != replace(SEARCH, sample=replace(SEARCH.sample, seed=1)).searches()


def test_a_source_is_translated_as_it_is_alone():
    model = Tiny(5, sharpness=0.6)
    sources = sources_of(model)
    for row, found in enumerate(SEARCH.run(model, sources)):
        (one,) = SEARCH.run(model, replace(alone(sources, row), text_of=text_of))
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in found]


def test_a_case_by_hand():
    """Two of three samples are like the second candidate."""
    candidates = [
        Hypothesis(tokens=(4,), log_probability=-1.0, score=0.0),
        Hypothesis(tokens=(5, 6), log_probability=-2.0, score=0.0),
    ]
    best, other = replace(SEARCH, n_best=2).ranked(candidates, ["ff gg", "ee", "ff gg"], text_of)
    assert (best.tokens, other.tokens) == ((5, 6), (4,))
    assert best.score == pytest.approx(2 / 3)
    assert mean_chrf("", [""]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_samples": 0}, "n_samples=0 must be at least 1: candidates are compared with samples."),
        ({"candidates": Beam(5)}, "candidates.n_best=1 leaves nothing to choose; it must be at least 2."),
        ({"n_best": 6}, "n_best=6 must be at least 1 and at most 5, the number of candidates."),
    ],
)
def test_options_out_of_range(options, said):
    assert refusal(ValueError, MinimumRisk, **options) == said


def test_sources_without_text_are_refused():
    model = Tiny()
    assert refusal(ValueError, SEARCH.run, model, some_sources(model)) == (
        "MinimumRisk compares texts: give the sources a text_of, such as a vocabulary's decode."
    )
