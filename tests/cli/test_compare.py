"""Tests of `regard compare`: its output, files, exit statuses and refusals."""

import json
import re

import pytest
import torch
from cli_runner import invoke, output, refused

from regard.views.terminal.comparison import percent_cell

SNAKE = "The snake is very dangerous because it has a venom."

pytestmark = pytest.mark.usefixtures("minilm_once")


def test_a_model_and_itself_do_not_differ(tmp_path):
    path = tmp_path / "same.json"
    text = output("compare", "MiniLM", "MiniLM", SNAKE, "--at-most", "0", "--json", path)
    assert "no difference: at most 0 of a query's attention goes to other keys\n" in text
    document = json.loads(path.read_text())
    assert (document["first"], document["output"]) == (None, 0.0)
    assert [len(layer["heads"]) for layer in document["layers"]] == [12] * 6


def test_two_models_differ_and_the_status_says_so(tmp_path, minilm):
    model = minilm.model.__class__(minilm.model.config).eval()
    model.load_state_dict(minilm.model.state_dict())
    with torch.no_grad():
        model.encoder.layer[4].attention.self.key.weight *= 1.1
    model.save_pretrained(tmp_path / "tuned")
    minilm.tokenizer.save_pretrained(tmp_path / "tuned")
    picture, page = tmp_path / "apart.png", tmp_path / "apart.html"
    arguments = ("compare", "MiniLM", tmp_path / "tuned", SNAKE, "--png", picture, "--html", page)
    text = output(*arguments)
    assert "MiniLM and tuned\nthey first differ in L4H" in text
    assert text.endswith(f"\nwrote {page}\nwrote {picture}\n")
    assert '"second":{"model":"tuned",' in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    failed = invoke(*arguments, "--at-most", "0.001")
    assert failed.exit_code == 1
    assert re.fullmatch(r"regard: L\dH\d+ at \S+: 0\.\d+ > 0\.001\n", failed.stderr)
    assert invoke(*arguments, "--at-most", "0.9").exit_code == 0


def test_the_grid_rounds_as_the_list_does():
    for share, percent in ((1.0, " 100 "), (0.996, " 100 "), (0.994, "  99 "), (0.0, "   0 ")):
        assert percent_cell(share, has_brackets=False).plain == percent
    assert percent_cell(1.0, has_brackets=True).plain == "[100]"


def test_what_cannot_be_compared_is_refused():
    assert refused("compare", "MiniLM", "MiniLM", SNAKE, "--at-most", "2") == (
        "--at-most 2: a difference of attention is from 0 to 1."
    )
    assert refused("compare", "MiniLM", "MiniLM", " ") == "the text is empty; give at least one word to look at."
    assert refused("compare", "MiniLM", "MiniLM", SNAKE, "--png", "apart.pdf") == (
        "--png writes a PNG file; apart.pdf does not end in .png."
    )
