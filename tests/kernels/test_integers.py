"""Layers with 8-bit integers as weights: on every processor level the same bits as numpy's integers give."""

import ctypes

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from refusals import refusal
from torch import Tensor, nn

from regard.kernels.build import FOLDER, levels
from regard.kernels.library import check_arguments, load, processor_level
from regard.transformer.decoding.kernel import ProjectionArguments
from regard.transformer.int8 import quantised_layer

RUNNABLE = [level for level in levels() if level <= str(processor_level())]
MOST_INPUTS = 65536


@pytest.fixture(params=RUNNABLE)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def by_kernel(level: str, layer: nn.Linear, x: Tensor) -> NDArray[np.float32]:
    """Return the output of a layer by the kernel of a processor level, with weights as integers."""
    parameters, kept = quantised_layer(layer)
    found = torch.full((len(x), layer.out_features), torch.nan)
    arguments = ProjectionArguments(layer=parameters, rows=len(x), x=x.data_ptr(), logits=found.data_ptr())
    check_arguments("regard_project_logits", arguments)
    load(f"kernels-{level}.so").regard_project_logits(ctypes.byref(arguments))
    assert kept
    return found.numpy()


def by_numpy(layer: nn.Linear, x: Tensor) -> NDArray[np.float32]:
    """Return the same output by numpy: sums of int64 products, and the roundings of float32 that kernels/ describes."""
    weights, bias, rows = (tensor.detach().numpy() for tensor in (layer.weight, layer.bias, x))
    limit = np.float32(127)
    of_outputs, of_rows = (abs(vectors).max(axis=1) / limit for vectors in (weights, rows))
    integers = np.rint(weights / of_outputs[:, None]).astype(np.int64)
    inverse = limit / np.maximum(abs(rows).max(axis=1), np.float32(1e-30))
    sums = np.rint(rows * inverse[:, None]).astype(np.int64) @ integers.T
    assert abs(sums).max() < 2**31
    return sums.astype(np.float32) * (of_outputs * of_rows[:, None]) + bias


@pytest.mark.parametrize(
    ("rows", "n_in", "n_out"), [(1, 16, 1), (1, 96, 37), (2, 48, 128), (5, 528, 131), (7, 80, 259), (37, 4112, 17)]
)
def test_a_layer_has_the_bits_of_numpy(level, normal, rows, n_in, n_out):
    layer, x = nn.Linear(n_in, n_out), normal(rows, n_in) * normal(rows, 1)
    nn.init.normal_(layer.bias)
    assert np.array_equal(by_kernel(level, layer, x), by_numpy(layer, x))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_do_not_overflow(level, sign):
    layer = nn.Linear(MOST_INPUTS, 2)
    nn.init.constant_(layer.weight, sign)
    x = torch.stack([torch.ones(MOST_INPUTS), -torch.ones(MOST_INPUTS)])
    assert np.array_equal(by_kernel(level, layer, x), by_numpy(layer, x))


def test_a_vector_of_zeros_gives_the_bias_and_one_of_tiny_numbers_almost_so(level, normal):
    layer, x = nn.Linear(32, 5), torch.stack([torch.zeros(32), torch.full((32,), 1e-39)])
    assert np.array_equal(by_kernel(level, layer, x), layer.bias.detach().expand(2, -1).numpy())


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_not_finite_shows_in_its_row_alone(level, normal, number):
    layer, x = nn.Linear(48, 21), normal(3, 48)
    expected = by_numpy(layer, x)
    x[1, 7] = number
    found = by_kernel(level, layer, x)
    assert np.isnan(found[1]).all()
    assert np.array_equal(found[[0, 2]], expected[[0, 2]])


def test_a_weight_that_is_not_a_number_shows_in_its_output_alone(level, normal):
    layer, x = nn.Linear(48, 21), normal(3, 48)
    expected = by_numpy(layer, x)
    with torch.no_grad():
        layer.weight[5, 3] = torch.nan
    found = by_kernel(level, layer, x)
    assert np.isnan(found[:, 5]).all()
    assert np.array_equal(np.delete(found, 5, axis=1), np.delete(expected, 5, axis=1))


def test_more_inputs_than_an_int32_can_add_up_are_refused():
    layer, x = nn.Linear(MOST_INPUTS + 16, 1), torch.ones(1, MOST_INPUTS + 16)
    assert refusal(RuntimeError, by_kernel, RUNNABLE[0], layer, x) == (
        "regard_project_logits refuses its arguments: an array is a null pointer, or there are too many inputs for "
        "integers; please report this."
    )


def test_most_inputs_is_that_of_the_c_source():
    assert f"#define MOST_INPUTS {MOST_INPUTS} " in (FOLDER / "integers.h").read_text()
