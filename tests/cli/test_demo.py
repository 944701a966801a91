"""`regard demo`: the main job from nothing."""

from typer.testing import CliRunner

from regard import InputError
from regard.cli.main import app


def demo(*arguments):
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "80"}).invoke(app, ["demo", *arguments])


def test_numbers_sentence_picture_and_page(tmp_path):
    result = demo("--out", str(tmp_path / "here"))
    assert result.exit_code == 0, result.exception
    assert "x1  0.1361  0.4319  0.4319" in result.stdout  # weights of the worked example
    assert "x1  1.8639  6.3194  1.7042" in result.stdout  # its context
    assert "snake  0.674" in result.stdout
    for name in ("snake.png", "snake.html"):
        path = tmp_path / "here" / name
        assert path.stat().st_size > 10_000
        assert str(path) in result.stdout


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = demo("--out", str(tmp_path / "file" / "here"))
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == (
        f"cannot make the folder {tmp_path / 'file' / 'here'}: Not a directory; name another with --out."
    )
