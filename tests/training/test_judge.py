"""How good some parameters are, in numbers and without a word more."""

from types import SimpleNamespace

import pytest

from regard.training.judge import DevPairs, Judge


@pytest.fixture
def judge_of():
    """judge_of(references) judges translations by these."""

    def judge(references):
        texts = [""] * len(references)
        pairs = DevPairs(batches=SimpleNamespace(), sources=[], source_texts=texts, target_texts=references)
        return Judge(model=None, pairs=pairs, source_vocabulary=SimpleNamespace(), target_vocabulary=SimpleNamespace())

    return judge


@pytest.mark.usefixtures("unhooked")
def test_nothing_is_said_of_texts_with_spaces_before_their_full_stops(judge_of, caplog):
    references = [f"the cat number {n} sat on a mat ." for n in range(100)]
    assert judge_of(references).bleu(references) == pytest.approx(100)
    assert caplog.messages == []
