"""A translator that is small enough for tests, has real vocabularies, and has learned eight sentences."""

import pytest
import torch
import torch.nn.functional as F
from tiny import new_transformer

from regard.text.vocabulary import BOS, EOS, PAD, Vocabulary
from regard.translation.search.interface import padded
from regard.translation.translator import Translator

PAIRS = {
    "the cat sat on a mat": "die katze saß auf einer matte",
    "a dog ran to the cat": "ein hund lief zur katze",
    "no dog": "kein hund",
    "a dog sat": "ein hund saß",
    "the cat ran": "die katze lief",
    "I am a student": "ich bin student",
    "no cat sat on the mat.": "keine katze saß auf der matte.",
    "I ran to a dog, and sat": "ich lief zu einem hund und saß",
}


@pytest.fixture(scope="session")
def vocabularies():
    sources, targets = [*PAIRS], [*PAIRS.values()]
    return Vocabulary.train(sources * 9, 41), Vocabulary.train(targets * 9, 53)


@pytest.fixture(scope="session")
def translator(vocabularies):
    source, target = vocabularies
    model = new_transformer(source, target)
    learn(model, [[*source.encode(text), EOS] for text in PAIRS], [target.encode(text) for text in PAIRS.values()])
    return Translator(model=model, source_vocabulary=source, target_vocabulary=target)


def learn(model, sources, targets):
    """A few steps on all pairs at once; enough for texts that differ and end."""
    (read, lengths), (given, _) = padded(sources), padded([[BOS, *ids] for ids in targets])
    expected, _ = padded([[*ids, EOS] for ids in targets])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        logits = model(read, lengths, given).logits
        loss = F.cross_entropy(logits.flatten(0, 1), expected.flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
