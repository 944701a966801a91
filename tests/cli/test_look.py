"""`regard look`: its files, its refusals, its agreement with the pattern."""

import json

import pytest
from torch.testing import assert_close
from typer.testing import CliRunner

from regard import InputError
from regard.cli.main import app

SNAKE = "The snake is very dangerous because it has a venom."


def look(*arguments, text=None):
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "80"}).invoke(app, ["look", *arguments], input=text)


def refusal(*arguments):
    result = look(*arguments)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_the_snake():
    result = look(SNAKE, "--token", "it", "--head", "L3H1")
    assert result.exit_code == 0
    assert "snake  0.674" in result.stdout


def test_a_text_from_standard_input():
    assert "6 layers × 12 heads · 13 tokens" in look("-", text=SNAKE + "\n").stdout


def test_korean_and_markup():
    result = look("뱀은 <script>alert(1)</script> 위험하다.", "--token", "script")
    assert result.exit_code == 0
    assert "<script>alert(1)</script>" in result.stdout
    assert "('script' occurs twice; this is script:1)" in result.stdout


def test_all_files(tmp_path):
    paths = {ending: tmp_path / f"snake.{ending}" for ending in ("html", "png", "svg", "pdf", "json")}
    options = [word for ending, path in paths.items() for word in (f"--{ending}", str(path))]
    result = look(SNAKE, "--token", "it", *options)
    assert result.exit_code == 0, result.exception
    assert [line for line in result.stdout.splitlines() if line.startswith("wrote")] == [
        f"wrote {p}" for p in paths.values()
    ]
    starts = {"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "json": b"{"}
    assert all(path.read_bytes().lower().startswith(starts[ending].lower()) for ending, path in paths.items())


@pytest.mark.parametrize("options", [(), ("--layer", "3")])
def test_every_heads_pattern_as_a_picture(tmp_path, options):
    path = tmp_path / "heads.png"
    result = look(SNAKE, *options, "--heads", str(path))
    assert result.exit_code == 0, result.exception
    assert result.stdout.endswith(f"\nwrote {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_json_has_every_weight(tmp_path, snake):
    path = tmp_path / "snake.json"
    look(SNAKE, "--token", "it", "--head", "L3H1", "--json", str(path))
    document = json.loads(path.read_text())
    assert document["focus"]["token"] == "it"
    assert document["queries"] == [token.text for token in snake.tokens]
    assert list(document["weights"]) == ["L3H1"]
    assert_close(snake["L3H1"].weights.double(), snake["L3H1"].weights.new_tensor(document["weights"]["L3H1"]).double())
    assert document["focus"]["weights"][2] == pytest.approx(0.674, abs=5e-4)


@pytest.mark.parametrize(("options", "n_heads"), [((), 72), (("--layer", "2"), 12)])
def test_json_of_all_heads_or_of_a_layer(tmp_path, options, n_heads):
    look(SNAKE, *options, "--json", str(tmp_path / "a.json"))
    assert len(json.loads((tmp_path / "a.json").read_text())["weights"]) == n_heads


def test_too_many_weights_for_json(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.views.trace_json.MAX_WEIGHTS", 1000)
    assert refusal(SNAKE, "--json", str(tmp_path / "a.json")) == (
        "72 heads have 12,168 weights, more than the 1,000 that one JSON file takes; "
        "choose one head with --head or the heads of one layer with --layer."
    )
    assert list(tmp_path.iterdir()) == []


def test_truncate():
    assert "512 tokens" in look("snake " * 600, "--truncate").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "the text is empty; give at least one word to look at."),
        (
            ["snake " * 600],
            "the text is 602 tokens long and the model reads at most 512; "
            "shorten it, or read only its beginning with --truncate (truncate=True).",
        ),
        ([SNAKE, "--token", "itt"], "no token 'itt' in the text; nearest: it, is."),
        (
            [SNAKE, "--head", "L9H1"],
            "no head 'L9H1'; heads are named like L3H1 and run from L0H0 to L5H11; nearest: L5H1, L5H0, L5H2.",
        ),
        ([SNAKE, "--layer", "6"], "no layer 6 to look at: layers run from 0 to 5; nearest: 5."),
        ([SNAKE, "--target", "le serpent"], "BertModel reads one text, so it takes no target."),
        ([SNAKE, "--png", "a.svg"], "--png writes a PNG file; a.svg does not end in .png."),
        (
            [SNAKE, "--heads", "a.gif"],
            "cannot tell what kind of picture a.gif is; its name must end in .png, .svg or .pdf.",
        ),
        (
            [SNAKE, "--html", "none/a.html"],
            "cannot write none/a.html: there is no folder none; make it first or name another file.",
        ),
        (
            [SNAKE, "--model", "a b/c"],
            "no model 'a b/c'; nearest: MiniLM; give a folder with a model in it or a name on the Hugging Face hub.",
        ),
    ],
)
def test_refusals(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(*arguments) == message
    assert list(tmp_path.iterdir()) == []


def test_weights_to_standard_output_and_nothing_else(tmp_path):
    result = look(SNAKE, "--head", "L3H1", "--json", "-", "--html", str(tmp_path / "a.html"))
    record = json.loads(result.stdout)
    assert list(record["weights"]) == ["L3H1"]
    assert (tmp_path / "a.html").is_file()
