"""Changes to heads: the names of heads, and the masks and scores that make the changes."""

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import Causal, Cut, InputError, Sharpen, Silence, Softmax, attend
from regard.effects.changes import HeadSet, changed_call


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("L3H1", HeadSet(None, 3, 1)),
        ("l12h10", HeadSet(None, 12, 10)),
        ("L3", HeadSet(None, 3, None)),
        ("cross", HeadSet("cross", None, None)),
        ("Cross L0H2", HeadSet("cross", 0, 2)),
        ("encoderL1", HeadSet("encoder", 1, None)),
    ],
)
def test_a_name_is_a_kind_a_layer_and_a_head(name, heads):
    assert HeadSet.of(name) == heads


@pytest.mark.parametrize("name", ["", " ", "H3", "L", "LxH1", "L-1H0", "head 3", "cross H1"])
def test_other_names_of_heads_are_refused(name):
    assert refusal(InputError, HeadSet.of, name) == (
        f"no heads {name!r}: heads are named like 'L3H1' or 'cross L3H1', a layer 'L3', and a kind 'cross'."
    )


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_cannot_divide_is_refused(temperature):
    assert refusal(ValueError, Sharpen, "L0H0", temperature) == (
        f"temperature={temperature} of Sharpen must be from 0.000001 to 1,000,000."
    )


def test_changes_of_a_layer_are_masks_and_temperatures_of_its_heads(normal):
    query, key, value = normal(2, 3, 5, 7), normal(2, 3, 5, 7), normal(2, 3, 5, 11)
    sinks = normal(3)
    changes = [
        Cut(3, 1, ["L2H0", "L1H2"]), Cut(4, 0), Cut(None, 2, ["L2H0"]),
        Silence("L2H1"), Sharpen("L2H2", 0.5), Sharpen("L2", 2.0), Silence("L0")
    ]  # fmt: skip
    plain = attend(query, key, value, mask=Causal(), normalise=Softmax(sinks=sinks))
    call = changed_call(plain.pattern.call, changes, "decoder", 2, first_query=0)
    seen = attend(query, key, value, score=call.score, mask=call.mask, normalise=call.normalise)

    scores = query.double() @ key.double().mT / 7**0.5 / torch.tensor([2.0, 2.0, 1.0]).double()[:, None, None]
    scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    scores[:, 0, 3, 1] = scores[:, :, 4, 0] = scores[:, 0, :, 2] = -torch.inf
    sink_scores = (sinks.double() / torch.tensor([2.0, 2.0, 1.0]))[None, :, None, None].expand(2, 3, 5, 1)
    weights = torch.cat([scores, sink_scores], -1).softmax(-1)[..., :-1]
    weights[:, 1] = 0.0
    assert_close(seen.pattern.dense().double(), weights, rtol=1e-5, atol=1e-6)
    assert_close(seen.context.double(), weights @ value.double(), rtol=1e-5, atol=1e-6)


def test_positions_of_a_cut_are_counted_in_the_whole_text(normal):
    query, key = normal(1, 2, 1, 7), normal(1, 2, 6, 7)
    call = attend(query, key, key).pattern.call
    mask = changed_call(call, [Cut(5, 2)], "decoder", 0, first_query=call.grid.offset).mask
    weights = attend(query, key, key, mask=mask).pattern.dense()
    assert (weights == 0).nonzero().tolist() == [[0, head, 0, 2] for head in range(2)]


def test_a_head_that_the_layer_lacks_is_refused(normal):
    call = attend(*[normal(1, 2, 5, 7)] * 3).pattern.call
    assert refusal(InputError, changed_call, call, [Silence("L0H2")], "encoder", 0, 0) == (
        "no head H2: the layer has 2 heads, H0 to H1."
    )
