"""A projection whose weights lie as the processor reads them: the same numbers."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.attention import linear as module
from regard.attention.linear import Linear, as_tensors, packs

SIZES = [(16, 8200), (512, 256), (40, 4001)]


def test_it_is_done_wherever_pytorch_has_onednn():
    assert packs() == torch.backends.mkldnn.is_available()


@pytest.mark.parametrize(("d_in", "d_out"), SIZES)
@pytest.mark.parametrize("rows", [1, 5, 80])
def test_it_is_the_definition(normal, d_in, d_out, rows):
    projection, x = nn.Linear(d_in, d_out), normal(rows, d_in)
    with torch.no_grad():
        linear = Linear.of(projection)
        assert packs() == (linear.packed is not None)
        expected = x.double() @ projection.weight.double().T + projection.bias.double()
        assert_close(linear(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_several_are_one_whose_outputs_lie_one_behind_the_other(normal):
    query, key, x = nn.Linear(512, 384), nn.Linear(512, 128), normal(7, 512)
    with torch.no_grad():
        assert_close(Linear.of(query, key)(x), torch.cat([query(x), key(x)], dim=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reason", ["small", "float64", "no oneDNN"])
def test_what_is_not_worth_it_or_cannot_be_is_left_as_it_is(normal, reason, monkeypatch):
    if reason == "no oneDNN":
        monkeypatch.setattr(module, "packs", lambda: False)
    dtype = torch.float64 if reason == "float64" else torch.float32
    projection = nn.Linear(16, 32 if reason == "small" else 8200, dtype=dtype)
    x = normal(3, 16, dtype=dtype)
    with torch.no_grad():
        linear = Linear.of(projection)
        assert linear.packed is None
        assert torch.equal(linear(x), projection(x))


def test_more_than_two_dimensions_stay(normal):
    projection, x = nn.Linear(16, 8200), normal(3, 2, 16)
    with torch.no_grad():
        assert_close(Linear.of(projection)(x), projection(x), rtol=1e-5, atol=1e-5)


class Louder(nn.Linear):
    """A projection that somebody changed."""


def test_tensors_are_not_all_that_counts_where_gradients_precision_hooks_or_other_modules_do():
    projection = nn.Linear(4, 3)
    assert as_tensors(projection) is None
    with torch.no_grad():
        assert as_tensors(projection) is not None
        assert as_tensors(Louder(4, 3)) is None
        assert as_tensors(nn.Linear(4, 3, bias=False)) is None
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert as_tensors(projection) is None
        handle = projection.register_forward_hook(lambda module, given, out: 2 * out)
        assert as_tensors(projection) is None
        handle.remove()
        projection.forward = lambda x: x
        assert as_tensors(projection) is None


@pytest.mark.parametrize("change", [AttributeError, RuntimeError, TypeError, "other numbers"])
def test_a_pytorch_that_does_it_otherwise_is_not_asked_to(change, monkeypatch):
    def changed(*given):
        if isinstance(change, str):
            return torch.zeros(3, 48)
        raise change

    monkeypatch.setattr(Linear, "__call__", changed)
    assert not packs.__wrapped__()


def test_asking_takes_nothing_from_the_stream_of_random_numbers():
    before = torch.get_rng_state()
    packs.__wrapped__()
    assert torch.equal(torch.get_rng_state(), before)
