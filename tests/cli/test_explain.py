"""Tests of `regard explain`: its output for built-in examples, files of numbers and heads of models; refusals."""

import json
import re
import subprocess
import sys

import pytest
from cli_runner import output, refused
from rich.cells import cell_len

from regard.by_hand import examples
from regard.by_hand.work_out import worked_example

SNAKE = "The snake is very dangerous because it has a venom."

pytestmark = pytest.mark.usefixtures("minilm_once")


def explain(*arguments, **options):
    return output("explain", *arguments, **options)


def test_without_arguments_it_shows_self_attention():
    text = explain()
    assert text == explain("--example", "self-attention")
    assert "  x2  0.0009  0.9088  0.0903               x2  1.9991  7.8141  0.2735" in text


def test_the_list_has_a_line_for_every_example():
    lines = explain("--list").splitlines()
    assert [line.split("  ")[0] for line in lines] == list(examples.NAMES)
    assert lines[0] == "self-attention          Self-attention: three tokens look at each other"


@pytest.mark.parametrize("name", examples.NAMES)
def test_every_example_is_shown(name):
    text = explain("--example", name)
    for stage in worked_example(name).stages:
        assert f"{stage.name} = {stage.formula}" in text if stage.formula else stage.name in text


def test_a_file_of_your_own(tmp_path):
    path = tmp_path / "snakes.toml"
    path.write_text(
        'tokens = ["The", "snake", "it"]\nx = [[1, 0], [0, 2], [1, 1]]\n'
        "W_q = [[1, 0], [0, 1]]\nW_k = [[1, 0], [0, 1]]\nW_v = [[1, 0], [0, 1]]\n"
    )
    text = explain(path, "--token", "it", "--temperature", "0.5", "--mask", "causal", "--digits", "2")
    assert text.startswith("snakes\n")
    assert "tempered = masked / 0.5, the temperature" in text
    assert "  ▸ it     0.11   0.45  0.45" in text
    assert text.splitlines()[-1] == "it looks most at snake 0.446, it 0.446, The 0.108"


def test_temperature_0_and_a_mask_on_an_example():
    text = explain("--temperature", "0", "--mask", "causal")
    assert "weights = all on the largest of masked" in text
    assert "−∞" in text


def test_a_head_of_a_model_begins_with_one_query(snake, tmp_path):
    path = tmp_path / "steps.html"
    lines = explain("--text", SNAKE, "--head", "L3H1", "--token", "it", "--html", path).splitlines()
    assert lines[0] == "MiniLM · L3H1"
    assert "the query it" in lines
    rows = {line.split()[0]: line.split()[1:] for line in lines[lines.index("the query it") + 1 :] if line.strip()}
    assert rows["products"][:3] == ["scores", "exp", "weights"]
    steps = snake["L3H1"].pattern.steps(0, 1)
    for key, name in ((0, "[CLS]"), (2, "snake"), (9, "a")):
        exponential = float((steps.scores[7, key] - steps.scores[7].max()).exp())
        exact = (steps.products[7, key], steps.scores[7, key], exponential, steps.weights[7, key])
        assert [float(cell) for cell in rows[name][:4]] == pytest.approx([float(n) for n in exact], abs=2e-4)
    total = float((steps.scores[7] - steps.scores[7].max()).exp().sum())
    assert [float(cell) for cell in rows["sum"]] == pytest.approx([total, 1], abs=1e-4)
    hint = "--all shows every matrix of every token, --html FILE the steps as a page."
    assert lines[-3:] == [hint, "", f"wrote {path}"]
    assert all(cell_len(line) <= 80 for line in lines[:-1])
    assert '"worked":' in path.read_text()


def test_a_query_of_many_keys_lists_the_strongest_and_temperature_0_shows_every_matrix():
    text = explain("--text", "The snake has a venom. " * 5, "--head", "L3H1", "--token", "venom:4", "--digits", "2")
    rows = text.splitlines()
    assert any(row.startswith("  20 other keys") for row in rows)
    cold = explain("--text", SNAKE, "--head", "L3H1", "--token", "it", "--temperature", "0")
    assert "weights = all on the largest of scores" in cold


def test_every_matrix_of_a_head_of_a_model():
    text = explain("--text", SNAKE, "--head", "L3H1", "--token", "it", "--all")
    assert text.startswith("MiniLM · L3H1\n")
    assert "  x\n  13 tokens × 384\n" in text
    assert "  Q = x W_q + b_q\n  13 tokens × 32\n" in text
    assert "it looks most at snake 0.674, The 0.107, [CLS] 0.066" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_text_that_is_too_long_is_cut():
    text = "The snake has a venom. " * 100
    shown = explain("--text", text, "--truncate", "--head", "L3H1", "--token", "venom:7", "--all")
    assert "  512 tokens × 512 tokens\n" in shown
    assert len(shown.splitlines()) < 300
    assert all(cell_len(line) <= 80 for line in shown.splitlines())


def test_json_has_every_stage_in_a_file_or_alone_on_standard_output(tmp_path):
    path = tmp_path / "all.json"
    assert explain("--json", path).endswith(f"\n\nwrote {path}\n")
    assert explain("--json", "-") == path.read_text()
    stages = {stage["name"]: stage["matrix"] for stage in json.loads(path.read_text())["stages"]}
    assert stages == {stage.name: stage.matrix.tolist() for stage in worked_example("self-attention").stages}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--example", "cros"],
         "no example 'cros'; nearest: cross, causal. All of them: self-attention, causal, "
         "one-word, cross, multi-head, two-tokens-eight-heads."),
        (["a.toml", "--text", "it"], "got a.toml and --text; give one of them: a file, --example or --text."),
        (["--example", "cross", "--text", "it"],
         "got --example and --text; give one of them: a file, --example or --text."),
        (["--head", "L3H1"], "--head L3H1 belongs to a model; give the text that it reads with --text."),
        (["--model", "bert"], "--model bert belongs to a model; give the text that it reads with --text."),
        (["--target", "it"], "--target it belongs to a model; give the text that it reads with --text."),
        (["--mask", "cuasal"],
         "no mask 'cuasal'; there is causal (no attention to later tokens), or in a file rows of true and false."),
        (["--temperature", "-1"],
         "temperature=-1.0 divides the scores, so it must be 0 (all weight on the largest) or above."),
        (["--digits", "18"], "--digits 18: a number is shown with 0 to 17 decimals."),
        (["--token", "x4"], "no token 'x4' in the text; nearest: x3, x2, x1."),
        (["--text", ""], "the text is empty; give at least one word to look at."),
        (["--json", "/nowhere/all.json"],
         "cannot write /nowhere/all.json: there is no folder /nowhere; make it first or name another file."),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(arguments, message):
    assert refused("explain", *arguments) == message


def test_a_pipe_gets_plain_text_and_is_wider():
    text = explain(columns=None)
    assert "\x1b" not in text
    assert "scores = products / √d_k, d_k = 3    weights = softmax(scores), row by row" in text
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [(["--list"], ["torch", "transformers", "matplotlib", "numpy"]), ([], ["torch", "transformers", "matplotlib"])],
)
def test_the_list_and_numbers_by_hand_need_no_heavy_package(arguments, absent):
    """PyTorch takes longer to import than everything else that `regard explain` does."""
    program = (
        f"import sys\nfrom regard.cli.main import app\napp({['explain', *arguments]}, standalone_mode=False)\n"
        f"print([name for name in {absent} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ("context = weights V" in done.stdout) == (arguments == [])
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_shows_the_file_format():
    text = explain("--help")
    assert 'mask = "causal"' in text
    assert "W_q = [[1, 0], [0, 1]]" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_steps_of_a_token_fit_into_a_narrow_terminal(width):
    """The numbers and their sums are all there; only the line of the strongest keys may be longer."""
    text = "The cat sat on the mat."
    lines = explain("--text", text, "--head", "L3H1", "--token", "mat", columns=width).splitlines()
    assert max(len(line) for line in lines if "looks most" not in line) <= width
    header = next(line for line in lines if "products" in line and "weights" in line)
    assert header.split() == ["products", "scores", "exp", "weights"]
    *rows, total = lines[lines.index(header) + 1 :][:10]
    assert abs(sum(float(row.split()[4]) for row in rows) - 1) < 0.05
    assert re.fullmatch(r"  sum +1\.10(14)? +1", total)


def test_tokens_with_the_same_text_are_numbered():
    text = explain("--text", "the cat sat on the mat", "--head", "L0H8", "--token", "the")
    assert "the query the:1\n" in text
    assert re.search(r"^the:1 looks most at the:1 0\.368, the:2 0\.359, ", text, re.MULTILINE)
    assert re.search(r"^  the:2 +17\.5583 ", text, re.MULTILINE)


def test_the_heading_of_a_section_fits_into_a_narrow_terminal():
    lines = explain(columns=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert (
        lines[lines.index("── Queries, keys and values: 3 tokens ×") + 1] == "── 3 roles = 9 vectors ─────────────────"
    )
