"""Tests of matrices in the terminal: the drawn numbers, the width, and no colour codes without a colour terminal."""

import io
import math
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.by_hand import examples
from regard.by_hand.example_inputs import ExampleInputs
from regard.by_hand.work_out import work_out, worked_example
from regard.tracing.tokens.readable_tokens import Token
from regard.views.terminal.matrices import BLUE, Tint, show, standard_output

SNAKE = ["[CLS]", "The", "snake", "is", "very", "dangerous", "because", "it", "has", "a", "venom", ".", "[SEP]"]


def printed(worked, width=80, colour=False, digits=None):
    system = "truecolor" if colour else None
    console = Console(file=io.StringIO(), width=width, force_terminal=colour, color_system=system)
    show(worked, console, digits)
    return console.file.getvalue()


def wide(normal, n_tokens, words=None, query=None, **choices):
    """Attention over so many tokens of width 40."""
    tokens = tuple(Token(text=word, piece=word) for word in words or [f"word{n}" for n in range(n_tokens)])
    matrices = dict(zip("QKV", (normal(n_tokens, 40).double().numpy() for _ in range(3)), strict=True))
    return work_out(ExampleInputs(title="wide", matrices=matrices, tokens=tokens, **choices), query)


def test_self_attention_in_80_columns():
    assert (
        printed(worked_example("self-attention"))
        == """\
Self-attention: three tokens look at each other
Small whole numbers that are easily checked by hand: three embeddings of width
4, parameters of 4 × 3.

── Given ───────────────────────────────────────────────────────────────────────

  x                  W_q          W_k          W_v
  3 tokens × 4       4 × 3        4 × 3        4 × 3
  x1  1  0  1  0      1  0  1      0  0  1      0  2  0
  x2  0  2  0  2      1  0  0      1  1  0      0  3  0
  x3  1  1  1  1      0  0  1      0  1  0      1  0  3
                      0  1  1      1  1  0      1  1  0

── Queries, keys and values: 3 tokens × 3 roles = 9 vectors ────────────────────

  Q = x W_q       K = x W_k       V = x W_v
  3 tokens × 3    3 tokens × 3    3 tokens × 3
  x1  1  0  2     x1  0  1  1     x1  1  2  3
  x2  2  2  2     x2  4  4  0     x2  2  8  0
  x3  2  1  3     x3  2  3  1     x3  2  6  3

── Attention ───────────────────────────────────────────────────────────────────

  products = Q Kᵀ        scores = products / √d_k, d_k = 3
  3 tokens × 3 tokens    3 tokens × 3 tokens
      x1  x2  x3                 x1      x2      x3
  x1   2   4   4         x1  1.1547  2.3094  2.3094
  x2   4  16  12         x2  2.3094  9.2376  6.9282
  x3   4  12  10         x3  2.3094  6.9282  5.7735

  weights = softmax(scores), row by row    context = weights V
  3 tokens × 3 tokens                      3 tokens × 3
          x1      x2      x3
  x1  0.1361  0.4319  0.4319               x1  1.8639  6.3194  1.7042
  x2  0.0009  0.9088  0.0903               x2  1.9991  7.8141  0.2735
  x3  0.0074  0.7547  0.2378               x3  1.9926  7.4796  0.7359
"""
    )


def test_a_mask_a_token_and_its_weighted_values():
    text = printed(worked_example("causal", "x2"))
    assert text.endswith("""\
  masked = scores, −∞ where not allowed    weights = softmax(masked), row by row
  3 tokens × 3 tokens                      3 tokens × 3 tokens
            x1      x2      x3                       x1      x2      x3
    x1  1.1547      −∞      −∞               x1  1       0       0
  ▸ x2  2.3094  9.2376      −∞             ▸ x2  0.0010  0.9990  0
    x3  2.3094  6.9282  5.7735               x3  0.0074  0.7547  0.2378

  weighted values = weights of x2 · rows of V    context = weights V
  3 tokens × 3                                   3 tokens × 3
    x1   0.0010  0.0020  0.0029                    x1  1       2       3
    x2   1.9980  7.9922  0                       ▸ x2  1.9990  7.9941  0.0029
    x3   0       0       0                         x3  1.9926  7.4796  0.7359
    sum  1.9990  7.9941  0.0029

x2 looks most at x2 0.999, x1 0.001
""")


@pytest.mark.parametrize("name", examples.NAMES)
def test_every_example_fits_and_has_no_trailing_spaces(name):
    worked = worked_example(name)
    for width in (64, 80, 120, 200):
        for line in printed(worked, width).splitlines():
            assert line == line.rstrip()
            assert cell_len(line) <= width


@pytest.mark.parametrize("n_tokens", [7, 13, 40])
def test_wide_matrices_are_left_out_in_the_middle_and_fit(normal, n_tokens):
    worked = wide(normal, n_tokens, query=n_tokens // 2)
    for width in (60, 80, 120):
        text = printed(worked, width)
        assert all(cell_len(line) <= width for line in text.splitlines())
        assert f"Q\n  {n_tokens} tokens × 40\n" in text
        assert "…" in text
        assert text.split()[-2:] == ["every", "number."]


def test_nothing_is_said_to_be_left_out_where_nothing_is():
    assert "Fitted to" not in printed(worked_example("multi-head"))
    assert "Fitted to 80 columns" in printed(worked_example("two-tokens-eight-heads"))


def test_thirteen_tokens_of_a_sentence_all_have_their_weight_in_80_columns(normal):
    worked = wide(normal, 13, SNAKE)
    lines = printed(worked).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  weights = "))
    assert " ".join(lines[start + 2].split()) == "[CL… The sna… is very dan… bec… it has a ven… . [SE…"
    for line, row, word in zip(lines[start + 3 :], worked["weights"].matrix.tolist(), SNAKE, strict=False):
        assert line.split() == [word, *(f"{weight:.2f}" for weight in row)]


def test_the_keys_that_the_token_looks_at_most_stay_in_sight(normal):
    words = [f"w{n}" for n in range(60)]
    worked = wide(normal, 60, words, query=31)
    strongest = [words[key] for key in worked.strongest[:4]]
    lines = printed(worked).splitlines()
    for name in ("weights", "weighted values"):
        start = next(i for i, line in enumerate(lines) if line.startswith(f"  {name} = "))
        shown = "\n".join(lines[start : start + 25])
        assert all(re.search(rf"\b{word}\b", shown) for word in strongest)
    start = next(i for i, line in enumerate(lines) if line.startswith("  weights = "))
    assert any(line.startswith("  ▸ w31") for line in lines[start : start + 25])
    assert sum(line.strip() == "⋮" for line in lines[start : start + 20]) >= 1


def test_digits_are_as_many_as_asked_for_and_then_columns_go_instead(normal):
    text = printed(worked_example("self-attention"), digits=2)
    assert "  x1  0.14  0.43  0.43" in text
    lines = printed(wide(normal, 13), digits=6).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  weights = "))
    assert re.fullmatch(r"  word0( +0\.\d{6})+ +…( +0\.\d{6})+", lines[start + 3])


# Colour


def test_weights_go_from_white_to_blue_and_what_is_masked_is_grey():
    worked = worked_example("causal")
    tint = Tint.of(worked["weights"])
    assert tint.style(0.0).bgcolor.triplet == (255, 255, 255)
    assert tint.style(1.0).bgcolor.triplet == BLUE
    assert (tint.style(0.0).color.name, tint.style(1.0).color.name) == ("#000000", "#ffffff")
    shades = [sum(tint.style(weight).bgcolor.triplet) for weight in (0.0, 0.2, 0.5, 0.8, 1.0)]
    assert shades == sorted(shades, reverse=True)
    red, green, blue = Tint.of(worked["masked"]).style(-math.inf).bgcolor.triplet
    assert red == green == blue < 255

    worked = worked_example("self-attention")  # given matrices are not tinted
    assert Tint.of(worked["x"]).style(2.0).bgcolor is None
    assert Tint.of(worked["Q"]).style(2.0).bgcolor is not None


def test_colour_only_on_a_terminal_and_the_same_text_without_it():
    worked = worked_example("causal", "x2")
    coloured, plain = printed(worked, colour=True), printed(worked)
    assert "\x1b[" not in plain
    assert "48;2;8;81;156" in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(worked_example("causal"), colour=True)
    assert "48;" not in text
    assert "38;" not in text


def test_a_pipe_is_120_columns_wide_unless_columns_says_otherwise(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert standard_output().width == 120
    monkeypatch.setenv("COLUMNS", "90")
    assert standard_output().width == 90


# What texts may hold


def test_nothing_in_a_text_moves_the_cursor(normal):
    worked = wide(normal, 2, ["a\x1b[31mb", "[bold]x[/bold]"], query=0)
    text = printed(worked, colour=True)
    assert "\x1b[31m" not in text
    assert "a‹1B›[31mb" in text
    assert "[bold]x[/bold]" in text


def test_wide_letters_keep_columns_aligned(normal):
    lines = printed(wide(normal, 2, ["위험하기", "it"])).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  weights = "))
    assert len({cell_len(line.rstrip()) for line in lines[start + 2 : start + 5]}) == 1


def test_a_row_that_sees_nothing_is_said_in_words():
    q = np.eye(2)
    mask = np.array([[False, False], [True, True]])
    worked = work_out(ExampleInputs(title="blind", matrices={"Q": q, "K": q, "V": q}, mask=mask), "x1")
    text = printed(worked)
    assert "x1 may attend to no key: its weights and its context are 0." in text
    assert text.endswith("x1 looks most at nothing\n")


def test_each_head_says_where_the_token_looks():
    text = printed(worked_example("multi-head", "x2"))
    assert re.search(r"^x2, in head 2, looks most at x2 0\.79", text, re.MULTILINE)
    assert len(re.findall(r"^x2, in head \d, looks most at ", text, re.MULTILINE)) == 4


def test_one_number_and_a_flat_pattern():
    one = np.ones((1, 1))
    worked = work_out(ExampleInputs(title="", matrices={"Q": one, "K": one, "V": one}, temperature=0.0))
    formula = "weights = all on the largest of scores, shared by equal ones"
    assert formula in printed(worked)
    assert repr(worked["weights"]) == f"Stage({formula}, 1 token × 1 token)"
