"""Evaluation: BLEU, without warnings."""

from types import SimpleNamespace

import pytest

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
