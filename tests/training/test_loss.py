"""Tests of the loss: against its equation, for models with and without a separate last layer, and with R-Drop."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.text.vocabulary import PAD
from regard.training.loss import ProjectingModel, TeacherForced, loss_of, smoothed_loss
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer


def by_hand(logits, expected, smoothing):
    """Return the smoothed loss, computed token by token from the equation in loss.py."""
    total = 0.0
    for row, labels in zip(logits.tolist(), expected.tolist(), strict=True):
        for scores, label in zip(row, labels, strict=True):
            log_sum = math.log(sum(math.exp(score) for score in scores))
            for k, score in enumerate(scores):
                q = (1 - smoothing) * (k == label) + smoothing / len(scores)
                total -= (label != PAD) * q * (score - log_sum)
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_equation(normal, smoothing):
    logits = normal(2, 5, 7, dtype=torch.float64)
    expected = torch.tensor([[4, 1, 6, 3, PAD], [5, 3, PAD, PAD, PAD]])
    assert_close(smoothed_loss(logits, expected, smoothing).item(), by_hand(logits, expected, smoothing))


def test_predictions_of_padding_do_not_matter(normal):
    logits, expected = normal(2, 3, 7), torch.tensor([[4, 3, PAD], [3, PAD, PAD]])
    changed = logits.masked_fill((expected == PAD)[..., None], 100.0)
    assert smoothed_loss(changed, expected, 0.1) == smoothed_loss(logits, expected, 0.1)
    changed.requires_grad_()
    smoothed_loss(changed, expected, 0.1).backward()
    assert not changed.grad[expected == PAD].any()


def test_the_loss_is_least_at_the_smoothed_labels():
    """The loss is least where the prediction is the smoothed label, and is then its entropy."""
    smoothing, n, label = 0.1, 11, 5
    q = torch.full((n,), smoothing / n, dtype=torch.float64)
    q[label] += 1 - smoothing
    loss = smoothed_loss(q.log()[None, None], torch.tensor([[label]]), smoothing)
    assert_close(loss, -(q * q.log()).sum())
    gradient = torch.func.grad(lambda x: smoothed_loss(x[None, None], torch.tensor([[label]]), smoothing))(q.log())
    assert_close(gradient, torch.zeros(n, dtype=torch.float64), atol=1e-12, rtol=0)


SIZES: dict[str, Any] = {"n_source_tokens": 19, "n_target_tokens": 19, "d_model": 12, "n_layers": 1}

KINDS = {
    "transformer": lambda p=0.0: Transformer(TransformerConfig(**SIZES, dropout=p, d_ff=13, n_heads=2, share="all")),
    "recurrent": lambda p=0.0: Recurrent(RecurrentConfig(**SIZES, dropout=p, share="target")),
    "recurrent, step by step": lambda p=0.0: Recurrent(RecurrentConfig(**SIZES, dropout=p, form="bahdanau")),
}
BATCH = {
    "source": torch.tensor([[4, 5, 6, 3], [8, 3, 0, 0]]),
    "lengths": torch.tensor([4, 2]),
    "target": torch.tensor([[2, 4, 5], [2, 7, 0]]),
}
EXPECTED = torch.tensor([[4, 5, 3], [7, 3, 0]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_loss_of_a_model_is_that_of_its_logits(kind, compiled, monkeypatch):
    torch.manual_seed(0)
    model = KINDS[kind]().double()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiled)
    found = loss_of(model, **BATCH, expected=EXPECTED, smoothing=0.1)
    right = smoothed_loss(model(**BATCH).logits, EXPECTED, 0.1)
    assert_close(found, right)
    parameters = list(model.parameters())
    assert_close(torch.autograd.grad(found, parameters), torch.autograd.grad(right, parameters))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [False, True])
def test_r_drop_predicts_every_pair_twice(kind, compiled, monkeypatch):
    """Half of the paper's loss, against torch's kl_div with the same dropout masks."""
    torch.manual_seed(0)
    model = KINDS[kind](0.4).double()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiled)
    with torch.no_grad():  # so that a mistake shows
        model.to_logits.weight *= 8
    twice = {name: tensor.repeat(2, *[1] * (tensor.ndim - 1)) for name, tensor in BATCH.items()}
    torch.manual_seed(1)
    logits = model(**twice).logits.chunk(2)
    p, q = (reading[EXPECTED != PAD].log_softmax(dim=-1) for reading in logits)
    kl = [F.kl_div(*pair, log_target=True, reduction="sum") for pair in ((p, q), (q, p))]
    right = (sum(smoothed_loss(reading, EXPECTED, 0.1) for reading in logits) + 5.0 * sum(kl) / 2) / 2
    assert sum(kl) > 0.05
    torch.manual_seed(1)
    found = TeacherForced(model, 0.1, r_drop=5.0)(**BATCH, expected=EXPECTED)
    assert_close(found, right)
    parameters = list(model.parameters())
    assert_close(torch.autograd.grad(found, parameters), torch.autograd.grad(right, parameters))


@pytest.mark.parametrize("kind", KINDS)
def test_without_dropout_r_drop_changes_nothing(kind):
    model = KINDS[kind]().double()
    once, twice = (TeacherForced(model, 0.1, r_drop)(**BATCH, expected=EXPECTED) for r_drop in (0.0, 5.0))
    assert_close(twice, once)


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_regard_hold_no_logits_for_their_loss(kind):
    assert isinstance(KINDS[kind](), ProjectingModel)


def test_a_model_without_vectors_is_trained_by_its_logits():
    model, ids = Alone(), torch.tensor([[4, 3]])
    assert loss_of(model, ids, torch.tensor([2]), ids, ids, 0.1) == smoothed_loss(model.logits, ids, 0.1)


class Alone(torch.nn.Module):
    """A translating model of the user's own, which is no `ProjectingModel`."""

    config = start = step = print
    logits = torch.arange(14.0).reshape(1, 2, 7)

    def forward(self, source, lengths, target):
        return SimpleNamespace(logits=self.logits, encoder=(), decoder=(), cross=())
