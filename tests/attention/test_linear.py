"""A projection by a kernel for few rows, by oneDNN for more, and by PyTorch: the same numbers."""

import pytest
import torch
import torch.nn.functional as F
from structs import fields_of
from torch import nn
from torch.testing import assert_close

from regard.kernels import linear as module
from regard.kernels import threads as kernel_threads
from regard.kernels.linear import FEW, Call, Linear, as_tensors, packs, why_not

SIZES = [(16, 8200), (512, 256), (48, 4001), (128, 3), (40, 4001)]
LARGE = 48, 4001


def defined(projection, x):
    return x.double() @ projection.weight.double().T + projection.bias.double()


@pytest.mark.parametrize(("d_in", "d_out"), SIZES)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, FEW, FEW + 1, 80])
def test_it_is_the_definition(normal, d_in, d_out, rows):
    projection, x = nn.Linear(d_in, d_out), normal(rows, d_in)
    with torch.no_grad():
        assert_close(Linear.of(projection)(x).double(), defined(projection, x), rtol=1e-5, atol=1e-5)


def test_few_rows_are_the_kernels_and_more_are_onednns_where_pytorch_has_it(normal):
    assert module.regard_linear() is not None, "these tests need a C compiler"
    assert packs() == torch.backends.mkldnn.is_available()
    linear = Linear.of(nn.Linear(*LARGE))
    linear(normal(FEW, LARGE[0]))
    assert "packed" not in vars(linear)
    linear(normal(FEW + 1, LARGE[0]))
    assert "packed" in vars(linear)
    assert (linear.packed is not None) == packs()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_whether_pytorch_has_onednn_does_not_follow_from_its_defaults(dtype):
    before = torch.get_default_dtype()
    packs.cache_clear()
    try:
        torch.set_default_dtype(dtype)
        with torch.device("meta"):
            assert packs() == torch.backends.mkldnn.is_available()
    finally:
        torch.set_default_dtype(before)
        packs.cache_clear()


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_and_other_rows_change_nothing_in_the_kernel(normal, threads, monkeypatch):
    linear, x = Linear.of(nn.Linear(*LARGE)), normal(5, LARGE[0])
    monkeypatch.setattr(module, "WORTH_THREADS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    alone = torch.cat([linear.of_few(row[None]) for row in x])
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert torch.equal(linear.of_few(x), alone)
    monkeypatch.setattr(kernel_threads, "gnu_openmp_parallel", lambda: None)  # another OpenMP than GNU's
    assert torch.equal(linear.of_few(x), alone)


@pytest.mark.parametrize("reason", ["small", "float64", "no oneDNN"])
def test_what_is_not_worth_it_or_cannot_be_is_left_as_it_is(normal, reason, monkeypatch):
    if reason == "no oneDNN":
        monkeypatch.setattr(module, "packs", lambda: False)
    dtype = torch.float64 if reason == "float64" else torch.float32
    projection = nn.Linear(16, 32 if reason == "small" else 8200, dtype=dtype)
    x = normal(FEW + 1, 16, dtype=dtype)
    with torch.no_grad():
        linear = Linear.of(projection)
        assert linear.packed is None
        assert torch.equal(linear(x), projection(x))


@pytest.mark.parametrize("x_dtype", [torch.float64, torch.bfloat16])
def test_vectors_of_another_type_are_refused_as_pytorch_does(x_dtype):
    with pytest.raises(RuntimeError, match="same dtype"):
        Linear.of(nn.Linear(16, 8))(torch.zeros(3, 16, dtype=x_dtype))


@pytest.mark.parametrize("width", [8, 32])
def test_vectors_of_another_width_are_refused_as_pytorch_does(width):
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        Linear.of(nn.Linear(16, 8))(torch.zeros(3, width))


def test_vectors_of_another_device_are_refused_as_pytorch_does():
    with pytest.raises(RuntimeError, match="device"):
        Linear.of(nn.Linear(16, 8))(torch.zeros(3, 16, device="meta"))


def test_no_rows_are_none():
    assert Linear.of(nn.Linear(16, 8))(torch.zeros(0, 16)).shape == (0, 8)


@pytest.mark.parametrize("rows", [1, FEW])
def test_more_than_two_dimensions_stay(normal, rows):
    projection, x = nn.Linear(16, 8200), normal(16, 2, rows).permute(2, 1, 0)  # and rows that do not lie in order
    with torch.no_grad():
        assert_close(Linear.of(projection)(x), projection(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (torch.zeros(3, 16, device="meta"), "it runs on a CPU"),
        (torch.zeros(3, 16, dtype=torch.float64), "it computes in float32"),
        (torch.zeros(3, 24), "weights are rows of a multiple of 16 numbers, one behind the other"),
        (torch.zeros(16, 16).T, "weights are rows of a multiple of 16 numbers, one behind the other"),
        (torch.zeros(3, 16), None),
    ],
)
def test_the_kernel_says_what_it_cannot_do(weight, reason):
    assert why_not(weight, torch.zeros(len(weight), dtype=weight.dtype)) == reason


def test_the_kernel_reads_a_bias_of_its_own_type_alone():
    assert why_not(torch.zeros(3, 16), torch.zeros(3, dtype=torch.float64)) == "it computes in float32"
    assert why_not(torch.zeros(3, 16), torch.zeros(6)[::2]) is not None


def test_without_a_compiler_it_says_so_and_pytorch_does_it(normal, monkeypatch):
    monkeypatch.setattr(module, "regard_linear", lambda: None)
    projection, x = nn.Linear(16, 8), normal(3, 16)
    assert why_not(projection.weight, projection.bias) == "no C compiler was found"
    with torch.no_grad():
        assert torch.equal(Linear.of(projection)(x), F.linear(x, projection.weight, projection.bias))


def test_a_projection_that_is_given_other_weights_stays_what_it_was(normal):
    projection, x = nn.Linear(16, 8), normal(3, 16)
    linear = Linear.of(projection)
    before = linear(x)
    projection.weight.data = torch.zeros(8, 16)
    assert torch.equal(linear(x), before)


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

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", changed)
    assert not packs.__wrapped__()


def test_asking_takes_nothing_from_the_stream_of_random_numbers():
    before = torch.get_rng_state()
    packs.__wrapped__()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_struct_has_the_fields_of_the_source_in_their_order():
    assert [name for name, *_ in Call._fields_] == fields_of(module.SOURCE, "Call")
    header = module.SOURCE.with_name("product.h")
    assert [name for name, *_ in module.Projection._fields_] == fields_of(header, "Projection")
