"""Evaluation of a model: BLEU, the loss on dev pairs, and snapshots of another model."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from refusals import refusal

from regard import InputError
from regard.text.batches import Batch
from regard.training.evaluator import Evaluator
from regard.training.store.snapshots import write_snapshot


def evaluator_of(model, pairs):
    return Evaluator(
        model=model, pairs=pairs, source_vocabulary=None, target_vocabulary=None, training_texts=None, smoothing=0.0
    )


@pytest.mark.usefixtures("without_type_checks")
def test_snapshots_of_another_model_are_refused(tmp_path):
    evaluator = evaluator_of(torch.nn.Linear(2, 3), None)
    name = write_snapshot(tmp_path, 1, {"weight": torch.ones(3, 2), "bias": torch.zeros(3)})
    evaluator.load_mean(tmp_path, [name])
    assert torch.equal(evaluator.model.weight, torch.ones(3, 2))
    name = write_snapshot(tmp_path, 2, {"weight": torch.ones(2, 3)})
    assert refusal(InputError, evaluator.load_mean, tmp_path, [name]) == (
        f"{tmp_path}/step-2.safetensors has no parameters of this model (weight); delete the latest checkpoint, and "
        "training resumes from the one before it."
    )


@pytest.mark.usefixtures("without_type_checks")
def test_texts_with_spaces_before_their_full_stops_give_no_warning(caplog):
    references = [f"the cat number {n} sat on a mat ." for n in range(100)]
    pairs = SimpleNamespace(target_texts=references)
    evaluator = evaluator_of(None, pairs)
    assert evaluator.bleu(references) == pytest.approx(100)
    assert caplog.messages == []


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_dev_loss_is_torchs_cross_entropy_with_label_smoothing(translator, smoothing):
    rows = torch.tensor([[5, 7, 3], [6, 3, 0]])
    batch = Batch(source=rows, lengths=torch.tensor([3, 2]), target=rows, expected=rows, n_tokens=5)
    pairs = SimpleNamespace(batches=SimpleNamespace(epoch=lambda number: iter([batch])))
    evaluator = evaluator_of(translator.model, pairs)
    with torch.no_grad():
        logits = translator.model(rows, batch.lengths, rows).logits
    expected = F.cross_entropy(logits.flatten(0, 1), rows.flatten(), ignore_index=0, label_smoothing=smoothing)
    assert evaluator.loaded_loss(smoothing) == pytest.approx(expected.item(), abs=1e-5)
