"""Tests of `export`: what it writes, what it refuses, and that no files remain of an export that fails."""

import sys

import pytest
import torch
from refusals import refusal

from regard import InputError
from regard.export import FORMATS, ctranslate2, export, format_of_name, huggingface, refuse_difference
from regard.export.parity import Parity, compare

LINES = ["the cat sat", "two men"]


def test_the_checked_export_is_all_that_is_left(folder, tmp_path):
    parity = export(folder, "ctranslate2", tmp_path / "out", LINES)
    assert (parity.n_lines, parity.n_same) == (2, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "model.bin").is_file()


def test_lines_are_made_up_where_none_are_given(folder, tmp_path):
    assert export(folder, "ctranslate2", tmp_path / "out").n_lines > 10


def test_an_export_leaves_the_random_numbers_of_its_caller_as_they_are(folder, tmp_path):
    before = torch.get_rng_state()
    export(folder, "huggingface", tmp_path / "out", LINES)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_difference_is_refused_with_its_size():
    parity = Parity(n_lines=5, n_same=3, difference=0.25, gap=0.5, worst="the cat sat")
    assert refusal(InputError, refuse_difference, parity, FORMATS["ctranslate2"]) == (
        "the CTranslate2 export does not translate as the translator does, so it was deleted: same translation of 3 of "
        "5 lines; log-probabilities at most 2.5e-01 nats a token apart; at the first piece that differs, the "
        "translator's logits of its own piece and of the export's piece are up to 5.0e-01 apart; the worst line is "
        "'the cat sat'."
    )


def test_an_export_that_translates_differently_is_not_kept(folder, tmp_path, monkeypatch):
    true_norm = ctranslate2.set_norm

    def wrong_norm(spec, norm):
        true_norm(spec, norm)
        spec.beta = spec.beta + 1

    monkeypatch.setattr(ctranslate2, "set_norm", wrong_norm)
    message = refusal(InputError, export, folder, "ctranslate2", tmp_path / "out", LINES)
    assert message.startswith(
        "the CTranslate2 export does not translate as the translator does, so it was deleted: same translation of "
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_left_alone(folder, tmp_path):
    assert refusal(InputError, export, folder, "onnx", tmp_path) == (
        f"{tmp_path} exists already; name a new folder, or remove this one first."
    )


def test_a_folder_that_does_not_exist_is_not_written_into(folder, tmp_path):
    assert refusal(InputError, export, folder, "onnx", tmp_path / "none" / "out") == (
        f"cannot write {tmp_path}/none/out: there is no folder {tmp_path}/none; make it first or name another."
    )


def test_a_folder_without_a_translator_is_refused(tmp_path):
    assert refusal(InputError, export, tmp_path / "none", "onnx", tmp_path / "out") == (
        f"{tmp_path}/none does not exist; give the folder that regard train wrote with --out."
    )


def test_a_full_disk_leaves_no_file(folder, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ctranslate2, "write", full)
    assert refusal(InputError, export, folder, "ctranslate2", tmp_path / "out") == (
        f"cannot write {tmp_path}/out: no space left on device; name another folder."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("to", "missing", "named", "extra"),
    [
        ("ctranslate2", ["ctranslate2", "sentencepiece"], "ctranslate2 and sentencepiece", "export,translation"),
        ("onnx", ["onnx", "onnxscript", "onnxruntime"], "onnx, onnxscript and onnxruntime", "export,translation"),
        ("huggingface", ["transformers", "sentencepiece"], "transformers and sentencepiece", "huggingface,translation"),
    ],
)
def test_all_missing_packages_are_named_before_anything_is_read(tmp_path, monkeypatch, to, missing, named, extra):
    for package in missing:
        monkeypatch.setitem(sys.modules, package, None)
    assert refusal(InputError, export, tmp_path / "en-ko", to, tmp_path / "out") == (
        f"this needs the packages {named}, which are not installed; install them with pip install 'regard[{extra}]'."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", FORMATS)
def test_the_usage_of_each_format_is_valid_python(to):
    compile(format_of_name(to).usage.format(out="en-ko"), to, "exec")


@pytest.mark.parametrize("to", [ctranslate2, huggingface], ids=lambda to: to.__name__)
def test_characters_without_a_piece_are_translated_the_same(translator_of, tmp_path, to):
    lines = ["the cat sat", "a 뱀 🐍", "ẞ ▅ <s>"]
    translator = translator_of(with_bytes=True, n_layers=1, norm="post")
    to.write(translator, tmp_path)
    parity = compare(translator, to.LoadedExport(tmp_path), lines)
    assert parity.n_same == len(lines)
    assert parity.difference < 1e-4
