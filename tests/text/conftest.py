"""Small parallel texts of number names, which have few letters and many words."""

import pytest

from regard.text.sample import sample
from regard.text.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def numbers():
    """Pairs in English and Korean."""
    return sample("en", "ko", {"train": 700}, seed=5)["train"]


@pytest.fixture(scope="session")
def vocabularies(numbers):
    """One for each language."""
    return tuple(Vocabulary.train(texts, n_tokens=90) for texts in zip(*numbers, strict=True))
