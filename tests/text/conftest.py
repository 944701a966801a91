"""Fixtures: small parallel texts of number names, which have few letters and many words, and vocabularies for them."""

import pytest

from regard.text.corpus import write_corpus
from regard.text.sample import sample
from regard.text.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def number_names():
    """Return 700 pairs: the names of a number in English and in Korean."""
    return sample("en", "ko", {"train": 700}, seed=5)["train"]


@pytest.fixture(scope="session")
def vocabularies(number_names):
    return tuple(Vocabulary.train(texts, n_tokens=90) for texts in zip(*number_names, strict=True))


@pytest.fixture
def written(number_names, vocabularies):
    """Return a function: written(folder) writes a corpus of the number names."""
    limits = {"max_tokens": 99, "max_ratio": 9.0}
    return lambda folder, pairs=number_names, **options: write_corpus(folder, pairs, *vocabularies, **limits | options)


@pytest.fixture
def corpus(tmp_path, written):
    return written(tmp_path)
