"""Tests of several corpora joined into one: an epoch has the pairs of each corpus as often as its weight says."""

from collections import Counter

import numpy as np
import pytest

from regard.text.batches import Batches
from regard.text.bpe_dropout import BPEDropout
from regard.text.corpus import write_corpus
from regard.text.joined_corpus import JoinedCorpus
from regard.text.vocabulary import Vocabulary


@pytest.fixture
def parts(tmp_path, number_names, vocabularies):
    return [
        write_corpus(tmp_path / str(first), number_names[first:last], *vocabularies, max_tokens=99, max_ratio=99.0)
        for first, last in ((0, 11), (11, 40), (40, 110))
    ]


def test_the_texts_are_those_of_the_corpora(parts):
    joined = JoinedCorpus(parts, [1.0, 1.0, 1.0])
    pairs = np.array([40, 3, 109, 11, 3, 0, 39])
    expected = [parts[2][0], parts[0][3], parts[2][69], parts[1][0], parts[0][3], parts[0][0], parts[1][28]]
    for number, side in enumerate((joined.source, joined.target)):
        ids, lengths = side.rows(pairs)
        assert lengths.tolist() == [len(pair[number]) for pair in expected] == side.lengths(pairs).tolist()
        assert ids.tolist() == [token for pair in expected for token in pair[number]]


def test_an_epoch_has_each_pair_as_often_as_its_weight(parts):
    joined = JoinedCorpus(parts, [2.0, 0.3, 0.5])
    seen = Counter[int]()
    for epoch in range(10):
        pairs = joined.order(5, epoch).tolist()
        counts = Counter(0 if pair < 11 else 1 if pair < 40 else 2 for pair in pairs)
        assert counts == {0: 22, 1: 9, 2: 35}
        assert {count for pair, count in Counter(pairs).items() if pair < 11} == {2}
        assert {count for pair, count in Counter(pairs).items() if pair >= 11} == {1}
        assert pairs != sorted(pairs)
        seen.update(pairs)
    assert {seen[pair] for pair in range(11)} == {20}
    assert {seen[pair] for pair in range(11, 40)} == {3, 4}  # 90 turns for 29 pairs
    assert {seen[pair] for pair in range(40, 110)} == {5}


def test_the_order_follows_from_seed_and_epoch(parts):
    one, other = (JoinedCorpus(parts, [1.0, 0.5, 1.5]) for _ in range(2))
    assert one.order(3, 7).tolist() == other.order(3, 7).tolist()
    assert one.order(3, 7).tolist() != one.order(3, 8).tolist()
    assert one.order(3, 7).tolist() != one.order(4, 7).tolist()


def test_the_batches_of_an_epoch_are_counted(parts):
    batches = Batches(JoinedCorpus(parts, [1.0, 0.3, 2.0]), 200, seed=1)
    assert batches.n_batches() == len(list(batches.epoch(0))) > 5


def test_a_tag_is_one_piece_that_bpe_dropout_leaves_whole():
    vocabulary = Vocabulary.train(["<synthetic> the cat sat", "the mat"] * 9, n_tokens=40, tags=["<synthetic>"])
    encoded = [vocabulary.encode(text) for text in ("<synthetic> the cat", "the mat", "<synthetic> the mat")]
    assert vocabulary.pieces(encoded[0][:1]) == ["▁<synthetic>"]
    ids, lengths = BPEDropout(vocabulary, probability=1.0, max_tokens=50)(
        np.array([token for one in encoded for token in one], np.uint16), np.array(list(map(len, encoded))), (3,)
    )
    texts = [vocabulary.pieces(part.tolist()) for part in np.split(ids, np.cumsum(lengths)[:-1])]
    assert texts == [["▁<synthetic>", *"▁the▁cat"], [*"▁the▁mat"], ["▁<synthetic>", *"▁the▁mat"]]
