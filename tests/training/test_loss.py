"""Tests of the loss: that of torch for all logits of a model, also with R-Drop, and of a compiled model."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.text.vocabulary import PAD
from regard.training.loss import TeacherForced
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer

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


def torch_loss(logits):
    """Return torch's cross-entropy with label smoothing 0.1, summed over all tokens that are not padding."""
    return F.cross_entropy(
        logits.flatten(0, 1), EXPECTED.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_loss_of_a_model_without_dropout_is_that_of_its_logits(kind, r_drop, compiled, monkeypatch):
    torch.manual_seed(0)
    model = KINDS[kind]().double()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiled)
    found, right = TeacherForced(model, 0.1, r_drop)(**BATCH, expected=EXPECTED), torch_loss(model(**BATCH).logits)
    assert_close(found, right)
    parameters = list(model.parameters())
    assert_close(torch.autograd.grad(found, parameters), torch.autograd.grad(right, parameters))


@pytest.mark.parametrize("kind", KINDS)
def test_r_drop_predicts_every_pair_twice(kind):
    """Half of the paper's loss, against torch's kl_div with the same dropout masks."""
    torch.manual_seed(0)
    model = KINDS[kind](0.4).double()
    with torch.no_grad():  # so that a mistake shows
        model.to_logits.weight *= 8
    twice = {name: tensor.repeat(2, *[1] * (tensor.ndim - 1)) for name, tensor in BATCH.items()}
    torch.manual_seed(1)
    logits = model(**twice).logits.chunk(2)
    p, q = (reading[EXPECTED != PAD].log_softmax(dim=-1) for reading in logits)
    kl = [F.kl_div(*pair, log_target=True, reduction="sum") for pair in ((p, q), (q, p))]
    right = (sum(map(torch_loss, logits)) + 5.0 * sum(kl) / 2) / 2
    assert sum(kl) > 0.05
    torch.manual_seed(1)
    found = TeacherForced(model, 0.1, r_drop=5.0)(**BATCH, expected=EXPECTED)
    assert_close(found, right)
    parameters = list(model.parameters())
    assert_close(torch.autograd.grad(found, parameters), torch.autograd.grad(right, parameters))
