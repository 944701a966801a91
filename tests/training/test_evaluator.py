"""Evaluation: BLEU, without warnings."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from regard.text.batches import Batch
from regard.training.evaluator import DevPairs, Evaluator


@pytest.fixture
def evaluator_for():
    """evaluator_for(references) returns an evaluator with these references."""

    def evaluator(references):
        texts = [""] * len(references)
        pairs = DevPairs(batches=SimpleNamespace(), sources=[], source_texts=texts, target_texts=references)
        vocabulary = SimpleNamespace()
        return Evaluator(model=None, pairs=pairs, source_vocabulary=vocabulary, target_vocabulary=vocabulary)

    return evaluator


@pytest.mark.usefixtures("unhooked")
def test_texts_with_spaces_before_their_full_stops_give_no_warning(evaluator_for, caplog):
    references = [f"the cat number {n} sat on a mat ." for n in range(100)]
    assert evaluator_for(references).bleu(references) == pytest.approx(100)
    assert caplog.messages == []


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_dev_loss_is_torchs_cross_entropy_with_the_training_losss_smoothing(translator, smoothing):
    rows = torch.tensor([[5, 7, 3], [6, 3, 0]])
    batch = Batch(source=rows, lengths=torch.tensor([3, 2]), target=rows, expected=rows, n_tokens=5)
    pairs = SimpleNamespace(batches=SimpleNamespace(epoch=lambda number: iter([batch])))
    evaluator = Evaluator(model=translator.model, pairs=pairs, source_vocabulary=None, target_vocabulary=None)
    with torch.no_grad():
        logits = translator.model(rows, batch.lengths, rows).logits
    expected = F.cross_entropy(logits.flatten(0, 1), rows.flatten(), ignore_index=0, label_smoothing=smoothing)
    assert evaluator.loaded_loss(smoothing) == pytest.approx(expected.item(), abs=1e-5)
