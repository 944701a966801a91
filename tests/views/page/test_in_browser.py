"""The page in a real browser: its text, its drawings, and its response to pointer and keyboard."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from regard import Causal, Trace
from regard.views.page import weights as embedding
from regard.views.page import write_page

LARGEST_CELL = 44
CIRCLE_AREA = """(canvas, [beyond, below, size]) => {
    const copy = new OffscreenCanvas(size, size).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, beyond * size - canvas.width, below * size - canvas.height);
    const data = copy.getImageData(0, 0, size, size).data;
    const red = Array.from({ length: size * size }, (_, i) => data[4 * i + 3] ? data[4 * i] : 255); // 255 between cells
    const inside = red[(size / 2) * size + size / 2];
    const halfway = (inside + red[5 * size + 5]) / 2;
    return red.filter((value) => value < halfway).length;
}"""
"""Count the pixels of a cell's circle: pixels closer in colour to the cell's middle than to its corner."""
ROOM_FOR_LARGE_CELLS = {"width": 1100, "height": 1300}


@pytest.fixture
def shown(opened: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """shown(trace, token="it", head="L3H1", width=400) is the trace's page in the browser."""

    def show(trace: Trace, token: Any = None, head: str | None = None, **window: Any) -> Page:
        page = opened(write_page(trace, tmp_path / "page.html", token=token, head=head), **window)
        expect(page.locator("#top li")).not_to_have_count(0)
        return page

    return show


def query(page: Page, text: str) -> Any:
    return page.locator("#queries li").filter(has=page.get_by_text(text, exact=True)).first


def key(page: Page, text: str) -> Any:
    return page.locator("#keys li").filter(has=page.get_by_text(text, exact=True)).first


def weight(trace: Trace, head: str, looking: str, seen: str) -> str:
    return f"{trace[head][looking, seen]:.4f}"


def strokes(page: Page, of: str) -> int:
    """The number of pixels of a canvas that are drawn on."""
    script = """canvas => {
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const data = copy.getImageData(0, 0, canvas.width, canvas.height).data;
        return data.filter((value, place) => place % 4 === 3 && value > 0).length;
    }"""
    return page.locator(of).evaluate(script)


def point_at_cell(page: Page, looking: int, seen: int, turned: bool = False) -> None:
    """Move the pointer to a cell, in a window where cells are as large as they get and the last one ends the canvas."""
    page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    n_queries, n_keys = page.locator("#queries li").count(), page.locator("#keys li").count()
    below, beyond = (n_keys - seen, n_queries - looking) if turned else (n_queries - looking, n_keys - seen)
    canvas = page.locator("#cells").bounding_box()
    assert canvas
    right, bottom = canvas["x"] + canvas["width"], canvas["y"] + canvas["height"]
    page.mouse.move(right - (beyond - 0.5) * LARGEST_CELL, bottom - (below - 0.5) * LARGEST_CELL)


def title(page: Page) -> Any:
    return page.locator("#lines-title")


def test_a_token_is_hovered_kept_and_let_go(shown: Callable[..., Page], snake: Trace) -> None:
    page = shown(snake, token="The", head="L3H1")
    expect(page.locator("h1")).to_have_text("The snake is very dangerous because it has a venom.")
    expect(page.locator("#facts")).to_have_text("MiniLM · 6 layers × 12 heads · 13 tokens")
    expect(page.locator("#precision")).to_have_text("Weights to four decimals.")
    expect(page.locator("#masked-legend")).to_be_hidden()
    expect(title(page)).to_have_text("L3H1 · The")
    query(page, "it").hover()
    expect(title(page)).to_have_text("L3H1 · it")
    expect(key(page, "snake").locator("b")).to_have_text("0.6741")
    weights = [weight(snake, "L3H1", "it", token.text) for token in snake.tokens]
    assert page.locator("#keys li b").all_inner_texts() == weights
    expect(page.locator("#top li").first).to_have_text("snake0.6741")
    query(page, "it").click()
    expect(page.locator("#lock")).to_have_text("it ✕")
    query(page, "has").hover()
    expect(title(page)).to_have_text("L3H1 · it")
    page.keyboard.press("Escape")
    expect(page.locator("#lock")).to_be_hidden()
    query(page, "very").hover()
    expect(title(page)).to_have_text("L3H1 · very")
    query(page, "it").click()
    page.get_by_role("button", name="let go of “it”").click()
    expect(page.locator("#lock")).to_be_hidden()


def test_the_options_change_what_is_drawn_and_no_weight(shown: Callable[..., Page], snake: Trace) -> None:
    page = shown(snake, token="it", head="L3H1")
    bar = key(page, "snake").locator("i")
    assert bar.evaluate("bar => bar.style.width") == "67.41%"
    page.get_by_label("Colour scale").select_option("row")
    expect(page.locator("#high")).to_have_text("each token’s largest weight")
    assert bar.evaluate("bar => bar.style.width") == "100%"
    expect(page.locator("#keys li")).to_have_count(13)
    page.get_by_label("hide special tokens").check()
    expect(page.locator("#keys li")).to_have_count(11)
    expect(page.locator("#queries li")).to_have_count(11)
    expect(key(page, "snake").locator("b")).to_have_text("0.6741")
    expect(page.locator("#lines-caption")).to_have_text(
        "hover a token, click to keep it · hidden tokens keep their weights"
    )
    page.keyboard.press("ArrowRight")
    expect(title(page)).to_have_text("L3H2 · it")
    of_one_token = strokes(page, "#strings")
    page.locator("#all").click()
    expect(title(page)).to_have_text("L3H2 · every token")
    assert strokes(page, "#strings") > of_one_token > 0


def test_the_map_has_every_head_and_chooses_one(shown: Callable[..., Page], snake: Trace) -> None:
    page = shown(snake, token="it", head="L0H0")
    expect(page.locator("#map button")).to_have_count(72)
    chosen = page.get_by_role("button", name="L3H1: it → snake 0.6741")
    chosen.click()
    expect(title(page)).to_have_text("L3H1 · it")
    expect(chosen).to_have_attribute("aria-current", "true")
    expect(page.locator("#map button[aria-current=true]")).to_have_count(1)
    page.locator("#map-pattern").click()
    expect(page.locator("#map button canvas")).to_have_count(72)
    page.locator("#map-token").click()
    expect(page.locator("#map button canvas")).to_have_count(0)


def test_keys_and_selects_change_layer_head_and_token(shown: Callable[..., Page], snake: Trace) -> None:
    page = shown(snake, token="it", head="L3H1")
    for pressed, head in (("ArrowRight", "L3H2"), ("ArrowDown", "L4H2"), ("ArrowLeft", "L4H1"), ("ArrowUp", "L3H1")):
        page.keyboard.press(pressed)
        expect(title(page)).to_have_text(f"{head} · it")
    page.locator("#queries").focus()
    page.keyboard.press("ArrowDown")
    expect(title(page)).to_have_text("L3H1 · has")
    expect(page.locator("#queries [aria-selected=true]")).to_have_text("has")
    page.keyboard.press("Enter")
    expect(page.locator("#lock")).to_have_text("has ✕")
    page.get_by_label("Layer", exact=True).select_option("5")
    page.get_by_label("Head", exact=True).select_option("11")
    expect(title(page)).to_have_text("L5H11 · has")
    expect(key(page, "snake").locator("b")).to_have_text(weight(snake, "L5H11", "has", "snake"))
    page.locator("h1").click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(title(page)).to_have_text("L5H11 · has")


def test_every_control_has_a_name_and_can_be_reached_by_tab(shown: Callable[..., Page], snake: Trace) -> None:
    page = shown(snake)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input")].filter(
            (one) => one.checkVisibility() && !one.ariaLabel && !one.textContent.trim() && !one.labels?.length
        ).length"""
    )
    assert unnamed == 0
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.closest('[id]')?.id"))
    wanted = {"layer", "head", "scale", "hide", "map", "map-token", "map-pattern", "all", "queries", "heat", "circles"}
    assert wanted | {"rows", "columns", "smaller", "fit", "larger", "grid"} <= reached


def test_a_cell_of_the_grid_is_read_either_way_round_and_its_circle_is_its_weight(
    shown: Callable[..., Page], snake: Trace
) -> None:
    page = shown(snake, token="The", head="L3H1", **ROOM_FOR_LARGE_CELLS)
    point_at_cell(page, 7, 2)
    expect(page.locator("#readout")).to_have_text("it → snake 0.6741")
    expect(page.locator("#tip")).to_have_text("it → snake 0.6741")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tip")).to_have_text(f"it → snake {weight(snake, 'L3H2', 'it', 'snake')}")
    page.keyboard.press("ArrowLeft")
    page.mouse.move(0, 0)
    expect(page.locator("#tip")).to_be_hidden()
    page.locator("#circles").click()
    expect(page.locator("#high")).to_have_text("the area of a circle is the weight; a full one is 1")
    full = math.pi * ((LARGEST_CELL - 1.5) / 2) ** 2
    for position, token in enumerate(["[CLS]", "The", "snake"]):
        area = page.locator("#cells").evaluate(CIRCLE_AREA, [13 - position, 13 - 7, LARGEST_CELL])
        assert area == pytest.approx(full * snake["L3H1"]["it", token], rel=0.08)
    page.locator("#columns").click()
    expect(page.locator("#columns")).to_have_attribute("aria-pressed", "true")
    point_at_cell(page, 7, 2, turned=True)
    expect(page.locator("#readout")).to_have_text("it → snake 0.6741")


def test_a_masked_weight_is_told_from_0(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade("a b c d e", mask=Causal(), kind="decoder"), token="b", head="L0H1", **ROOM_FOR_LARGE_CELLS)
    assert page.locator("#keys li b").all_inner_texts()[2:] == ["masked"] * 3
    expect(page.locator("#masked-legend")).to_be_visible()
    point_at_cell(page, 1, 3)
    expect(page.locator("#readout")).to_have_text("b → d masked")


def test_the_text_can_hold_markup(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    text = "A <script>alert(1)</script> </script> <img/src=x/onerror=alert(2)> &amp;"
    page = shown(handmade(text), token=1)
    expect(page.locator("h1")).to_have_text(text)
    assert page.locator("#queries li").all_inner_texts() == text.split()
    assert page.locator("img").count() == 0


def test_a_translation_chooses_its_kind_of_attention(shown: Callable[..., Page], translated: Trace) -> None:
    first, *others = translated.target
    page = shown(replace(translated, target=(replace(first, special=True), *others)), token="chat", head="L1H2")
    expect(page.locator("#target")).to_have_text("le chat est assis là !")
    expect(page.locator("#note")).to_have_text(
        "A query is the token just read; its weights help to predict the next token."
    )
    expect(page.locator("#facts")).to_have_text("toy · 2 layers × 3 heads · 5 source and 6 target tokens")
    expect(page.locator("#masked-legend")).to_be_hidden()
    page.get_by_label("Attention").select_option("decoder")
    expect(title(page)).to_have_text("L0H2 · chat")
    expect(page.locator("#masked-legend")).to_be_visible()
    page.get_by_label("Attention").select_option("encoder")
    expect(title(page)).to_have_text("L0H2 · every token")
    expect(page.locator("#facts")).to_have_text("toy · 1 layer × 3 heads · 5 source and 6 target tokens")
    expect(page.locator("#note")).to_be_hidden()
    page.get_by_label("hide special tokens").check()
    assert page.locator("#queries li").all_inner_texts() == ["the", "cat", "sat", "on", "it"]
    query(page, "cat").hover()
    expect(key(page, "sat").locator("b")).to_have_text(f"{translated['encoder L0H2']['cat', 'sat']:.4f}")


def test_layers_of_different_numbers_of_heads(shown: Callable[..., Page], uneven: Trace) -> None:
    page = shown(uneven, head="L4H3")
    expect(page.locator("#facts")).to_have_text("handmade · 2 layers of 2 to 4 heads · 3 tokens")
    page.get_by_label("Layer", exact=True).select_option("1")
    expect(title(page)).to_contain_text("L1H1")


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_a_narrow_window_by_day_by_night_and_in_print(
    shown: Callable[..., Page], snake: Trace, dark: bool
) -> None:
    page = shown(snake, width=400, dark=dark)
    page.locator("#map-pattern").click()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 400
    lightness = page.evaluate("() => parseFloat(getComputedStyle(document.body).backgroundColor.split('(')[1])")
    assert lightness < 0.3 if dark else lightness > 0.9
    page.emulate_media(media="print")
    cell = page.locator("#map button").first
    assert cell.evaluate("(button) => getComputedStyle(button).printColorAdjust") == "exact"


def test_a_long_text_is_drawn_on_canvases_no_larger_than_the_window(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    page = shown(handmade(" ".join(f"word{n}" for n in range(401)), n_layers=1), token="word7", head="L0H1")
    assert page.evaluate("() => document.querySelectorAll('*').length") < 10 * 401
    sizes = page.evaluate("() => [...document.querySelectorAll('canvas')].map((one) => [one.width, one.height])")
    assert all(width <= 1280 and height <= 900 for width, height in sizes)
    expect(page.get_by_label("Colour scale")).to_have_value("row")
    page.locator("#larger").click()
    expect(page.locator("#fit")).to_have_attribute("aria-pressed", "false")


def test_numbers_that_were_rounded_more_are_marked(
    shown: Callable[..., Page], handmade: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "PAGE_BYTES", 0)
    trace = handmade(" ".join("abcdefghijklmnopqrstuvw"), n_layers=1)
    page = shown(trace, token="b", head="L0H1")
    expect(page.locator("#precision")).to_have_text(
        "Weights of 0.01 and more to four decimals; smaller ones, marked ≈, to the nearest 0.005, "
        "so that all heads of so long a text fit into one page."
    )
    row = trace["L0H1"]["b"]
    for text, exact in zip(page.locator("#keys li b").all_inner_texts(), row.tolist(), strict=True):
        assert text.startswith("≈") == (exact <= 0.01)
        assert abs(float(text.removeprefix("≈")) - exact) <= (0.0025 if exact < 0.01 else 0.00005)


@pytest.mark.parametrize("text", [None, "a internationalization Donaudampfschifffahrtsgesellschaft b c"])
def test_bars_start_after_the_widest_word(
    shown: Callable[..., Page], snake: Trace, handmade: Callable[..., Trace], text: str | None
) -> None:
    page = shown(handmade(text) if text else snake, token="a", head="L1H1")
    ends = "items => items.map((item) => Array.from(item.children, (part) => part.getBoundingClientRect()))"
    cut = "items => items.map((item) => item.firstChild.scrollWidth > item.firstChild.clientWidth + 1)"
    for width in (1186, 1200, 1680, 900):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        rows = page.locator("#keys li").evaluate_all(ends)
        assert max(word["right"] for word, _, _ in rows) <= min(line["left"] for _, line, _ in rows)
        assert max(line["right"] for _, line, _ in rows) <= min(figure["left"] for _, _, figure in rows)
        assert not any(page.locator("#keys li").evaluate_all(cut)) or text
        assert min(word["width"] for word, _, _ in rows[1:3]) > 70 or not text
        assert page.locator("#lines").evaluate("box => box.scrollWidth <= box.clientWidth")
        assert not any(page.locator("#queries [aria-selected=true]").evaluate_all(cut))
        too_long = "all => all.map((one) => one.scrollWidth > one.clientWidth)"
        assert not any(page.locator("#top span:last-child").evaluate_all(too_long))


def test_one_of_several_is_called_by_its_number(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade("it was it"), token="it:2", head="L0H1")
    expect(title(page)).to_have_text("L0H1 · it:2")
    listed = page.locator("#top li span:first-of-type").all_inner_texts()
    assert sorted(listed) == ["it:1", "it:2", "was"]
    assert page.locator("#queries li").all_inner_texts() == ["it", "was", "it"]
    page.locator("#all").click()
    expect(page.locator("#top-title")).to_have_text("The strongest looks in L0H1")
    assert "it:1 → it:2" in page.locator("#top li span:first-of-type").all_inner_texts()


def test_words_from_right_to_left_do_not_turn_the_arrow(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    page = shown(handmade("שלום עולם x"), token="שלום", head="L0H1", **ROOM_FOR_LARGE_CELLS)
    point_at_cell(page, 0, 1)
    expect(page.locator("#readout")).to_contain_text("\u2068שלום\u2069 → \u2068עולם\u2069")
    places = page.locator("#readout").evaluate(
        """(line) => {
            const [text, range] = [line.firstChild, document.createRange()];
            return ["ש", "→", "ע", "."].map((letter) => {
                const place = text.data.indexOf(letter);
                range.setStart(text, place);
                range.setEnd(text, place + 1);
                return range.getBoundingClientRect().left;
            });
        }"""
    )
    assert places == sorted(places)
