"""Tests of the terminal view of a trace: its numbers equal the pattern's, with and without colour."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from regard import Causal
from regard.tracing.focus import focus_on, strongest_other_words
from regard.tracing.tokens.places import Frame
from regard.tracing.tokens.readable_tokens import Token
from regard.views.shared_text import CAUTION
from regard.views.terminal.trace import bar, shade, show, tint


def printed(trace, width=80, colour=False, **chosen):
    file = io.StringIO()
    system = "truecolor" if colour else None
    console = Console(file=file, width=width, highlight=False, force_terminal=colour, color_system=system)
    show(trace, console=console, **chosen)
    return file.getvalue()


def test_the_snake(snake):
    text = printed(snake, token="it", head="L3H1")
    assert "MiniLM · 6 layers × 12 heads · 13 tokens" in text
    assert "it looks, in L3H1, at" in text
    assert "[CLS] The snake is very dangerous because it has a venom. [SEP]" in text
    assert re.search(r"^  snake +0\.674 +█{21}", text, re.MULTILINE)


def test_a_recording_is_a_row_of_blocks_on_an_axis_of_time(handmade):
    n = 150
    frames = tuple(Token(f"{i / 50:.2f}s", "frame", place=Frame(i / 50, (i + 1) / 50)) for i in range(n))
    trace = replace(handmade(" ".join(map(str, range(n)))), source=frames)
    text = printed(trace, token=7, head="L1H2")
    row = trace.encoder[1].dense()[0, 2, 7]
    blocks = "".join(shade(float(part.max() / row.max())) for part in row.split(3))
    lines = [line.rstrip() for line in text.splitlines()]
    axis = lines[lines.index(f"  {blocks}") + 1][2:]
    labels = {round(number * 50 / 6): f"{number / 2:g}" for number in range(7)}  # 50 blocks for 3 seconds
    assert {m.start(): m[0] for m in re.finditer(r"[\d.]+", axis)} == labels
    assert axis.endswith("3 s")
    assert "looks most sharply at another token\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_number_is_the_patterns(snake):
    text = printed(snake, token="because", head="L2H8")
    row = snake.encoder[2].dense()[0, 8, 6]
    for weight, key in zip(*row.topk(6), strict=True):
        assert re.search(rf"^  {re.escape(snake.tokens[key].text)} +{weight:.3f}", text, re.MULTILINE)


def test_the_grid_has_a_cell_for_every_head_and_marks_the_chosen_one(snake):
    rows = re.findall(r"^  L(\d) ( .*|\[.*)$", printed(snake, token="it", head="L3H1"), re.MULTILINE)
    assert [int(layer) for layer, _ in rows] == list(range(6))
    weights = {(head.layer, head.head): weight for head, _, weight in strongest_other_words(snake.heads(), 7)}
    for layer, row in rows:
        cells = [row.ljust(48)[4 * head : 4 * head + 4] for head in range(12)]
        assert [cell[1] for cell in cells] == [shade(weights[int(layer), head]) for head in range(12)]
    assert [cell for _, row in rows for cell in re.findall(r"\[..\]", row)] == ["[▓▓]"]


def test_tokens_are_coloured_by_weight_on_a_terminal_only(snake):
    assert "\x1b" not in printed(snake, token="it")
    text = printed(snake, token="it", head="L3H1", colour=True)
    colour = tint(float(snake["L3H1"]["it", "snake"])).bgcolor.triplet
    assert f"48;2;{colour.red};{colour.green};{colour.blue}msnake" in text


def test_no_color_is_respected(snake, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    show(snake, token="it", console=Console(file=file, force_terminal=True, highlight=False))
    assert not re.search(r"\x1b\[[0-9;]*[34]8;", file.getvalue())


def test_markup_is_text(handmade):
    trace = handmade("[bold]x[/bold] <script> :smile:")
    text = printed(trace, token="<script>", head="L1H1")
    assert "[bold]x[/bold] <script> :smile:" in text


def test_the_first_token_of_a_decoder_looks_at_itself_alone(handmade):
    trace = handmade("a b c", mask=Causal(), kind="decoder")
    text = printed(trace, token="a", head="L0H0")
    assert re.search(r"^  a +1\.000", text, re.MULTILINE)
    assert len(re.findall(r"^  \w  +\d\.\d{3} +█", text, re.MULTILINE)) == 1


def test_narrow_terminals_wrap_and_lose_nothing(snake):
    text = printed(snake, width=40, token="it")
    assert all(token.text in text for token in snake.tokens)


def test_a_bar_is_as_long_as_its_weight():
    assert bar(1.0) == "█" * 32
    assert bar(0.5) == "█" * 16
    assert bar(1 / 256) == "▏"
    assert bar(0.0) == ""


def test_without_a_choice_the_most_telling_is_shown(snake):
    focus = focus_on(snake)
    assert f"{focus.token.text} looks, in {focus.head.name}, at" in printed(snake)


@pytest.mark.parametrize(("n_heads", "width"), [(32, 80), (12, 40), (101, 40)])
def test_every_head_is_in_the_grid_however_narrow_the_terminal(handmade, n_heads, width):
    text = printed(handmade("a b c", n_layers=2, n_heads=n_heads), width=width, token="b", head=f"L1H{n_heads - 1}")
    grid = text[text.index("every head:") : text.index("  ·· to 0.2")]
    assert re.findall(r"H\d+", grid) == [f"H{head}" for head in range(n_heads)]
    assert len(re.findall(r"([·░▒▓█])\1", grid)) == 2 * n_heads
    assert len(re.findall(r"\[([·░▒▓█])\1\]", grid)) == 1
    assert "…" not in grid


def test_which_of_several_is_said_in_the_title_and_in_every_list(handmade):
    text = printed(handmade("it is it"), token="it:2", head="L0H0")
    assert "it looks, in L0H0, at   ('it' occurs twice; this is it:2)" in text
    text = printed(handmade("it was it and it"), token="it:2", head="L0H0")
    listed = re.findall(r"^  (\S+) +\d\.\d{3}", text, re.MULTILINE)
    assert sorted(listed) == ["and", "it:1", "it:2", "it:3", "was"]
    assert "heads in which it:2 looks most sharply at another word" in text
    names = {name for _, name in re.findall(r"^  (L\dH\d)  (\S+) ", text, re.MULTILINE)}
    assert names <= {"it:1", "it:3", "was", "and"}


def test_where_no_other_word_is_looked_at_it_is_said_and_nothing_is_listed(handmade):
    text = printed(handmade("a b c", mask=Causal(), kind="decoder"), token="a")
    assert text.endswith(f"\na looks at no other word in any head.\n\n{CAUTION}\n")
    assert "heads in which" not in text
    assert "every head" not in text


def test_the_target_s_side_is_explained(encoder_decoder, handmade):
    said = "A query is a token just read; its weights help to predict the token after it."
    for kind in ("encoder", "decoder"):
        assert (said in printed(encoder_decoder, head=f"{kind} L0H0")) == (kind == "decoder")
    assert said not in printed(handmade("x y", mask=Causal(), kind="decoder"), head="L0H0")


def test_layers_of_different_numbers_of_heads(uneven):
    lines = printed(uneven, head="L4H3").splitlines()
    assert lines[0] == "handmade · 2 layers of 2 to 4 heads · 3 tokens"
    assert [line.split()[0] for line in lines[-5:-3]] == ["L1", "L4"]
    assert "[" in lines[-4]
    assert [line.strip() for line in lines[-3:]] == ["·· to 0.2  ░░ to 0.4  ▒▒ to 0.6  ▓▓ to 0.8  ██ to 1", "", CAUTION]


def test_the_tokens_are_those_of_the_kind(translated):
    for head, tokens in (("encoder", "5 tokens"), ("decoder", "6 tokens"), ("cross", "6 target and 5 source tokens")):
        assert printed(translated, head=f"{head} L0H0").splitlines()[0].endswith(f" heads · {tokens}")


def test_control_characters_are_seen_and_do_nothing(handmade):
    text = printed(handmade("a \x1b[31mred \x1b[31mred b\x07"), token="\x1b[31mred:2", head="L0H0")
    assert "a ‹1B›[31mred ‹1B›[31mred b‹07›" in text
    assert "‹1B›[31mred:2)" in text
    assert not set(text) & set(map(chr, (*range(10), *range(11, 32))))
    assert printed(replace(handmade("a b"), model="\x1b[2J")).startswith("‹1B›[2J · 2 layers")
