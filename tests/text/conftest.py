"""Fixtures: small parallel texts of number names, which have few letters and many words, and vocabularies."""

import pytest

from regard.text.sample import sample
from regard.text.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def numbers():
    return sample("en", "ko", {"train": 700}, seed=5)["train"]


@pytest.fixture(scope="session")
def vocabularies(numbers):
    return tuple(Vocabulary.train(texts, n_tokens=90) for texts in zip(*numbers, strict=True))
