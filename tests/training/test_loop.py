"""Tests of the training loop: the batches of a step; several batches or processes give the step of one large batch."""

from itertools import islice

import pytest
import torch
from torch.testing import assert_close

from regard.text.batches import Batch, Batches
from regard.text.corpus import write_corpus
from regard.text.sample import sample
from regard.text.vocabulary import Vocabulary
from regard.training.loop import rows_of_process, training_steps
from regard.training.loss import TeacherForced
from regard.training.training_state import Position
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer

TWO_ROWS = Batch(
    source=torch.tensor([[4, 5, 3], [6, 3, 0]]),
    lengths=torch.tensor([3, 2]),
    target=torch.tensor([[2, 7], [2, 8]]),
    expected=torch.tensor([[7, 3], [8, 3]]),
    n_tokens=4,
)
"""A batch with fewer rows than there are processes where there are three or more."""


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    pairs = sample("en", "ko", {"train": 70}, seed=3, below=1000)["train"]
    vocabulary = Vocabulary.train([text for pair in pairs for text in pair], 60)
    corpus = write_corpus(
        tmp_path_factory.mktemp("corpus"), pairs, vocabulary, vocabulary, max_tokens=99, max_ratio=99.0
    )
    return Batches(corpus, 120, seed=2)


def first_steps(steps, n):
    return [([batch.source.tolist() for batch in group], position) for group, position in islice(steps, n)]


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_every_epoch_takes_every_batch_once(batches, accumulate):
    n_batches = len(list(batches.epoch(0)))
    steps = -(-n_batches // accumulate)
    found = first_steps(training_steps(batches, Position(), accumulate), 2 * steps)
    for epoch in (0, 1):
        groups = [group for group, position in found if position.epoch == epoch]
        assert [source for group in groups for source in group] == [b.source.tolist() for b in batches.epoch(epoch)]
        assert all(len(group) == accumulate for group in groups[:-1])
    assert [position.step for _, position in found] == list(range(1, 2 * steps + 1))


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_the_steps_from_any_position_are_those_of_a_run_that_never_stopped(batches, accumulate):
    whole = first_steps(training_steps(batches, Position(), accumulate), 30)
    assert whole[-1][1].epoch > 0
    for at in range(29):
        assert first_steps(training_steps(batches, whole[at][1], accumulate), 30 - at - 1) == whole[at + 1 :]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_the_rows_of_all_processes_are_the_batch(batches, n):
    """The rows of all processes are the rows of the batch, and their gradients sum to the batch's gradient."""
    torch.manual_seed(0)
    config = TransformerConfig(
        n_source_tokens=70, n_target_tokens=70, d_model=12, n_heads=2, d_ff=11, n_layers=1, dropout=0.0
    )
    module = TeacherForced(Transformer(config), 0.1).double()

    def gradients(tensors, weight=1.0):
        module.zero_grad()
        (module(*tensors) * weight).backward()
        return [parameter.grad.clone() for parameter in module.parameters()]

    for batch in [next(iter(batches.epoch(0))), TWO_ROWS]:
        whole = gradients([batch.source, batch.lengths, batch.target, batch.expected])
        shares = [rows_of_process(batch, rank, n, torch.device("cpu")) for rank in range(n)]
        by_process = (gradients(tensors, weight=float(has_rows)) for tensors, has_rows in shares)
        summed = [sum(parts) for parts in zip(*by_process, strict=True)]
        assert_close(summed, whole, rtol=1e-10, atol=1e-10)
        assert sum(len(tensors[0]) for tensors, has_rows in shares if has_rows) == len(batch.source)
