"""Tests of `regard demo`: the whole tour runs and writes its files; refusals."""

import re
import sys

import pytest
from cli_runner import output, refused

from regard import Translator


@pytest.mark.usefixtures("minilm_once")
def test_numbers_sentence_pictures_page_and_translator(tmp_path, monkeypatch):
    for name, value in {"PAIRS": 200, "EVALUATION_PAIRS": 20, "STEPS": 2}.items():
        monkeypatch.setattr(f"regard.cli.demo.{name}", value)
    drawn = []
    monkeypatch.setattr("regard.cli.demo.remark_on_fonts", drawn.append)
    text = output("demo", "--out", tmp_path / "here")
    assert len(drawn) == 1
    assert "(end)" in drawn[0]  # the letters of alignment.png, whose last label is the end of the text
    assert re.search(
        r"^ *\(end\) .*\n(.*\n)*  ·· to 0\.2  ░░ to 0\.4 ", text, re.MULTILINE
    )  # the last row, then the legend
    assert "x1  0.1361  0.4319  0.4319" in text  # weights of the worked example
    assert "x1  1.8639  6.3194  1.7042" in text  # its context
    assert "snake  0.674" in text
    assert re.search(r"numbers it has never seen: \d+ of 20 exactly right\n", text)  # few, after 2 steps
    assert Translator.load(tmp_path / "here" / "translator").translate(["forty-two"])[0].alignment.target_pieces
    for name in ("snake.png", "snake.html", "alignment.png"):
        path = tmp_path / "here" / name
        assert path.stat().st_size > 10_000
        assert str(path) in text


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert refused("demo", "--out", tmp_path / "file" / "here") == (
        f"cannot make the folder {tmp_path / 'file' / 'here'}: not a directory; name another with --out."
    )


def test_all_missing_packages_are_named_before_anything_is_made(tmp_path, monkeypatch):
    for package in ("transformers", "num2words", "sentencepiece"):
        monkeypatch.setitem(sys.modules, package, None)
    assert refused("demo", "--out", tmp_path / "here") == (
        "this needs the packages transformers, num2words and sentencepiece, which are not installed; install them with "
        "pip install 'regard[huggingface,translation]'."
    )
    assert list(tmp_path.iterdir()) == []
