"""Tiny translators to export."""

import pytest
import torch

from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.text.vocabulary import Vocabulary
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.translator import Translator
from regard.translation.translator_folder import write_translator

ENGLISH = ["the cat sat on the mat .", "a dog runs across the green field", "two men stand near a river"]
ITALIAN = ["il gatto è sul tappeto .", "un cane corre attraverso il campo verde", "due uomini vicino a un fiume"]


@pytest.fixture(scope="session")
def vocabularies():
    return Vocabulary.train(ENGLISH * 5, 37), Vocabulary.train(ITALIAN * 5, 47)


@pytest.fixture(scope="session")
def byte_vocabularies():
    return tuple(Vocabulary.train(lines * 5, 300, byte_fallback=True) for lines in (ENGLISH, ITALIAN))


@pytest.fixture(scope="session")
def translator_of(vocabularies, byte_vocabularies):
    """translator_of(joint=True, norm="post", …) is a translator with a random Transformer."""

    def new(joint=False, turned=False, with_bytes=False, **fields):
        source, target = byte_vocabularies if with_bytes else reversed(vocabularies) if turned else vocabularies
        target = source if joint else target
        sizes = {"d_model": 16, "n_heads": 4, "d_ff": 24, "n_layers": 2, "max_tokens": 23}
        fields = {"n_source_tokens": len(source), "n_target_tokens": len(target), **sizes, **fields}
        torch.manual_seed(5)
        return Translator(
            model=loud(Transformer(TransformerConfig(**fields))),
            source_vocabulary=source,
            target_vocabulary=target,
        )

    return new


@pytest.fixture(scope="session")
def recurrent_of(vocabularies):
    """recurrent_of(form="bahdanau", …) is a translator with a random Recurrent."""

    def new(**fields):
        source, target = vocabularies
        sizes = {"n_source_tokens": len(source), "n_target_tokens": len(target), "d_model": 16, "max_tokens": 23}
        torch.manual_seed(5)
        model = loud(Recurrent(RecurrentConfig(**{**sizes, **fields})))
        return Translator(model=model, source_vocabulary=source, target_vocabulary=target)

    return new


def loud(model):
    """Return the model with random parameters, so large that different sources have different translations."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(scope="session")
def folder(translator_of, tmp_path_factory):
    translator = translator_of(norm="post")
    place = tmp_path_factory.mktemp("translator") / "en-it"
    return write_translator(place, translator.model, translator.source_vocabulary, translator.target_vocabulary)
