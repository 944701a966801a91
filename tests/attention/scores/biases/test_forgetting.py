"""The forgetting bias: the gates' products in a loop, by hand, ALiBi as a special case, gradients of the gates."""

import math

import pytest
import torch
import torch.nn.functional as F
from oracle import near
from refusals import refusal
from torch.testing import assert_close

from regard import Alibi, Causal, Forgetting, ScaledDot, attend


def test_weights_are_those_of_a_loop_over_products_of_gates(normal):
    query, key, gates = (
        normal(2, 3, 7, 5).double(),
        normal(2, 3, 7, 5).double(),
        torch.sigmoid(normal(2, 3, 7).double()),
    )
    found = attend(query, key, key, score=ScaledDot(bias=Forgetting(gates.log())), mask=Causal()).pattern.dense()
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(7)).tolist():
        row, kept = [0.0] * 7, 1.0
        for j in range(i, -1, -1):
            row[j] = kept * math.exp(float(query[b, h, i] @ key[b, h, j]) / math.sqrt(5))
            kept *= float(gates[b, h, j])
        near(found[b, h, i], torch.tensor(row, dtype=torch.float64) / sum(row))


def test_by_hand():
    x, gates = torch.zeros(1, 1, 3, 2), torch.tensor([[[0.125, 0.5, 0.25]]])
    score = ScaledDot(bias=Forgetting(gates.log()))
    # key 0 is read by query 2 through gates 1 and 2; a gate does not touch its own token, nor those after it
    assert_close(
        attend(x, x, x, score=score).pattern.scores(0, 0).exp(),
        torch.tensor([[1, 1, 1], [0.5, 1, 1], [0.125, 0.25, 1]]),
    )


def test_one_gate_for_all_tokens_is_alibi(normal):
    x, slopes = normal(2, 3, 11, 5), torch.tensor([0.5, 0.25, 0.01])
    forgetting = attend(
        x, x, x, score=ScaledDot(bias=Forgetting(-slopes[None, :, None].expand(1, 3, 11))), mask=Causal()
    )
    assert_close(forgetting.context, attend(x, x, x, score=ScaledDot(bias=Alibi(slopes)), mask=Causal()).context)


def test_a_closed_gate_hides_all_earlier_keys(normal):
    x, gates = normal(1, 2, 7, 5), torch.zeros(1, 1, 7)
    gates[..., 4] = -1e4
    seen = attend(x, x, x, score=ScaledDot(bias=Forgetting(gates)), mask=Causal())
    later = attend(x[:, :, 4:], x[:, :, 4:], x[:, :, 4:], mask=Causal())
    assert_close(seen.context[:, :, 4:], later.context)
    assert not seen.pattern[:, :, 4:, :4].any()


def test_sums_of_65_536_gates_keep_their_digits():
    gates = torch.full((1, 1, 65_536), -3.0)
    x = torch.zeros(1, 1, 2, 1)
    key = torch.zeros(1, 1, 65_536, 1)
    scores = attend(x, key, key, score=ScaledDot(bias=Forgetting(gates))).pattern.scores(0, 0, 1)
    assert torch.equal(scores, -3.0 * torch.arange(65_535, -1, -1.0))


def test_gradients_reach_the_gates(normal):
    x, logits = normal(1, 2, 5, 3).double().requires_grad_(), normal(1, 2, 5).double().requires_grad_()

    def context(x, logits):
        return attend(x, x, x, score=ScaledDot(bias=Forgetting(F.logsigmoid(logits))), mask=Causal()).context

    assert torch.autograd.gradcheck(context, (x, logits))
    assert torch.autograd.gradcheck(lambda x, logits: torch.func.vmap(context)(x[None], logits[None]), (x, logits))


@pytest.mark.parametrize(
    ("log_gates", "shown"), [(0.5, "0.5"), (torch.zeros(1, 1, 7, dtype=torch.int64), "<int64 [1, 1, 7]>")]
)
def test_gates_that_are_no_numbers_are_refused(without_type_checks, log_gates, shown):
    assert refusal(TypeError, lambda: Forgetting(log_gates)) == (
        f"Forgetting was given log_gates={shown}; it takes a tensor of floating-point numbers [batch heads keys], such "
        "as F.logsigmoid(linear(x))."
    )


@pytest.mark.parametrize("number", [0.5, -math.inf])
def test_gates_that_are_no_logarithms_are_refused(number):
    assert refusal(ValueError, lambda: Forgetting(torch.tensor([[[-1.0, number]]]))) == (
        f"Forgetting was given a log gate of {number}; a forget gate is above 0 and at most 1, so its logarithm is "
        "finite and at most 0: give gates.log(), or F.logsigmoid(x) where a gate is sigmoid(x)."
    )


@pytest.mark.parametrize("shape", [(7,), (1, 3, 1), (2, 3, 5), (3, 3, 7), (1, 2, 7)])
def test_gates_that_do_not_fit_are_refused(normal, without_type_checks, shape):
    assert refusal(
        ValueError, lambda: attend(*normal(3, 2, 3, 7, 5), score=ScaledDot(bias=Forgetting(torch.zeros(shape))))
    ) == (
        f"Forgetting was given log_gates of shape {list(shape)} for batch=2, heads=3, queries=7, keys=7; give one for "
        "each key, [2, 3, 7]; the axes batch and heads may have size 1."
    )
