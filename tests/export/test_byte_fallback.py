"""Tests of exports of vocabularies with byte pieces: characters without a piece are translated as by the translator."""

import pytest
import torch

from regard.export import ctranslate2, huggingface, onnx
from regard.export.parity import compare
from regard.text.vocabulary import Vocabulary
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.translator_folder import TranslatorContents

ENGLISH = ["the cat sat on the mat .", "a dog runs across the green field"]
ITALIAN = ["il gatto è sul tappeto .", "un cane corre attraverso il campo verde"]
LINES = ["the cat sat", "a 뱀 🐍", "ẞ ▅ <s>"]


@pytest.fixture(scope="module")
def contents():
    """Return a random translator whose vocabularies have pieces for bytes."""
    source, target = (Vocabulary.train(lines * 5, 300, byte_fallback=True) for lines in (ENGLISH, ITALIAN))
    torch.manual_seed(5)
    config = TransformerConfig(
        n_source_tokens=len(source), n_target_tokens=len(target), d_model=16, n_heads=4, d_ff=24, n_layers=1,
        max_tokens=37, norm="post",
    )  # fmt: skip
    model = Transformer(config).eval()
    with torch.no_grad():
        model.decoder.to_logits.weight.mul_(3)  # so that no two translations are as probable
    return TranslatorContents(model=model, source_vocabulary=source, target_vocabulary=target, extra={})


@pytest.mark.usefixtures("unhooked")  # torch exports to ONNX without the checks of shapes
@pytest.mark.parametrize("to", [ctranslate2, huggingface, onnx], ids=lambda to: to.__name__)
def test_characters_without_a_piece_are_translated_the_same(contents, tmp_path, to):
    to.write(contents, tmp_path)
    parity = compare(contents, to.LoadedExport(tmp_path), LINES)
    assert parity.n_same == len(LINES)
    assert parity.difference < 1e-4
