"""Sampling: tokens are as frequent as probable, and a sample depends only on the seed and the sentence's number."""

import math
from dataclasses import replace

import pytest
import torch
from tiny_model import Tiny, some_sources

from regard.translation.search.sampling import Sample


def frequencies(sample, known, n):
    numbers = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chosen = sample.draw(known.expand(n, -1), numbers)
    return torch.bincount(chosen, minlength=known.shape[-1]).double() / n


KNOWN = torch.tensor([-math.inf, 0.9, -math.inf, 0.4, 2.0, 0.4, -1.0, 1.2, -2.5]).double().log_softmax(dim=0)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_frequencies_are_those_of_softmax(temperature):
    """Pearson's chi-square against softmax(log P / temperature); 6 degrees of freedom, 22.5 = 1 in 1,000."""
    n = 20_000
    expected = (KNOWN / temperature).softmax(dim=0)
    found = frequencies(Sample(temperature=temperature), KNOWN, n)
    possible = expected > 0
    assert not found[~possible].any()
    assert float((n * (found - expected)[possible] ** 2 / expected[possible]).sum()) < 22.5


@pytest.mark.parametrize("top_k", [None, 1, 3, 9])
@pytest.mark.parametrize("top_p", [None, 0.01, 0.55, 0.8, 1.0])
def test_top_k_and_top_p_by_brute_force(top_k, top_p):
    n = 20_000
    order = sorted(range(9), key=lambda token: -float(KNOWN[token]))[: top_k or 9]
    chances = [math.exp(float(KNOWN[token])) for token in order]
    total, kept, reached = sum(chances), [], 0.0
    for token, chance in zip(order, chances, strict=True):
        if top_p is not None and reached >= top_p:
            break
        kept.append(token)
        reached += chance / total
    whole = sum(math.exp(float(KNOWN[token])) for token in kept)
    expected = torch.tensor([math.exp(float(KNOWN[t])) / whole if t in kept else 0.0 for t in range(9)]).double()
    found = frequencies(Sample(top_k=top_k, top_p=top_p), KNOWN, n)
    assert set(found.nonzero()[:, 0].tolist()) == {t for t in kept if expected[t] > 0}
    assert (found - expected).abs().max() < 0.02


def test_the_last_number_draws_the_last_token_that_is_possible():
    almost_one = torch.tensor([1 - 2**-53]).double()
    for sample in (Sample(), Sample(temperature=1e-300), Sample(top_k=4), Sample(top_p=0.3)):
        chosen = sample.draw(KNOWN[None], almost_one)
        assert KNOWN[int(chosen)] > -math.inf


def test_samples_follow_from_seed_and_number_alone():
    model = Tiny(12, sharpness=0.5)
    sources = some_sources(model, n=5)
    again = Sample(seed=1).run(model, sources)
    assert Sample(seed=1).run(model, sources) == again
    assert Sample(seed=2).run(model, sources) != again
    others = replace(sources, numbers=tuple(number + 1 for number in sources.numbers))
    assert Sample(seed=1).run(model, others) != again


@pytest.mark.parametrize("seed", [3, 2**63 - 1])
def test_several_samples_are_those_of_the_next_seeds(seed):
    model = Tiny(12, sharpness=0.5)
    sources = some_sources(model, n=5)
    first, second = (Sample(seed=one).run(model, sources) for one in (seed, (seed + 1) % 2**63))
    expected = [(*a, *b) for a, b in zip(first, second, strict=True)]
    assert Sample(seed=seed, n_best=2).run(model, sources) == expected
