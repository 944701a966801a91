"""Tests of the default size of a vocabulary: few pieces for generated text, many for natural text."""

import string
from random import Random

import pytest

from regard.text.sample import sample
from regard.text.vocabulary_size import vocabulary_size


def invented(n, seed=1):
    """Return n lines of made-up words whose frequencies follow Zipf's law; rarer words are longer."""
    random = Random(seed)
    letters, weights = string.ascii_lowercase, [1 / (rank + 3) for rank in range(26)]
    words = ["".join(random.choices(letters, weights, k=2 + rank.bit_length() // 2)) for rank in range(20_000)]
    chances = [1 / (rank + 2) for rank in range(20_000)]
    return [" ".join(random.choices(words, chances, k=12)) for _ in range(n)]


def test_the_size_follows_from_letters_and_trigrams_by_hand():
    # letters a to k; trigrams " ab" "abc" "bc " 5 times, " ac" "ac " and the 9 of the last word once
    assert vocabulary_size(["abc"] * 5 + ["ac", "cdefghijk"], n_pairs=7) == round(4 * 11 + 11 * 11 / 40)
    assert vocabulary_size(["abc"] * 5 + ["ac", "cdefghijk"], n_pairs=1) == 47  # fewer than 58
    assert vocabulary_size([], 0) == 1


@pytest.mark.parametrize("target", ["ko", "de", "ja"])
def test_names_of_numbers_get_a_few_pieces_a_letter(target):
    pairs = sample("en", target, {"train": 2_000}, seed=7)["train"]
    for texts in zip(*pairs, strict=True):
        n_letters = len(set("".join(texts)) - {" "})
        assert 4 * n_letters <= vocabulary_size(texts, 2_000) <= 9 * n_letters


def test_people_s_writing_gets_pieces_as_the_root_of_its_length():
    assert vocabulary_size(invented(500), 500) == round(58 * 500**0.5)
    assert vocabulary_size(invented(500), 2_000) == round(58 * 2_000**0.5)
    assert vocabulary_size(invented(2_000), 10**8) == 32_000


def test_capitals_do_not_matter_to_people_s_writing():
    lines = invented(500)
    assert vocabulary_size([line.lower() for line in lines], 500) == vocabulary_size([s.title() for s in lines], 500)


def test_only_the_first_lines_are_read(monkeypatch):
    monkeypatch.setattr("regard.text.vocabulary_size.MOST_LINES", 3)
    lines = iter(["ab", "ab", "cd", "ef"])
    assert vocabulary_size(lines, 3) == vocabulary_size(["ab", "ab", "cd"], 3)
    assert next(lines) == "ef"
