"""Tests of when two scores, biases, masks and normalisers are equal."""

import copy

import pytest
import torch
from kinds import BIASES, MASKS, NORMALISERS, SCORES
from torch import Tensor, nn

from regard import Alibi, Causal, Grid, Keep, Padding, Prefix, ScaledDot, Softmax, attend
from regard.attention.stages import tensors_in

PARTS = {
    f"{name} ({registry})": part
    for registry, kinds in (("score", SCORES), ("bias", BIASES), ("mask", MASKS), ("normaliser", NORMALISERS))
    for name, kind in kinds.items()
    if (part := kind.build(Grid(2, 4, 7, 11))) is not None and not isinstance(part, nn.Module | Tensor)
}


@pytest.mark.parametrize("name", PARTS)
def test_equal_fields_make_equal_parts_and_a_tensor_equals_only_itself(name):
    part = PARTS[name]
    same, other = copy.copy(part), copy.deepcopy(part)
    assert part == same
    assert hash(part) == hash(same)
    if tensors_in(part):
        assert part != other
    else:
        assert part == other
        assert hash(part) == hash(other)
    assert part != "something else"


def test_parts_with_other_fields_are_not_equal():
    sinks, lengths = torch.zeros(2), torch.tensor([3])
    parts = [
        Softmax(), Softmax(0.5), Softmax(sinks=sinks), Softmax(sinks=torch.zeros(2)), ScaledDot(), ScaledDot(0.5),
        ScaledDot(bias=Alibi()), ScaledDot(bias=Alibi(offset=0)), Alibi(), Padding(lengths), Padding(lengths, "left"),
        Prefix(lengths), Prefix(3), Keep(torch.ones(1, dtype=torch.bool)), Causal(), Causal() & Padding(lengths),
    ]  # fmt: skip
    assert len(set(parts)) == len(parts)
    assert [part == other for part in parts for other in parts].count(True) == len(parts)
    again = [copy.copy(part) for part in parts]
    assert set(again) == set(parts)


def test_the_stages_of_a_default_call_equal_new_default_objects(normal):
    call = attend(*normal(3, 1, 2, 5, 7).unbind(), mask=Causal()).pattern.call
    assert (call.score, call.mask, call.normalise) == (ScaledDot(), Causal(), Softmax())
