"""Tests of every score, besides test_laws.py: the fused equals the tiled backend, gradients, reprs, refusals."""

import pytest
import torch
from oracle import Largest
from refusals import refusal
from torch import nn
from torch.testing import assert_close

from regard import Additive, Causal, Concat, Cosine, Distance, General, Location, MultiHeadAttention, ScaledDot, attend

BUILD = {
    "ScaledDot": lambda: ScaledDot(scale=0.3),
    "General": lambda: General(5, 11),
    "Additive": lambda: Additive(5, 11, 17),
    "Concat": lambda: Concat(5, 11, 17),
    "Cosine": lambda: Cosine(scale=nn.Parameter(torch.tensor([3.0, 2.0, 5.0, 7.0, 1.0, 4.0]))),
    "Distance": lambda: Distance(scale=0.2),
    "Location": lambda: Location(5, 29),
}
FUSED = ["ScaledDot", "General", "Cosine", "Location"]


def built(name, dtype=torch.float32):
    """Return a score with parameters from a seed, so large that the weights are far from uniform."""
    torch.manual_seed(2)
    score = BUILD[name]()
    if isinstance(score, nn.Module):
        score.to(dtype)
        if name != "Cosine":
            with torch.no_grad():
                for parameter in score.parameters():
                    parameter.normal_()
    return score


def width(name):
    """Return the width of the queries; keys have width 11."""
    return 5 if name in ("General", "Additive", "Concat", "Location") else 11


def inputs(normal, name, queries=17, keys=23, dtype=torch.float32):
    """Return query, key and value of two items, with six query heads and three key heads."""
    query = normal(2, 6, queries, width(name), dtype=dtype)
    return query, normal(2, 3, keys, 11, dtype=dtype), normal(2, 3, keys, 13, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [name for name in BUILD if name != "ScaledDot"])
def test_half_types_round_only_the_last_digit_of_the_context(normal, name, dtype):
    query, key, value = (x.to(dtype) for x in inputs(normal, name))
    query, key = query + 3, key + 3
    seen = attend(query, key, value, score=built(name, dtype), mask=Causal())
    truth = attend(query.double(), key.double(), value.double(), score=built(name, dtype), mask=Causal())
    digit = torch.finfo(dtype).eps
    assert_close(seen.context.double(), truth.pattern.apply(value.double()), rtol=digit, atol=digit)
    assert_close(seen.pattern.dense().double(), truth.pattern.dense(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in BUILD if name != "Location"])
def test_a_key_of_nan_shows_in_its_own_scores_alone(normal, name):
    query, key, value = inputs(normal, name)
    key[1, 2, 3] = torch.nan
    seen = attend(query, key, value, score=built(name))
    assert seen.pattern.scores().isnan().nonzero()[:, [0, 1, 3]].unique(dim=0).tolist() == [[1, 4, 3], [1, 5, 3]]
    assert seen.context[1, 4:].isnan().all()
    assert not seen.context[0].isnan().any()
    hidden = attend(query, key, value, score=built(name), mask=torch.arange(23) != 3).pattern
    assert not hidden.dense().isnan().any()


@pytest.mark.parametrize("name", FUSED)
def test_the_matrix_is_never_built(normal, name):
    query, key = normal(1, 1, 2053, width(name)).requires_grad_(), normal(1, 1, 2053, 11)
    score = Location(5, 2053) if name == "Location" else built(name) if name != "Cosine" else Cosine()
    with Largest() as forward:
        seen = attend(query, key, key, score=score, mask=Causal(0))
    with Largest() as backward:
        seen.context.sum().backward()
    assert seen.backend == "fused"
    assert max(forward.numbers, backward.numbers) < 2053 * 2053 / 11


SCALE = nn.Parameter(torch.tensor(3.0))


@pytest.mark.parametrize(
    ("kind", "given"),
    [(General, (5, 5)), (Additive, (5, 5, 17)), (Concat, (5, 5, 17)), (Cosine, (SCALE,)), (Location, (5, 5))],
)
def test_a_layer_shows_its_score_once_and_trains_it(normal, kind, given):
    torch.manual_seed(2)
    score = kind(*given)
    model = MultiHeadAttention(30, 6, score=score)
    assert repr(model).count(repr(score)) == 1
    model(normal(2, 5, 30)).output.square().sum().backward()
    assert all(parameter.grad.any() for parameter in score.parameters())


@pytest.mark.parametrize("name", ["General", "Additive", "Concat", "ScaledDot", "Cosine"])
def test_vectors_of_other_widths_than_the_parameters_or_of_unlike_widths_are_refused(normal, name):
    query, key, value = normal(1, 1, 3, 11), normal(1, 1, 7, 5), normal(1, 1, 7, 2)
    expected = (
        f"this {name} was built for queries of width 5 and keys of width 11, and its parameters fit no others."
        if name in ("General", "Additive", "Concat")
        else "their product needs one width, so project them to the same d_key."
    )
    message = refusal(ValueError, lambda: attend(query, key, value, score=built(name)))
    assert message == f"query has width 11 and key has width 5; {expected}"


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: General(0, 3), "d_query=0"),
        (lambda: General(3, -1), "d_key=-1"),
        (lambda: Additive(3, 5, 0), "d_hidden=0"),
        (lambda: Concat(3, 0, 5), "d_key=0"),
        (lambda: Location(0, 5), "d_query=0"),
        (lambda: Location(5, 0), "max_keys=0"),
    ],
)
def test_sizes_below_one_are_refused(build, name):
    assert refusal(ValueError, lambda: build()) == f"{name} is too small; it must be at least 1."
