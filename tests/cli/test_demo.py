"""`regard demo`: the main job from nothing."""

import re

from typer.testing import CliRunner

from regard import InputError, Translator
from regard.cli.main import app


def demo(*arguments):
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "80"}).invoke(app, ["demo", *arguments])


def test_numbers_sentence_pictures_page_and_translator(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.cli.demo.PAIRS", 300)
    monkeypatch.setattr("regard.cli.demo.STEPS", 12)
    result = demo("--out", str(tmp_path / "here"))
    assert result.exit_code == 0, result.exception
    assert "x1  0.1361  0.4319  0.4319" in result.stdout  # weights of the worked example
    assert "x1  1.8639  6.3194  1.7042" in result.stdout  # its context
    assert "snake  0.674" in result.stdout
    assert re.search(r"numbers it has never seen: \d+ of 300 exactly right\n", result.stdout)  # few, after 12 steps
    assert Translator.load(tmp_path / "here" / "translator").translate(["forty-two"])[0].alignment.target_pieces
    for name in ("snake.png", "snake.html", "alignment.png"):
        path = tmp_path / "here" / name
        assert path.stat().st_size > 10_000
        assert str(path) in result.stdout


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = demo("--out", str(tmp_path / "file" / "here"))
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == (
        f"cannot make the folder {tmp_path / 'file' / 'here'}: not a directory; name another with --out."
    )
