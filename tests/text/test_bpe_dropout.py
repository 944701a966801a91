"""BPE-dropout: the texts stay the same, the pieces depend on a key and are as frequent as in SentencePiece."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.text.batches import Batches
from regard.text.bpe_dropout import BPEDropout
from regard.text.vocabulary import BOS, EOS, PAD, Vocabulary

WORDS = ["ab", "ba", "abab", "bbaa", "aabb", "b", "a", "babaab", "ccab", "acb", "ababab"]
FEW_LETTERS = Vocabulary.train([" ".join(WORDS)] * 9, n_tokens=24)


def batches_of(corpus, vocabularies, probability):
    return Batches(corpus, 300, seed=1, dropouts=tuple(BPEDropout(one, probability, 99) for one in vocabularies))


def texts_of(batch, vocabularies):
    source, target = vocabularies
    rows = zip(batch.source.tolist(), batch.expected.tolist(), strict=True)
    return [(source.decode(one), target.decode(other)) for one, other in rows]


def ids_after_dropout(vocabulary, texts, probability, key=1, max_tokens=99):
    ids = vocabulary.encode_all(texts)
    flat, lengths = np.concatenate(ids).astype(np.uint16), np.array([len(text) for text in ids])
    ids, lengths = BPEDropout(vocabulary, probability, max_tokens)(flat, lengths, (key,))
    return [text.tolist() for text in np.split(ids, np.cumsum(lengths)[:-1])]


@given(st.lists(st.text("ab cẂ", min_size=1, max_size=20).filter(str.strip), min_size=1, max_size=5))
def test_probability_0_keeps_all_pieces_and_1_leaves_letters(texts):
    assert ids_after_dropout(FEW_LETTERS, texts, 0.0) == FEW_LETTERS.encode_all(texts)
    for text, ids in zip(texts, ids_after_dropout(FEW_LETTERS, texts, 1.0), strict=True):
        whole = FEW_LETTERS.encode(text)
        spelt = "".join(FEW_LETTERS.pieces(whole)).replace("<unk>", "\0")
        assert FEW_LETTERS.pieces(ids) == [letter.replace("\0", "<unk>") for letter in spelt]


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_every_cut_is_as_frequent_as_sentencepieces(probability):
    n = 20_000
    for word in ("ababab", "bbaa"):
        ours = Counter(map(tuple, ids_after_dropout(FEW_LETTERS, [word] * n, probability, max_tokens=9)))
        processor = FEW_LETTERS.processor
        sampled = processor.Encode([word] * n, enable_sampling=True, alpha=probability, nbest_size=-1)
        theirs = Counter(map(tuple, sampled))
        assert len(ours) > 3
        for one in ours.keys() | theirs.keys():
            expected = (ours[one] + theirs[one]) / 2
            deviation = (2 * expected) ** 0.5  # of the difference of two counts
            assert abs(ours[one] - theirs[one]) < 5 * deviation + 1, FEW_LETTERS.pieces(one)


def test_a_merge_is_skipped_with_the_probability():
    """By hand: the possible merges of ▁six, lowest rank first, are ix, ▁s, ▁s+ix, si, s+ix and si+x, ▁+six."""
    vocabulary, n = Vocabulary.train(["six"] * 9, n_tokens=16), 4000
    assert vocabulary.pieces(range(4, 9)) == ["ix", "▁s", "▁six", "si", "six"]
    (word,) = vocabulary.encode_all(["six"])
    assert len(word) == 1
    whole = ids_after_dropout(vocabulary, ["six"] * n, 0.2).count(word) / n
    expected = 0.8**3 + 0.2 * 0.8**3 + 0.2**2 * 0.8**3  # no merge skipped, or ▁s skipped, or both ix and ▁s
    assert abs(whole - expected) < 4 * (0.25 / n) ** 0.5


def test_a_text_that_would_be_too_long_keeps_its_pieces(vocabularies):
    whole, texts = vocabularies[0].encode, ["six", "seven hundred thousand", "one"]
    letters = ids_after_dropout(vocabularies[0], texts, 1.0)
    assert [len(text) for text in letters] == [4, 23, 4]
    assert ids_after_dropout(vocabularies[0], texts, 1.0, max_tokens=22) == [letters[0], whole(texts[1]), letters[2]]
    assert ids_after_dropout(vocabularies[0], texts, 1.0, max_tokens=23) == letters


def test_batches_have_the_same_pairs_in_other_pieces(corpus, vocabularies):
    n_before = n_after = 0
    for one, other in zip(
        Batches(corpus, 300, seed=1).epoch(0), batches_of(corpus, vocabularies, 0.2).epoch(0), strict=True
    ):
        assert texts_of(one, vocabularies) == texts_of(other, vocabularies)
        assert other.n_tokens == int((other.expected != PAD).sum()) == int((other.target != PAD).sum())
        assert other.lengths.tolist() == (other.source != PAD).sum(dim=1).tolist()
        assert other.target[:, 0].eq(BOS).all()
        assert (other.expected == EOS).sum(dim=1).eq(1).all()
        n_before, n_after = n_before + one.n_tokens, n_after + other.n_tokens
    assert 1.1 * n_before < n_after < 2 * n_before


def test_the_pieces_follow_from_seed_and_epoch_wherever_the_epoch_begins(corpus, vocabularies):
    batches = batches_of(corpus, vocabularies, 0.2)
    first, second = list(batches.epoch(0)), list(batches.epoch(1))
    with ThreadPoolExecutor(1) as elsewhere:
        again = elsewhere.submit(lambda: list(batches.epoch(0, start=2))).result()
    for one, other in zip(first[2:], again, strict=True):
        assert torch.equal(one.source, other.source)
        assert torch.equal(one.expected, other.expected)
    cuts = [
        {
            pair: [token for token in row if token != PAD]
            for batch in epoch
            for pair, row in zip(texts_of(batch, vocabularies), batch.source.tolist(), strict=True)
        }
        for epoch in (first, second)
    ]
    assert cuts[0].keys() == cuts[1].keys()
    assert np.mean([cuts[0][pair] != cuts[1][pair] for pair in cuts[0]]) > 0.9


def test_a_byte_stays_a_byte():
    """The vocabulary has pieces for the letters of "<0xEB>" too."""
    vocabulary = Vocabulary.train(["< > 0 x A B C D E F 1 2 3 4 5 6 7 8 9 six sixty"] * 9, 320, byte_fallback=True)
    ids = np.array(vocabulary.encode("sixty 뱀"), np.uint16)
    new, lengths = BPEDropout(vocabulary, probability=1.0, max_tokens=30)(ids, np.array([len(ids)]), key=(5,))
    expected = ["▁", "s", "i", "x", "t", "y", "▁", "<0xEB>", "<0xB1>", "<0x80>"]
    assert vocabulary.pieces(new.tolist()) == expected
    assert lengths.tolist() == [10]
