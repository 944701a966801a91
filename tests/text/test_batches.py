"""Tests of batches: every pair once per epoch in a new order, similar lengths in a batch, resuming, little memory."""

import tracemalloc

import numpy as np
import pytest
import torch
from refusals import refusal

import regard.text.batches as batches_module
from regard.text.batches import Batches
from regard.text.corpus import Corpus, Side
from regard.text.vocabulary import BOS, EOS, PAD


class Made(Corpus):
    """A corpus of texts of random lengths, in which every id is the index of its pair."""

    def __init__(self, n):
        lengths = np.random.default_rng(3).integers(1, 9, size=(2, n))
        self.source, self.target = (
            Side(np.repeat(np.arange(n, dtype=np.uint32) + np.uint32(4), row), np.concatenate([[0], np.cumsum(row)]))
            for row in lengths
        )
        self.n = n

    def __len__(self):
        return self.n


def pairs_of(batch):
    """Return the indices of the pairs in a batch of a `Made` corpus."""
    return [row[0] - 4 for row in batch.source.tolist()]


def same(one, other):
    names = "source", "lengths", "target", "expected"
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_batch_is_its_pairs_padded(corpus):
    for batch in list(Batches(corpus, 300, seed=1).epoch(0))[:5]:
        for row in range(len(batch.source)):
            length = int(batch.lengths[row])
            source = batch.source[row, :length].tolist()
            assert source[-1] == EOS
            assert set(batch.source[row, length:].tolist()) <= {PAD}
            texts = [corpus[n] for n in range(len(corpus)) if [*corpus[n][0], EOS] == source]
            reads = [token for token in batch.target[row].tolist() if token != PAD]
            expects = [token for token in batch.expected[row].tolist() if token != PAD]
            assert reads[0] == BOS
            assert expects[-1] == EOS
            assert reads[1:] == expects[:-1]
            assert any(expects == [*target, EOS] for _, target in texts)
        assert batch.n_tokens == int((batch.expected != PAD).sum())
        assert batch.source.shape[1] == batch.lengths.max()


@pytest.mark.parametrize(
    ("n", "pool", "size"), [(1, 10, 9), (97, 10, 40), (97, 1000, 40), (1000, 64, 100), (50, 50, 5)]
)
def test_every_pair_is_in_one_batch_and_no_batch_is_too_large(monkeypatch, n, pool, size):
    monkeypatch.setattr(batches_module, "PAIRS_PER_POOL", pool)
    made = Made(n)
    for epoch in range(2):
        found = []
        for batch in Batches(made, size, seed=5).epoch(epoch):
            found += pairs_of(batch)
            held = max(batch.source.numel(), batch.target.numel())
            assert held <= size or len(batch.source) == 1
        assert sorted(found) == list(range(n))


@pytest.mark.parametrize("size", [1, 30, 70, 1000])
def test_a_batch_ends_before_the_pair_that_does_not_fit(size):
    made = Made(301)
    pairs = np.arange(301)
    lengths = list(zip(made.target.lengths(pairs) + 1, made.source.lengths(pairs) + 1, pairs.tolist(), strict=True))
    expected = [[]]
    for target, source, pair in sorted(lengths):
        rows = [*expected[-1], (target, source, pair)]
        if expected[-1] and max(max(row[:2]) for row in rows) * len(rows) > size:
            expected.append([])
        expected[-1].append((target, source, pair))
    found = list(Batches(made, size, seed=1)._divide(pairs))
    assert [batch.tolist() for batch in found] == [[pair for *_, pair in batch] for batch in expected]


def test_the_order_changes_with_the_epoch_and_follows_from_the_seed():
    made = Made(500)
    orders = [[pairs_of(b) for b in Batches(made, 60, seed=s).epoch(e)] for s, e in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != orders[3]
    by_length = [int(made.target.lengths(np.array(batch)).max()) for batch in orders[0]]
    assert by_length != sorted(by_length)


@pytest.mark.parametrize("pool", [16, 100, 10_000])
def test_an_epoch_resumes_from_any_batch(monkeypatch, pool):
    monkeypatch.setattr(batches_module, "PAIRS_PER_POOL", pool)
    batches = Batches(Made(500), 60, seed=9)
    whole = list(batches.epoch(3))
    for start in (0, 1, len(whole) // 2, len(whole) - 1, len(whole), len(whole) + 5):
        rest = list(batches.epoch(3, start=start))
        assert len(rest) == max(0, len(whole) - start)
        assert all(map(same, rest, whole[start:]))


def test_skipped_batches_are_not_read(monkeypatch):
    monkeypatch.setattr(batches_module, "PAIRS_PER_POOL", 50)
    made = Made(500)
    read = []
    rows = Side.rows
    monkeypatch.setattr(Side, "rows", lambda self, pairs: read.extend(pairs) or rows(self, pairs))
    batches = Batches(made, 60, seed=9)
    last = list(batches.epoch(0))[-1]
    n_batches = len(list(batches.epoch(0)))
    read.clear()
    assert same(next(batches.epoch(0, start=n_batches - 1)), last)
    assert len(read) == 2 * len(last.source)


def test_the_number_of_batches_is_exact_or_near(monkeypatch):
    batches = Batches(Made(500), 60, seed=9)
    assert batches.n_batches() == len(list(batches.epoch(0)))
    monkeypatch.setattr(batches_module, "PAIRS_PER_POOL", 10)  # of which there are more than are counted
    assert abs(batches.n_batches() / len(list(batches.epoch(0))) - 1) < 0.1


def test_an_epochs_order_takes_few_bytes_a_pair():
    made = Made(2_000_000)
    batches = Batches(made, 4000, seed=1)
    tracemalloc.start()
    try:
        next(batches.epoch(0))
        next(batches.epoch(1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60_000_000  # three numbers of 8 bytes a pair, while the order is made


def test_a_batch_of_nothing_is_refused():
    message = "max_tokens=0: a batch must have room for at least 1 token."
    assert refusal(ValueError, Batches, Made(3), 0, seed=1) == message
