"""Tests of the C kernel that chooses the most probable tokens: against torch's log-softmax and topk in float64."""

import pytest
import torch
from refusals import refusal
from spoilt_arguments import spoil_arguments
from torch.testing import assert_close

from regard.kernels import top_tokens as module
from regard.kernels.top_tokens import kernel_reads, top_tokens


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("rows", "columns", "n"), [(1, 7, 3), (4, 64, 1), (3, 131, 5), (5, 9001, 17), (2, 3, 3)])
def test_top_tokens_and_their_probabilities_are_those_of_torch(normal, rows, columns, n, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(module, "LOGITS_OF_A_THREAD", 1)
    logits = 5 * normal(rows, columns).float()
    logits[0, -1] = 40.0  # in the part of a row that fills no register
    expected = logits.double().log_softmax(dim=1).topk(n, dim=1)
    log_probabilities, tokens = top_tokens(logits, n, [])
    assert tokens == expected.indices.tolist()
    assert_close(torch.tensor(log_probabilities).double(), expected.values, rtol=1e-6, atol=1e-5)


def test_forbidden_tokens_are_left_out_but_count_in_the_softmax(normal):
    logits = normal(2, 70).float()
    logits[:, [5, 69]] = 3.0
    expected = logits.double().log_softmax(dim=1)
    expected[:, [5, 69]] = -torch.inf
    log_probabilities, tokens = top_tokens(logits, 4, [69, 5])
    assert tokens == expected.topk(4).indices.tolist()
    assert_close(torch.tensor(log_probabilities).double(), expected.topk(4).values, rtol=1e-6, atol=1e-5)


def test_fewer_allowed_tokens_than_asked_for_leave_minus_infinity():
    log_probabilities, _ = top_tokens(torch.tensor([[0.0, 0.0, -torch.inf]]), 3, [1])
    assert log_probabilities == [[pytest.approx(-0.6931472), -torch.inf, -torch.inf]]


@pytest.mark.parametrize("at", [0, 40, 69])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_with_nan_or_infinity_is_nan(normal, at, bad):
    logits = normal(2, 70).float()
    logits[1, at] = bad
    log_probabilities, _ = top_tokens(logits, 3, [0])
    assert torch.tensor(log_probabilities).isnan().tolist() == [[False] * 3, [True] * 3]


def test_the_kernel_reads_only_contiguous_float32(normal):
    logits = normal(4, 6).float()
    assert kernel_reads(logits)
    assert not kernel_reads(logits.double())
    assert not kernel_reads(logits.T)
    assert not kernel_reads(logits.to("meta"))


def test_without_compiled_kernels_nothing_is_read(normal, monkeypatch):
    monkeypatch.setattr(module, "c_function", lambda name: None)
    assert not kernel_reads(normal(4, 6).float())


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("n", 0, "vocabulary and n must be above 0"), ("logits", None, "an array is a null pointer")],
)
def test_wrong_arguments_are_refused(normal, name, value, reason, monkeypatch):
    spoil_arguments(monkeypatch, module, lambda arguments: setattr(arguments, name, value))
    message = f"regard_top_tokens refuses its arguments: {reason}; please report this."
    assert refusal(RuntimeError, top_tokens, normal(2, 7).float(), 1, [0]) == message
