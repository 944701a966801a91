"""The feed-forward network: every activation against its formula, and what a gate multiplies."""

import math
from typing import get_args

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard.transformer.feed_forward import ACTIVATIONS, Activation, FeedForward


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": gelu,
    "gelu_tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swish": lambda x: x * sigmoid(x),
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * math.tanh(math.log(1 + math.exp(x))),
    "squared_relu": lambda x: max(x, 0.0) ** 2,
    "tanh": math.tanh,
    "glu": sigmoid,
    "bilinear": lambda x: x,
    "reglu": lambda x: max(x, 0.0),
    "geglu": gelu,
    "swiglu": lambda x: x * sigmoid(x),
}


def test_every_activation_has_a_formula_here():
    assert set(FORMULAS) == set(get_args(Activation)) == set(ACTIVATIONS)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_the_network_is_its_formula(normal, activation):
    network, x = FeedForward(5, 3, activation).double(), normal(2, 7, 5, dtype=torch.float64)
    torch.nn.init.normal_(network.widen.bias, generator=torch.Generator().manual_seed(1))
    torch.nn.init.normal_(network.narrow.bias, generator=torch.Generator().manual_seed(2))
    weight, bias = network.widen.weight.tolist(), network.widen.bias.tolist()
    output = network(x)
    for token, got in zip(x.flatten(0, 1).tolist(), output.flatten(0, 1), strict=True):
        wide = [sum(w * number for w, number in zip(row, token, strict=True)) for row in weight]
        wide = [number + b for number, b in zip(wide, bias, strict=True)]
        activate = FORMULAS[activation]
        hidden = [activate(number) for number in wide[-3:]]
        if len(wide) == 6:
            hidden = [gate * number for gate, number in zip(hidden, wide[:3], strict=True)]
        expected = network.narrow.weight @ torch.tensor(hidden, dtype=torch.float64) + network.narrow.bias
        assert_close(got, expected)


def test_by_hand():
    network = FeedForward(1, 2)
    with torch.no_grad():
        network.widen.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        network.narrow.weight.copy_(torch.tensor([[2.0, 3.0]]))
        network.narrow.bias.fill_(0.5)
    assert network(torch.tensor([[4.0], [-5.0]])).tolist() == [[8.5], [15.5]]  # 2·4 + ½, 3·5 + ½


def test_a_gated_network_starts_as_wide_as_a_plain_one():
    torch.manual_seed(0)
    plain, gated = FeedForward(64, 128), FeedForward(64, 128, "glu")
    assert_close(gated.widen.weight.std(), plain.widen.weight.std(), rtol=0.05, atol=0.0)


def test_the_repr_names_the_activation():
    assert repr(FeedForward(2, 3, "geglu")).startswith("FeedForward(\n  activation='geglu'\n")


def test_an_unknown_activation_is_refused(without_type_checks):
    assert refusal(ValueError, FeedForward, 2, 3, "rely") == (
        "activation='rely' is unknown; it is one of relu, gelu, gelu_tanh, swish, silu, mish, squared_relu, tanh, "
        "glu, bilinear, reglu, geglu, swiglu."
    )
