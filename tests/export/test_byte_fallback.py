"""Tests of exports of vocabularies with byte pieces: characters without a piece are translated as by the translator.

The export to ONNX is tested in test_onnx.py, whose translator has such vocabularies too.
"""

import pytest

from regard.export import ctranslate2, huggingface
from regard.export.parity import compare


@pytest.mark.parametrize("to", [ctranslate2, huggingface], ids=lambda to: to.__name__)
def test_characters_without_a_piece_are_translated_the_same(contents_of, tmp_path, to):
    lines = ["the cat sat", "a 뱀 🐍", "ẞ ▅ <s>"]
    contents = contents_of(with_bytes=True, n_layers=1, norm="post")
    to.write(contents, tmp_path)
    parity = compare(contents, to.LoadedExport(tmp_path), lines)
    assert parity.n_same == len(lines)
    assert parity.difference < 1e-4
