"""Local attention around a predicted centre: against a loop, by hand, its gradients, what is refused."""

import math

import pytest
import torch
from oracle import near
from refusals import refusal

from regard import Local, Padding, PredictedCentre, attend
from regard.attention.grid.grid import Grid


def test_by_hand():
    # softmax over keys 1, 2, 3: 1/4, 1/4, 2/4; the Gaussian one reach away is exp(-2)
    scores = torch.tensor([9.0, 0.0, 0.0, math.log(2), 9.0], dtype=torch.float64)[None, None, None]
    found = Local(torch.tensor([[[2.0]]]), reach=1.0)(scores, None, Grid(1, 1, 1, 5).whole())
    far = math.exp(-2)
    near(found[0, 0, 0], torch.tensor([0, far / 4, 1 / 4, 2 * far / 4, 0], dtype=torch.float64))
    # no key is within reach of the centre, so all weights are 0
    assert not bool(Local(torch.tensor([[[-1.5]]]), reach=1.0)(scores, None, Grid(1, 1, 1, 5).whole()).any())


@pytest.mark.parametrize("reach", [0.4, 1.5, 3.0, 20.0])
def test_weights_equal_a_loop(normal, reach):
    query, key, value = normal(2, 3, 5, 11), normal(2, 3, 7, 11), normal(2, 3, 7, 13)
    query, key, value = query.double(), key.double(), value.double()
    centre = 7 * torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    lengths = [4, 7]
    seen = attend(query, key, value, mask=Padding(torch.tensor(lengths)), normalise=Local(centre, reach))
    expected = torch.zeros(2, 3, 5, 7, dtype=torch.float64)
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(5)).tolist():
        at = float(centre[b, h, i])
        window = [j for j in range(lengths[b]) if at - reach <= j <= at + reach]
        aligned = {j: math.exp(float(query[b, h, i] @ key[b, h, j]) / math.sqrt(11)) for j in window}
        for j in window:
            gaussian = math.exp(-((j - at) ** 2) / (2 * (reach / 2) ** 2))
            expected[b, h, i, j] = aligned[j] / sum(aligned.values()) * gaussian
    near(seen.pattern.dense(), expected)
    near(seen.context, expected @ value)
    near(seen.pattern[1, 2, 3], expected[1, 2, 3])


def test_gradients_reach_queries_keys_and_the_centre(normal):
    query, key, centre = normal(1, 2, 3, 5).double(), normal(1, 2, 7, 5).double(), 3 + normal(1, 2, 3).double() / 9

    def weights(query, key, centre):
        return attend(query, key, key, normalise=Local(centre, 2.3)).pattern.dense()

    assert torch.autograd.gradcheck(weights, [x.requires_grad_() for x in (query, key, centre)])


def test_the_predicted_centre_is_luongs_equation(normal):
    predict = PredictedCentre(d_query=5, d_hidden=3).double()
    query = normal(2, 3, 7, 5).double()
    lengths = torch.tensor([11, 4])
    (projection, place), found = (p.detach() for p in predict.parameters()), predict(query, lengths)
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(7)).tolist():
        hidden = [math.tanh(float(projection[k] @ query[b, h, i])) for k in range(3)]
        z = sum(float(place[0, k]) * hidden[k] for k in range(3))
        near(found[b, h, i], torch.tensor(float(lengths[b]) / (1 + math.exp(-z)), dtype=torch.float64))
    near(predict(query, 11)[0], found[0])
    assert PredictedCentre(d_query=5).hidden.out_features == 5


def test_one_centre_for_all_queries_is_broadcast(normal):
    x = normal(2, 3, 5, 11)
    centre = torch.tensor([[[2.0]]])
    one = attend(x, x, x, normalise=Local(centre, 2.0)).pattern
    torch.testing.assert_close(
        one.dense(), attend(x, x, x, normalise=Local(centre.expand(2, 3, 5), 2.0)).pattern.dense()
    )


def test_a_centre_of_nan_gives_weights_of_nan(normal):
    found = Local(torch.tensor([[[3.0], [math.nan]]]), 2.0)(normal(1, 2, 3, 7), None, Grid(1, 2, 3, 7).whole())
    assert found.isnan().all(-1).nonzero().tolist() == [[0, 1, 0], [0, 1, 1], [0, 1, 2]]


@pytest.mark.parametrize("reach", [0.0, -1.0, math.inf, math.nan])
def test_a_reach_out_of_range_is_refused(reach):
    assert refusal(ValueError, lambda: Local(torch.zeros(1, 1, 1), reach)) == (
        f"reach={reach} is the largest distance of a key from the centre; it must be above 0 and finite."
    )


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("shape", [(2, 3, 7), (3, 5), (2, 5, 3), (2, 3, 5, 1)])
def test_centres_that_do_not_fit_are_refused(normal, shape):
    x = normal(2, 3, 5, 11)
    assert refusal(ValueError, lambda: attend(x, x, x, normalise=Local(torch.zeros(shape), 2.0))) == (
        f"centre of shape {list(shape)} for batch=2, heads=3, queries=5, keys=5; "
        "give one for each query, [2, 3, 5]; axes of size 1 are broadcast."
    )
