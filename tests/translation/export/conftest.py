"""Tiny translators to export, with parameters so large that every text is another one."""

import pytest
import torch

from regard.text.vocabulary import Vocabulary
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.folder import Contents, write_translator

ENGLISH = ["the cat sat on the mat .", "a dog runs across the green field", "two men stand near a river"]
ITALIAN = ["il gatto è sul tappeto .", "un cane corre attraverso il campo verde", "due uomini vicino a un fiume"]


@pytest.fixture(scope="session")
def vocabularies():
    """English, and a smaller or a larger one of Italian."""
    return Vocabulary.train(ENGLISH * 5, 37), Vocabulary.train(ITALIAN * 5, 47)


@pytest.fixture(scope="session")
def contents_of(vocabularies):
    """contents_of(joint=True, norm="post", ...) is a translator with a drawn Transformer of these settings."""

    def new(joint=False, turned=False, **fields):
        source, target = reversed(vocabularies) if turned else vocabularies
        target = source if joint else target
        torch.manual_seed(5)
        sizes = {"d_model": 16, "n_heads": 4, "d_ff": 24, "n_layers": 2, "max_tokens": 23}
        fields = {"n_source_tokens": len(source), "n_target_tokens": len(target), **sizes, **fields}
        model = Transformer(TransformerConfig(**fields)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        return Contents(model=model, source_vocabulary=source, target_vocabulary=target, extra={})

    return new


@pytest.fixture(scope="session")
def folder(contents_of, tmp_path_factory):
    """A translator's folder."""
    contents = contents_of(norm="post")
    place = tmp_path_factory.mktemp("translator") / "en-it"
    return write_translator(place, contents.model, contents.source_vocabulary, contents.target_vocabulary)
