"""Beam search against exhaustive search with tiny models, and against a simple beam search over lists."""

import math
from dataclasses import replace
from itertools import groupby

import pytest
import torch
from tiny_model import Tiny, alone, every_text, forced, some_sources

from regard.text.vocabulary import BOS, EOS, PAD
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def scored(model, sources, row, texts, alpha, beta):
    """Return (score, text) of each text, by equation 14 of Wu et al. 2016, best first."""
    found, n_pieces = [], int(sources.lengths[row]) - 1
    for length, alike in groupby(sorted(texts, key=len), key=len):
        alike = list(alike)
        log_probabilities, looked = forced(model, sources, row, alike)
        for text, log_probability, weights in zip(alike, log_probabilities, looked.tolist(), strict=True):
            lp = ((5 + length + 1) / (5 + 1)) ** alpha
            totals = [sum(weights[token][piece] for token in range(length + 1)) for piece in range(n_pieces)]
            cp = sum(math.log(min(max(total, 1e-9), 1.0)) for total in totals)
            found.append((log_probability / lp + beta * cp, text))
    return sorted(found, reverse=True)


@pytest.mark.parametrize(
    ("seed", "alpha", "beta"), [(0, 0.0, 0.0), (1, 0.6, 0.0), (2, 1.5, 0.0), (0, 0.0, 0.7), (1, 1.0, 0.3)]
)
def test_a_wide_beam_finds_what_exhaustive_search_finds(seed, alpha, beta):
    model = Tiny(seed, sharpness=1 + seed)
    sources = some_sources(model, n=3, limits=[3, 2, 4])
    found = Beam(400, length_penalty=alpha, coverage_penalty=beta, n_best=5).run(model, sources)
    for row, hypotheses in enumerate(found):
        best = scored(model, sources, row, every_text(model, sources, row), alpha, beta)[:5]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [text for _, text in best]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for score, _ in best], abs=1e-9)


def test_exhaustive_search_after_a_prefix():
    model = Tiny(4)
    sources = some_sources(model, n=3, limits=[5, 4, 5], prefix=2)
    for row, (hypothesis,) in enumerate(Beam(400).run(model, sources)):
        assert hypothesis.tokens == scored(model, sources, row, every_text(model, sources, row), 0.6, 0.0)[0][1]


def test_a_wide_beam_finds_the_best_text_with_the_required_tokens():
    """No text of the third sentence is long enough for all three tokens: the best have two of them."""
    model = Tiny(1, sharpness=2)
    required = (frozenset({4}), frozenset({4, 5}), frozenset({4, 5, 6}), frozenset())
    sources = replace(some_sources(model, n=4, limits=[3, 3, 2, 3]), required=required)
    for row, hypotheses in enumerate(Beam(400, n_best=5).run(model, sources)):
        texts = list(every_text(model, sources, row))
        most = max(len(required[row].intersection(text)) for text in texts)
        texts = [text for text in texts if len(required[row].intersection(text)) == most]
        best = scored(model, sources, row, texts, 1.0, 0.0)[:5]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [text for _, text in best]


def plain_beam(model, sources, row, beam):
    """Beam search with lists, which goes on until the beam is finished even if no active hypothesis can win."""
    required = sources.required[row] if sources.required else frozenset()
    one, prefix = alone(sources, row), tuple(sources.prefix[row].tolist())
    running, ended = [(sum(following(model, one, [prefix[:n]])[0][t] for n, t in enumerate(prefix)), prefix)], []
    while running and len(ended) < beam.size:
        extensions = []
        expected = following(model, one, [text for _, text in running])
        for (total, text), known in zip(running, expected, strict=True):
            for token, more in enumerate(known):
                may = token == EOS if len(text) >= sources.limits[row] else token not in (PAD, BOS)
                if may:
                    extensions.append((total + more, (*text, token)))
        extensions = [one for one in extensions if one[1][-1] != EOS or required <= set(one[1])]
        extensions = sorted(extensions, reverse=True)[: beam.size - len(ended)]
        ended += [text[:-1] for _, text in extensions if text[-1] == EOS]
        running = [(total, text) for total, text in extensions if text[-1] != EOS]
    return scored(model, sources, row, ended, beam.length_penalty, beam.coverage_penalty)[: beam.n_best]


def following(model, one, texts):
    """Return the log-probabilities of the next token after each of some texts of equal length."""
    target = torch.tensor([[BOS, *text] for text in texts])
    logits = model(one.source.expand(len(texts), -1), one.lengths.expand(len(texts)), target).logits[:, -1]
    return logits.double().log_softmax(dim=-1).tolist()


@pytest.mark.parametrize(
    ("beam", "prefix"),
    [
        (Beam(1), 0),
        (Beam(2, n_best=2), 2),
        (Beam(3, length_penalty=0.0), 0),
        (Beam(4, length_penalty=1.7, n_best=3), 2),
        (Beam(5, length_penalty=1.0, coverage_penalty=0.5, n_best=5), 2),
    ],
)
def test_a_narrow_beam_is_the_plain_beam(beam, prefix):
    for seed in range(2):
        model = Tiny(seed, sharpness=2)
        sources = some_sources(model, n=4, limits=[8, 4, 6, 3], prefix=prefix, seed=seed)
        for row, hypotheses in enumerate(beam.run(model, sources)):
            expected = plain_beam(model, sources, row, beam)
            assert [hypothesis.tokens for hypothesis in hypotheses] == [text for _, text in expected]
            assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([s for s, _ in expected], abs=1e-9)


@pytest.mark.parametrize("beam", [Beam(1), Beam(2, n_best=2), Beam(5, length_penalty=1.7, n_best=3)])
def test_a_narrow_beam_goes_on_until_it_has_the_required_tokens(beam):
    n_short = 0
    for seed in range(4):
        model = Tiny(seed, sharpness=1.5)
        free = some_sources(model, n=3, limits=[12] * 3, seed=seed)
        sources = replace(free, required=(frozenset({4}), frozenset({5, 6}), frozenset()))
        for row, hypotheses in enumerate(beam.run(model, sources)):
            expected = [text for _, text in plain_beam(model, sources, row, beam)]
            found = [hypothesis.tokens for hypothesis in hypotheses]
            assert found == expected if expected else not sources.required[row] <= set(found[0])
            n_short += bool(expected) and expected != [text for _, text in plain_beam(model, free, row, beam)]
    assert n_short


def test_a_beam_stops_as_soon_as_nothing_can_win():
    """With n_best=5 all five hypotheses must end; with n_best=1 the search ends as soon as none can beat the best."""
    model = Tiny(3, sharpness=4)
    sources, beam = some_sources(model, n=3, limits=[12] * 3), Beam(5, length_penalty=0.0)
    n_steps = {}
    for n_best in (1, 5):
        model.n_steps = 0
        found = replace(beam, n_best=n_best).run(model, sources)
        n_steps[n_best] = model.n_steps
        for row, hypotheses in enumerate(found):
            score, text = plain_beam(model, sources, row, beam)[0]
            assert hypotheses[0].tokens == text
            assert hypotheses[0].score == pytest.approx(score, abs=1e-9)
    assert n_steps[5] == 12 + 1
    assert n_steps[1] < n_steps[5] / 2


def test_a_beam_of_one_is_greedy():
    for model, alpha in ((Tiny(8), 0.6), (Tiny(9, sharpness=4), 2.0)):
        sources = some_sources(model, n=5, limits=[7, 3, 9, 5, 6])
        beam, greedy = Beam(1, length_penalty=alpha).run(model, sources), Greedy().run(model, sources)
        assert [h.tokens for (h,) in beam] == [h.tokens for (h,) in greedy]
        assert [h.log_probability for (h,) in beam] == pytest.approx([h.log_probability for (h,) in greedy])
