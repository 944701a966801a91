"""Tests of classes of one's own that are no dataclasses: their tensors are found as those of a dataclass are."""

from collections import namedtuple

import pytest
import torch
from refusals import refusal
from torch import nn
from torch.testing import assert_close

from regard import Ask, Bias, Keep, Mask, MultiHeadAttention, ScaledDot, attend
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.biases.bias import distances
from regard.attention.scores.score import DotScore, Score

Pair = namedtuple("Pair", ["left", "right"])


class Times(Score):
    """Dot products times a factor; `hold` says in which container the factor is."""

    def __init__(self, factor, hold):
        self.held = hold(factor)

    @property
    def factor(self):
        held = self.held
        if isinstance(held, dict):
            return held["factor"]
        return held[0] if isinstance(held, tuple | list) else held

    def __call__(self, query, key, tile):
        return self.factor * query @ key.mT


class DotTimes(Times, DotScore):
    __call__ = DotScore.__call__

    def as_dot(self, query, key):
        return self.factor * query, key


class Slope(Bias):
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, tile, device, dtype=torch.float32):
        return self.slope.to(dtype) * distances(tile, device).abs()


class Sharper(Normaliser):
    def __init__(self, factor):
        self.factor = factor

    def weights(self, masked, tile):
        return torch.softmax(self.factor * masked, dim=-1)


class Rows(Mask):
    def __init__(self, allowed):
        self.allowed = allowed

    def keep(self, tile, device):
        return tile.select(self.allowed.to(device))


HOLD = {
    "alone": lambda factor: factor,
    "tuple": lambda factor: (factor, 3),
    "list": lambda factor: [factor],
    "dict": lambda factor: {"factor": factor},
    "named tuple": lambda factor: Pair(factor, None),
}


@pytest.mark.parametrize("ask", [None, Ask()])
@pytest.mark.parametrize("kind", [Times, DotTimes])
@pytest.mark.parametrize("hold", HOLD)
def test_the_tensors_of_a_score_of_ones_own_get_gradients(hold, kind, ask):
    x = torch.randn(1, 2, 191, 5, generator=torch.Generator().manual_seed(7))
    factor = torch.tensor(0.3, requires_grad=True)
    attend(x, x, x, score=kind(factor, HOLD[hold]), ask=ask).context.square().sum().backward()
    expected = torch.tensor(0.3, requires_grad=True)
    (torch.softmax(expected * x @ x.mT, dim=-1) @ x).square().sum().backward()
    assert_close(factor.grad, expected.grad)


@pytest.mark.parametrize("ask", [None, Ask()])
def test_the_tensors_of_a_bias_of_ones_own_get_gradients(ask):
    x = torch.randn(1, 2, 191, 5, generator=torch.Generator().manual_seed(7))
    slope, position = torch.tensor(-0.3, requires_grad=True), torch.arange(191.0)
    attend(x, x, x, score=ScaledDot(scale=1.0, bias=Slope(slope)), ask=ask).context.square().sum().backward()
    expected = torch.tensor(-0.3, requires_grad=True)
    scores = x @ x.mT + expected * (position[:, None] - position).abs()
    (torch.softmax(scores, dim=-1) @ x).square().sum().backward()
    assert_close(slope.grad, expected.grad)


def test_a_change_in_place_of_a_mask_of_ones_own_is_noticed():
    x, allowed = torch.ones(1, 1, 5, 3), torch.ones(5, 5, dtype=torch.bool).tril()
    pattern = attend(x, x, x, mask=Rows(allowed)).pattern
    allowed.fill_(True)
    assert refusal(ValueError, pattern.dense) == (
        "a tensor given to attend() was changed in place afterwards, so the weights of that call can no longer be "
        "computed; clone the tensor before you change it."
    )


def test_a_layer_registers_the_parameters_of_a_normaliser_of_ones_own_and_follows_their_replacement():
    layer = MultiHeadAttention(6, 2, normalise=Sharper(nn.Parameter(torch.tensor(2.0))))
    assert next(iter(dict(layer.named_parameters()))) == "held_parameters.0"
    state = {name: torch.full_like(tensor, 0.25) for name, tensor in layer.state_dict().items()}
    state["held_parameters.0"] = torch.tensor(0.0)
    layer.load_state_dict(state, assign=True)
    weights = layer(torch.randn(1, 7, 6)).pattern.dense()
    assert_close(weights, torch.full_like(weights, 1 / 7))


def test_a_tensor_of_a_module_that_is_no_parameter_gets_a_gradient():
    class ModuleScore(nn.Module, Score):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, query, key, tile):
            return self.factor * query @ key.mT

    x, factor = torch.randn(1, 1, 191, 5), torch.tensor(0.3, requires_grad=True)
    assert attend(x, x, x, score=ModuleScore(factor)).context.requires_grad


@pytest.mark.parametrize("hold", HOLD)
def test_a_pattern_on_another_device_has_all_tensors_there(hold):
    x = torch.ones(1, 1, 5, 3)
    pattern = attend(x, x, x, score=Times(torch.tensor(0.3), HOLD[hold]), mask=Rows(torch.ones(5, 5).bool())).pattern
    moved = pattern.to("meta")
    assert {tensor.device.type for tensor in moved.call.tensors} == {"meta"}
    assert moved.score.factor.device.type == moved.mask.allowed.device.type == "meta"
    assert pattern.score.factor.device.type == "cpu"


def test_objects_of_ones_own_name_their_attributes():
    x = torch.ones(1, 1, 5, 3)
    pattern = attend(x, x, x, score=Times(2.0, HOLD["alone"]), mask=~Rows(torch.ones(5, dtype=torch.bool))).pattern
    assert repr(pattern) == (
        "Pattern(batch=1, heads=1, queries=5, keys=5, mask=~Rows(allowed=<bool [5]>), score=Times(held=2.0))"
    )
    assert repr(Sharper(Keep(torch.ones(5).bool()))) == "Sharper(factor=Keep(tensor=<bool [5]>))"
