"""Tests of devices without float64, such as Apple's GPUs: nothing is computed in float64, results agree in float32."""

import math

import pytest
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import regard.attention.normalise.entmax as entmax
import regard.attention.normalise.noise as noise
import regard.attention.statistics.torch.block_statistics as gathered
import regard.attention.weights as weights_module
from regard import Causal, Entmax, GumbelSoftmax, attend
from regard.attention.grid.grid import Grid
from regard.attention.precision import widest_type


class NoFloat64(TorchDispatchMode):
    """Imitates a device on which creating a float64 tensor raises an error."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        assert getattr(result, "dtype", None) != torch.float64, function
        return result


@pytest.fixture
def on_mps(monkeypatch):
    """Make every tensor count as a tensor on Apple's GPU, which has no float64."""

    def run(look):
        with monkeypatch.context() as patch, NoFloat64():
            for module in (entmax, noise, weights_module, gathered):
                patch.setattr(module, "widest_type", lambda device: torch.float32)
            return look()

    return run


@pytest.mark.parametrize(("name", "dtype"), [("cpu", torch.float64), ("cuda:1", torch.float64), ("mps", torch.float32)])
def test_the_widest_type(name, dtype):
    assert widest_type(torch.device(name)) == dtype


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_statistics_need_no_float64(normal, on_mps, reduce):
    query, key = normal(2, 3, 17, 5), normal(2, 3, 23, 5)
    pattern, vector = attend(query, key, key, mask=Causal(), normalise=Entmax()).pattern, normal(2, 3, 17)

    def look():
        found = pattern.summary(own=True, pooled=(3, 5), reduce=reduce)
        return found.received, found.own, found.pooled, pattern.back(vector)

    assert_close(on_mps(look), look())


@pytest.mark.parametrize("normalise", [Entmax(3.0), GumbelSoftmax(seed=7)], ids=repr)
def test_weights_need_no_float64(normal, on_mps, normalise):
    query, key = normal(2, 3, 17, 5), normal(2, 3, 23, 5)
    pattern = attend(query, key, key, normalise=normalise).pattern
    # a small weight of alpha 3 is the square root of a difference; the noise has 23 bits in float32
    assert_close(on_mps(pattern.dense), pattern.dense(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("bits", [0, -1], ids=["none set", "all set"])
def test_no_noise_is_infinite(on_mps, monkeypatch, bits):
    monkeypatch.setattr(noise, "mix", lambda state: torch.full_like(state, bits))

    def look():
        return noise.gumbel(0, Grid(1, 1, 1, 1).whole(), torch.zeros(1, 1, 1, 1)).item()

    assert math.isfinite(look())
    assert math.isfinite(on_mps(look))
