"""The terminal view: what it says is what the pattern says, with and without colour."""

import io
import re

from rich.console import Console

from regard import Causal
from regard.tracing.focus import focus_on, sharpest
from regard.views.terminal import bar, shade, show, tint


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


def test_every_number_is_the_patterns(snake):
    text = printed(snake, token="because", head="L2H8")
    row = snake.encoder[2].dense()[0, 8, 6]
    for weight, key in zip(*row.topk(6), strict=True):
        assert re.search(rf"^  {re.escape(snake.tokens[key].text)} +{weight:.3f}", text, re.MULTILINE)


def test_the_grid_has_a_cell_for_every_head_and_marks_the_chosen_one(snake):
    rows = re.findall(r"^  L(\d) ( .*|\[.*)$", printed(snake, token="it", head="L3H1"), re.MULTILINE)
    assert [int(layer) for layer, _ in rows] == list(range(6))
    weights = {(head.layer, head.head): weight for head, _, weight in sharpest(snake.heads(), 7)}
    for layer, row in rows:
        cells = [row.ljust(48)[4 * head : 4 * head + 4] for head in range(12)]
        assert [cell[1] for cell in cells] == [shade(weights[int(layer), head]) for head in range(12)]
    assert [cell for _, row in rows for cell in re.findall(r"\[..\]", row)] == ["[▓▓]"]


def test_plain_output_has_no_colour(snake):
    assert "\x1b" not in printed(snake, token="it")


def test_tokens_are_coloured_by_weight_on_a_terminal(snake):
    text = printed(snake, token="it", head="L3H1", colour=True)
    colour = tint(float(snake["L3H1"]["it", "snake"])).bgcolor.triplet
    assert f"48;2;{colour.red};{colour.green};{colour.blue}msnake" in text


def test_no_color_is_respected(snake, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    show(snake, token="it", console=Console(file=file, force_terminal=True, highlight=False))
    assert not re.search(r"\x1b\[[0-9;]*[34]8;", file.getvalue())


def test_which_of_several_is_said(handmade):
    trace = handmade("it is it")
    assert "it looks, in L0H0, at   ('it' occurs twice; this is it:2)" in printed(trace, token="it:2", head="L0H0")


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
