"""Tests of one training step: the clipped gradient of the mean over all tokens, the learning rate, weight decay."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.text.batches import Batch
from regard.training.evaluator import Evaluator
from regard.training.loop import Run, train_step
from regard.training.loss import TeacherForced
from regard.training.optimiser import make_optimiser
from regard.training.processes.process_group import Processes
from regard.training.watcher import Watcher
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer

RATE, SMOOTHING = 0.5, 0.1


def batch(rows, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    source, target, expected = torch.randint(4, 13, (3, rows, tokens), generator=generator)
    return Batch(source, torch.full((rows,), tokens), target, expected, n_tokens=rows * tokens)


BATCHES = [batch(3, 5, 0), batch(1, 2, 1)]
"""Batches of 15 tokens and of 2: a mean of their means is not the mean over 17 tokens."""


def module_of(config):
    torch.manual_seed(0)
    return TeacherForced(Transformer(config), SMOOTHING).double()


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("clip_norm", [0.0, 0.01, 1e9])
def test_a_step_follows_the_clipped_gradient_of_the_mean_over_all_tokens(clip_norm, settled):
    sizes = {"n_source_tokens": 13, "n_target_tokens": 13, "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1}
    module, twin = (module_of(TransformerConfig(**sizes, dropout=0.0)) for _ in range(2))
    tensors = [(one.source, one.lengths, one.target, one.expected) for one in BATCHES]
    (sum(twin(*of_batch) for of_batch in tensors) / 17).backward()
    norm = torch.stack([parameter.grad.norm() for parameter in twin.parameters()]).norm()
    assert norm > 0.01
    factor = min(1.0, clip_norm / norm) if clip_norm else 1.0
    run = Run(
        config=settled(learning_rate=RATE, clip_norm=clip_norm, max_steps=1),
        folder=Path(),
        processes=Processes.start(torch.device("cpu"), "float32"),
        batches=None,
        module=module,
        optimiser=torch.optim.SGD(module.parameters(), lr=9.0),  # a step replaces this rate
        schedule=lambda step: 0.25 * step,
        evaluator=None,
        log=None,
        watcher=Watcher(),
    )
    loss = train_step(run, BATCHES, step=2)
    assert_close(loss.double(), sum(twin(*of_batch) for of_batch in tensors).detach(), rtol=1e-6, atol=0.0)
    for parameter, before in zip(module.parameters(), twin.parameters(), strict=True):
        expected = before - RATE * 0.25 * 2 * factor * before.grad
        assert_close(parameter.detach(), expected.detach(), rtol=1e-5, atol=1e-9)
        assert parameter.grad is None


def test_matrices_decay_and_embeddings_biases_and_norms_do_not():
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "linear": nn.Linear(4, 3), "norm": nn.LayerNorm(3)})
    groups = make_optimiser(model, learning_rate=0.1, weight_decay=0.3).param_groups
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert {name: decay[id(parameter)] for name, parameter in model.named_parameters()} == {
        "embedding.weight": 0.0,
        "linear.weight": 0.3,
        "linear.bias": 0.0,
        "norm.weight": 0.0,
        "norm.bias": 0.0,
    }


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(("latest", "mean", "averaged"), [(2.0, 1.5, 2), (1.5, 2.0, 1)])
def test_the_mean_of_snapshots_is_kept_where_its_loss_is_lower(latest, mean, averaged, tmp_path, monkeypatch):
    losses, loaded = {("b",): latest, ("a", "b"): mean}, []

    def load(self, folder, names):
        loaded.append(tuple(names))

    monkeypatch.setattr(Evaluator, "load_mean", load)
    monkeypatch.setattr(Evaluator, "loaded_loss", lambda self, smoothing=0.0: losses[loaded[-1]] + smoothing)
    monkeypatch.setattr(Evaluator, "translations", lambda self: ["x"])
    monkeypatch.setattr(Evaluator, "bleu", lambda self, translations: 7.0)
    pairs = SimpleNamespace(source_texts=["y"], target_texts=["z"])
    evaluator = Evaluator(
        model=None, pairs=pairs, source_vocabulary=None, target_vocabulary=None, training_texts=None, smoothing=0.25
    )
    evaluation = evaluator.evaluate(tmp_path, ("a", "b"), step=3)
    result = evaluation.result
    assert evaluation.training_loss_nats == min(latest, mean) + 0.25
    assert (result.loss_nats, result.averaged) == (min(latest, mean), averaged)
    assert loaded[-1] == ("a", "b")[-averaged:]
