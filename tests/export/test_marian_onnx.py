"""The ONNX graphs of a Marian model compute what transformers computes, with one table of pieces and with two.

The graphs of one table are those of a site, with more outputs; the graphs of two tables are those of `export`.
"""

import json
import warnings

import pytest
import torch
from marian_folder import PAIRS, write_marian, write_marian_of_two_tables
from transformers import MarianMTModel, MarianTokenizer

from regard.export import export
from regard.export.onnx import LoadedExport
from regard.site.translator_model import export_translator
from regard.translation.translator import Translator

TEXTS = ["seven", "forty-two", "q", "quq", "é et zé", "猫 seven", *(source for source, _ in PAIRS[:3])]
"""Texts with known letters, with letters that only the other language has, and with a letter that neither has."""


def export_for_site(folder, out):
    out.mkdir()
    exported = export_translator(Translator.load(folder), "fifty-one", out)
    assert exported.report.startswith("same translation of 20 of 20 lines")
    assert exported.difference.holds


def export_alone(folder, out):
    parity = export(folder, "onnx", out)
    assert parity.n_same == parity.n_lines


@pytest.mark.usefixtures("without_type_checks", "operators_read_once")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "write_graphs"), [(write_marian, export_for_site), (write_marian_of_two_tables, export_alone)]
)
def test_the_graphs_compute_what_transformers_computes(write, write_graphs, tmp_path, monkeypatch):
    again = "refine_dynamic_shapes_from_suggested_fixes"  # PyTorch traces a graph again after a wrong limit of an axis
    monkeypatch.setattr(torch.export.dynamic_shapes, again, None)
    folder = write(tmp_path / "marian")
    write_graphs(folder, tmp_path / "onnx")
    exported = LoadedExport(tmp_path / "onnx")
    with warnings.catch_warnings(action="ignore"):
        tokenizer = MarianTokenizer.from_pretrained(folder)
        model = MarianMTModel.from_pretrained(folder).eval()
    name = "target_vocab.json" if tokenizer.separate_vocabs else "vocab.json"
    table = json.loads((folder / name).read_text())
    target = max((exported.target_processor.encode(text) for _, text in PAIRS), key=len)
    assert len(target) > 3
    rows = {
        token: table.get(exported.target_processor.id_to_piece(token))
        for token in range(4, len(exported.target_processor))
    }
    compared = [token for token, row in rows.items() if row is not None]
    assert len(compared) > 45
    decoder_ids = torch.tensor([[model.config.decoder_start_token_id, *(rows[token] for token in target)]])
    for text in TEXTS:
        steps = exported.steps(exported.source_ids(text))
        found = [next(steps), *map(steps.send, target)]
        logits = torch.stack([torch.from_numpy(step["logits"][0]) for step in found])
        with torch.no_grad():
            wanted = model(**tokenizer([text], return_tensors="pt"), decoder_input_ids=decoder_ids).logits[0]
        wanted = wanted[:, [rows[token] for token in compared]]
        torch.testing.assert_close(logits[:, compared], wanted, rtol=1e-4, atol=1e-4)
