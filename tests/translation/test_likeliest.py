"""The likeliest tokens of a row: the definition, for all sizes, with and without a C compiler."""

import pytest
import torch
from structs import fields_of
from torch.testing import assert_close

from regard.kernels import library as compiled
from regard.text.vocabulary import BOS, PAD
from regard.translation.search import top_logits as module
from regard.translation.search.top_logits import Call, likeliest, why_not


def defined(logits, n):
    """The same from the definition, in float64, of equal ones the first first."""
    known = logits.double() - logits.double().logsumexp(dim=1, keepdim=True)
    known[:, [PAD, BOS]] = -torch.inf
    return tuple(part[:, :n] for part in known.sort(dim=1, descending=True, stable=True))


@pytest.fixture(params=["C", "torch"])
def way(request, monkeypatch):
    """How it is done."""
    if request.param == "torch":
        monkeypatch.setattr(module, "regard_likeliest", lambda: None)
    else:
        assert module.regard_likeliest() is not None, "these tests need a C compiler"
    return request.param


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n", [1, 2, 5, 17])
@pytest.mark.parametrize("vocabulary", [17, 31, 32, 63, 64, 65, 96, 131, 1000])
@pytest.mark.parametrize("rows", [1, 3, 4, 29])
def test_it_is_the_definition(normal, rows, vocabulary, n):
    logits = 3 * normal(rows, 2, vocabulary)[:, 1]  # as a part of something larger
    log_probability, tokens = likeliest(logits, n)
    expected, expected_tokens = defined(logits, n)
    assert log_probability.dtype == torch.float64
    assert_close(log_probability, expected, rtol=1e-6, atol=3e-6)
    there = expected > -torch.inf
    assert torch.equal(tokens[there], expected_tokens[there])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n", [module.MOST, module.MOST + 1])
def test_there_may_be_many(normal, n):
    logits = normal(3, 300)
    expected, expected_tokens = defined(logits, n)
    log_probability, tokens = likeliest(logits, n)
    assert_close(log_probability, expected, rtol=1e-6, atol=3e-6)
    assert torch.equal(tokens, expected_tokens)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("scale", [1e-6, 30.0, 1e4, 1e30])
def test_logits_may_be_small_and_large(normal, scale):
    logits = normal(7, 333) * scale
    expected, expected_tokens = defined(logits, 5)
    log_probability, tokens = likeliest(logits, 5)
    assert_close(log_probability, expected, rtol=1e-6, atol=3e-6)
    assert torch.equal(tokens, expected_tokens)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("place", [0, 40, 63, 64, 90, 98])
def test_the_likeliest_is_found_wherever_it_is(place):
    logits = torch.zeros(2, 99)
    logits[:, place] = 5.0
    likely, token = likeliest(logits, 1)
    assert token.flatten().tolist() == [place] * 2 if place not in (PAD, BOS) else place not in token
    assert_close(likely, defined(logits, 1)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("way")
def test_tokens_that_no_text_goes_on_with_keep_their_share_and_are_never_taken(normal):
    logits = normal(5, 200)
    logits[:, [PAD, BOS]] = 9.0
    log_probability, tokens = likeliest(logits, 4)
    assert not torch.isin(tokens, torch.tensor([PAD, BOS])).any()
    assert_close(log_probability, defined(logits, 4)[0], rtol=1e-6, atol=3e-6)
    assert bool((log_probability.exp().sum(dim=1) < 0.1).all())


def test_of_equal_ones_the_first_is_taken():
    logits = torch.zeros(1, 150)
    logits[0, [7, 70, 140]] = 2.0
    assert likeliest(logits, 5)[1].tolist() == [[7, 70, 140, *(i for i in range(150) if i not in (PAD, BOS))][:5]]


@pytest.mark.usefixtures("way")
def test_where_there_are_no_more_their_log_probability_says_so():
    log_probability, _ = likeliest(torch.zeros(2, 5), 5)
    assert (log_probability > -torch.inf).sum(dim=1).tolist() == [3, 3]
    logits = torch.full((1, 100), -torch.inf)
    logits[0, 50] = 1.0
    log_probability, tokens = likeliest(logits, 3)
    assert tokens[0, 0] == 50
    assert log_probability.tolist() == [[0.0, -torch.inf, -torch.inf]]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [3, 64, 99])
def test_numbers_that_are_none_make_their_own_row_nan_and_no_other(normal, wrong, place):
    logits = normal(3, 100)
    logits[1, place] = wrong
    log_probability, tokens = likeliest(logits, 4)
    assert bool(log_probability[1].isnan().all() if wrong is torch.nan else log_probability[1].isnan().any())
    assert not log_probability[[0, 2]].isnan().any()
    assert bool(((tokens >= 0) & (tokens < 100)).all())


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_nothing(normal, threads, monkeypatch):
    monkeypatch.setattr(module, "WORTH_THREADS", 1)
    logits = normal(57, 500)
    alone = likeliest(logits, 5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    together = likeliest(logits, 5)
    monkeypatch.setattr(compiled, "parallel", lambda: None)  # another OpenMP than GNU's
    for found in (together, likeliest(logits, 5)):
        assert all(map(torch.equal, found, alone))


@pytest.mark.parametrize(
    ("logits", "reason"),
    [
        (torch.zeros(3, 16, device="meta"), "it runs on a CPU"),
        (torch.zeros(3, 16, dtype=torch.float64), "it reads float32"),
        (torch.zeros(16, 16).T, "a row's logits lie side by side"),
        (torch.zeros(3, 16), None),
    ],
)
def test_it_says_what_it_cannot_do(logits, reason):
    assert why_not(logits) == reason


def test_without_a_compiler_it_says_so(monkeypatch):
    monkeypatch.setattr(module, "regard_likeliest", lambda: None)
    assert why_not(torch.zeros(3, 16)) == "no C compiler was found"


def test_the_struct_has_the_fields_of_the_source_in_their_order():
    assert [name for name, *_ in Call._fields_] == fields_of(module.SOURCE, "Call")
