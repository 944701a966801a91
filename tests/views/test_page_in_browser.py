"""The page in a real browser: what a reader sees, hovers over and presses."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

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
"""How many pixels of a cell, counted from the last one, are more like its middle than its corner: its circle."""
ROOM_FOR_LARGE_CELLS = {"width": 1100, "height": 1300}


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """opened(trace, token="it", head="L3H1") is the trace's page in the browser.

    In the end there must have been no message in the console, no dialog, and no request but for the page's own file.
    """
    pages, complaints, requests = [], [], []

    def open_page(trace: Trace, width: int = 1280, height: int = 900, dark: bool = False, **focus: Any) -> Page:
        path = write_page(trace, tmp_path / f"page{len(pages)}.html", **focus)
        scheme = "dark" if dark else "light"
        shown = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        shown.on("console", lambda message: complaints.append(message.text))
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        shown.on("request", lambda request: requests.append(request.url))
        shown.goto(path.as_uri())
        pages.append((shown, path.as_uri()))
        expect(shown.locator("#top li")).not_to_have_count(0)
        return shown

    yield open_page
    for shown, _ in pages:
        shown.close()
    assert complaints == []
    assert requests == [uri for _, uri in pages]


def query(page: Page, text: str) -> Any:
    return page.locator("#queries li").filter(has=page.get_by_text(text, exact=True)).first


def key(page: Page, text: str) -> Any:
    return page.locator("#keys li").filter(has=page.get_by_text(text, exact=True)).first


def weight(trace: Trace, head: str, looking: str, seen: str) -> str:
    return f"{trace[head][looking, seen]:.4f}"


def strokes(page: Page, of: str) -> int:
    """How many pixels of a canvas are drawn on."""
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


def test_hovering_it_reads_snake(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="The", head="L3H1")
    expect(page.locator("#lines-title")).to_have_text("L3H1 · The")
    query(page, "it").hover()
    expect(page.locator("#lines-title")).to_have_text("L3H1 · it")
    expect(key(page, "snake").locator("b")).to_have_text("0.6741")
    for token in snake.tokens:
        expect(key(page, token.text).locator("b")).to_have_text(weight(snake, "L3H1", "it", token.text))
    expect(page.locator("#top li").first).to_have_text("snake0.6741")


def test_the_header_says_what_was_read_by_what(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake)
    expect(page.locator("h1")).to_have_text("The snake is very dangerous because it has a venom.")
    expect(page.locator("#facts")).to_have_text("MiniLM · 6 layers × 12 heads · 13 tokens")
    expect(page.locator("#precision")).to_have_text("Weights to four decimals.")


def test_a_click_keeps_a_token_and_escape_lets_it_go(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="The", head="L3H1")
    query(page, "it").click()
    expect(page.locator("#lock")).to_have_text("it ✕")
    query(page, "has").hover()
    expect(page.locator("#lines-title")).to_have_text("L3H1 · it")
    page.keyboard.press("Escape")
    expect(page.locator("#lock")).to_be_hidden()
    query(page, "very").hover()
    expect(page.locator("#lines-title")).to_have_text("L3H1 · very")


def test_the_chip_lets_a_kept_token_go(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L3H1")
    query(page, "it").click()
    page.get_by_role("button", name="let go of “it”").click()
    expect(page.locator("#lock")).to_be_hidden()


def test_only_the_token_s_own_lines_are_drawn(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L3H1")
    own = strokes(page, "#strings")
    page.locator("#all").click()
    expect(page.locator("#lines-title")).to_have_text("L3H1 · every token")
    assert strokes(page, "#strings") > own > 0


def test_the_map_has_every_head_and_chooses_one(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L0H0")
    cells = page.locator("#map button")
    expect(cells).to_have_count(72)
    chosen = page.get_by_role("button", name="L3H1: it → snake 0.6741")
    chosen.click()
    expect(page.locator("#lines-title")).to_have_text("L3H1 · it")
    expect(chosen).to_have_attribute("aria-current", "true")
    expect(page.locator("#map button[aria-current=true]")).to_have_count(1)


def test_the_map_shows_whole_patterns(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake)
    page.locator("#map-pattern").click()
    expect(page.locator("#map button canvas")).to_have_count(72)
    page.locator("#map-token").click()
    expect(page.locator("#map button canvas")).to_have_count(0)


def test_arrows_and_selects_change_layer_and_head(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L3H1")
    title = page.locator("#lines-title")
    for pressed, head in (("ArrowRight", "L3H2"), ("ArrowDown", "L4H2"), ("ArrowLeft", "L4H1"), ("ArrowUp", "L3H1")):
        page.keyboard.press(pressed)
        expect(title).to_have_text(f"{head} · it")
    page.get_by_label("Layer", exact=True).select_option("5")
    page.get_by_label("Head", exact=True).select_option("11")
    expect(title).to_have_text("L5H11 · it")
    expect(key(page, "snake").locator("b")).to_have_text(weight(snake, "L5H11", "it", "snake"))
    page.locator("h1").click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text("L5H11 · it")


def test_arrows_walk_through_the_tokens_and_enter_keeps_one(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L3H1")
    page.locator("#queries").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#lines-title")).to_have_text("L3H1 · has")
    expect(page.locator("#queries [aria-selected=true]")).to_have_text("has")
    page.keyboard.press("Enter")
    expect(page.locator("#lock")).to_have_text("has ✕")


def test_everything_that_acts_has_a_name_and_can_be_reached_by_tab(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake)
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


@pytest.mark.parametrize("turned", [False, True])
def test_a_cell_of_the_grid_can_be_read_either_way_round(
    opened: Callable[..., Page], snake: Trace, turned: bool
) -> None:
    page = opened(snake, token="The", head="L3H1", **ROOM_FOR_LARGE_CELLS)
    if turned:
        page.locator("#columns").click()
        expect(page.locator("#columns")).to_have_attribute("aria-pressed", "true")
    point_at_cell(page, 7, 2, turned)
    expect(page.locator("#readout")).to_have_text("it → snake 0.6741")
    expect(page.locator("#tip")).to_have_text("it → snake 0.6741")


def test_the_area_of_a_circle_is_the_weight(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="The", head="L3H1", **ROOM_FOR_LARGE_CELLS)
    page.locator("#circles").click()
    expect(page.locator("#high")).to_have_text("the area of a circle is the weight; a full one is 1")
    full = math.pi * ((LARGEST_CELL - 1.5) / 2) ** 2
    for seen in ("[CLS]", "The", "snake"):
        place = [token.text for token in snake.tokens].index(seen)
        area = page.locator("#cells").evaluate(CIRCLE_AREA, [13 - place, 13 - 7, LARGEST_CELL])
        assert area == pytest.approx(full * snake["L3H1"]["it", seen], rel=0.08)


def test_special_tokens_can_be_hidden_without_changing_a_weight(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L3H1")
    expect(page.locator("#keys li")).to_have_count(13)
    page.get_by_label("hide special tokens").check()
    expect(page.locator("#keys li")).to_have_count(11)
    expect(page.locator("#queries li")).to_have_count(11)
    expect(key(page, "snake").locator("b")).to_have_text("0.6741")
    expect(page.locator("#lines-caption")).to_have_text(
        "hover a token, click to keep it · hidden tokens keep their weights"
    )


def test_colours_relative_to_a_token_fill_the_bar_of_its_largest(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L3H1")
    bar = key(page, "snake").locator("i")
    assert bar.evaluate("bar => bar.style.width") == "67.41%"
    page.get_by_label("Colour scale").select_option("row")
    expect(page.locator("#high")).to_have_text("each token’s largest weight")
    assert bar.evaluate("bar => bar.style.width") == "100%"


def test_what_is_masked_is_told_from_what_is_0(opened: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = opened(handmade("a b c d e", mask=Causal(), kind="decoder"), token="b", head="L0H1", **ROOM_FOR_LARGE_CELLS)
    assert page.locator("#keys li b").all_inner_texts()[2:] == ["masked"] * 3
    expect(page.locator("#masked-legend")).to_be_visible()
    point_at_cell(page, 1, 3)
    expect(page.locator("#readout")).to_have_text("b → d masked")


def test_without_a_mask_the_legend_speaks_of_none(opened: Callable[..., Page], snake: Trace) -> None:
    expect(opened(snake).locator("#masked-legend")).to_be_hidden()


def test_the_text_can_hold_markup(opened: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    text = "A <script>alert(1)</script> </script> <img/src=x/onerror=alert(2)> &amp;"
    page = opened(handmade(text), token=1)
    expect(page.locator("h1")).to_have_text(text)
    assert page.locator("#queries li").all_inner_texts() == text.split()
    assert page.locator("img").count() == 0


def test_a_translation_chooses_its_kind_of_attention(
    opened: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    source, target = (
        handmade("the cat sat", kind="encoder"),
        handmade("le chat est assis", kind="decoder", mask=Causal()),
    )
    both = Trace(
        model="toy",
        text="the cat sat",
        target_text="le chat est assis",
        source=source.source,
        target=target.target,
        attended={**source.attended, **target.attended},
    )
    page = opened(both, token="chat", head="decoder L1H2")
    expect(page.locator("#target")).to_have_text("le chat est assis")
    expect(page.locator("#note")).to_have_text(
        "The piece that looks has just been read; what it looks at writes the next."
    )
    expect(page.locator("#masked-legend")).to_be_visible()
    expect(page.locator("#facts")).to_have_text("toy · 2 layers × 3 heads · 3 source and 4 target tokens")
    page.get_by_label("Attention").select_option("encoder")
    expect(page.locator("#lines-title")).to_have_text("L1H2 · every token")
    expect(page.locator("#note")).to_be_hidden()
    assert page.locator("#queries li").all_inner_texts() == ["the", "cat", "sat"]
    query(page, "cat").hover()
    expect(key(page, "sat").locator("b")).to_have_text(f"{both['encoder L1H2']['cat', 'sat']:.4f}")


def test_the_header_counts_the_layers_and_heads_of_the_kind(opened: Callable[..., Page], translated: Trace) -> None:
    page = opened(translated, head="encoder L0H0")
    expect(page.locator("#facts")).to_have_text("toy · 1 layer × 3 heads · 5 source and 6 target tokens")
    page.get_by_label("Attention").select_option("cross")
    expect(page.locator("#facts")).to_have_text("toy · 2 layers × 3 heads · 5 source and 6 target tokens")


def test_layers_of_different_numbers_of_heads(opened: Callable[..., Page], uneven: Trace) -> None:
    page = opened(uneven, head="L4H3")
    expect(page.locator("#facts")).to_have_text("handmade · 2 layers of 2 to 4 heads · 3 tokens")
    page.get_by_label("Layer", exact=True).select_option("1")
    expect(page.locator("#lines-title")).to_contain_text("L1H1")


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_window_needs_no_sideways_scrolling(opened: Callable[..., Page], snake: Trace, dark: bool) -> None:
    page = opened(snake, width=400, dark=dark)
    page.locator("#map-pattern").click()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 400


def test_dark_is_dark(opened: Callable[..., Page], snake: Trace) -> None:
    lightness = "() => parseFloat(getComputedStyle(document.body).backgroundColor.split('(')[1])"
    assert opened(snake, dark=True).evaluate(lightness) < 0.3
    assert opened(snake, dark=False).evaluate(lightness) > 0.9


def test_a_long_text_is_drawn_on_canvases_no_larger_than_the_window(
    opened: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    page = opened(handmade(" ".join(f"word{n}" for n in range(401)), n_layers=1), token="word7", head="L0H1")
    assert page.evaluate("() => document.querySelectorAll('*').length") < 10 * 401
    sizes = page.evaluate("() => [...document.querySelectorAll('canvas')].map((one) => [one.width, one.height])")
    assert all(width <= 1280 and height <= 900 for width, height in sizes)
    expect(page.get_by_label("Colour scale")).to_have_value("row")
    page.locator("#larger").click()
    expect(page.locator("#fit")).to_have_attribute("aria-pressed", "false")


def test_numbers_that_were_rounded_more_are_marked(
    opened: Callable[..., Page], handmade: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "PAGE_BYTES", 0)
    trace = handmade(" ".join("abcdefghijklmnopqrstuvw"), n_layers=1)
    page = opened(trace, token="b", head="L0H1")
    expect(page.locator("#precision")).to_have_text(
        "Weights of 0.01 and more to four decimals; smaller ones, marked ≈, to the nearest 0.005, "
        "so that all heads of so long a text fit into one page."
    )
    row = trace["L0H1"]["b"]
    for shown, exact in zip(page.locator("#keys li b").all_inner_texts(), row.tolist(), strict=True):
        assert shown.startswith("≈") == (exact <= 0.01)
        assert abs(float(shown.removeprefix("≈")) - exact) <= (0.0025 if exact < 0.01 else 0.00005)


@pytest.mark.parametrize("width", [1186, 1200, 1680, 900])
@pytest.mark.parametrize("text", [None, "a internationalization Donaudampfschifffahrtsgesellschaft b c"])
def test_bars_start_after_the_widest_word(
    opened: Callable[..., Page], snake: Trace, handmade: Callable[..., Trace], width: int, text: str | None
) -> None:
    page = opened(handmade(text) if text else snake, width=width, token="a", head="L1H1")
    ends = "items => items.map((item) => Array.from(item.children, (part) => part.getBoundingClientRect()))"
    rows = page.locator("#keys li").evaluate_all(ends)
    assert max(word["right"] for word, _, _ in rows) <= min(line["left"] for _, line, _ in rows)
    assert max(line["right"] for _, line, _ in rows) <= min(figure["left"] for _, _, figure in rows)
    cut = "items => items.map((item) => item.firstChild.scrollWidth > item.firstChild.clientWidth + 1)"
    assert not any(page.locator("#keys li").evaluate_all(cut)) or text
    assert min(word["width"] for word, _, _ in rows[1:3]) > 70 or not text
    assert page.locator("#lines").evaluate("box => box.scrollWidth <= box.clientWidth")
    assert not any(page.locator("#queries [aria-selected=true]").evaluate_all(cut))
    assert not any(
        page.locator("#top span:last-child").evaluate_all("all => all.map((one) => one.scrollWidth > one.clientWidth)")
    )


def test_one_of_several_is_called_by_its_number(opened: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = opened(handmade("it was it"), token="it:2", head="L0H1")
    expect(page.locator("#lines-title")).to_have_text("L0H1 · it:2")
    listed = page.locator("#top li span:first-of-type").all_inner_texts()
    assert sorted(listed) == ["it:1", "it:2", "was"]
    assert page.locator("#queries li").all_inner_texts() == ["it", "was", "it"]
    page.locator("#all").click()
    expect(page.locator("#top-title")).to_have_text("The strongest looks in L0H1")
    assert "it:1 → it:2" in page.locator("#top li span:first-of-type").all_inner_texts()


def test_arrows_change_the_head_with_the_box_in_focus_too(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="it", head="L3H1")
    page.get_by_label("hide special tokens").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#lines-title")).to_have_text("L3H2 · it")


def test_the_tip_follows_the_head_that_is_shown(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake, token="The", head="L3H1", **ROOM_FOR_LARGE_CELLS)
    point_at_cell(page, 7, 2)
    expect(page.locator("#tip")).to_have_text("it → snake 0.6741")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tip")).to_have_text(f"it → snake {weight(snake, 'L3H2', 'it', 'snake')}")
    page.mouse.move(0, 0)
    expect(page.locator("#tip")).to_be_hidden()


def test_words_from_right_to_left_do_not_turn_the_arrow(
    opened: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    page = opened(handmade("שלום עולם x"), token="שלום", head="L0H1", **ROOM_FOR_LARGE_CELLS)
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


def test_one_side_with_added_tokens_is_enough_for_both(opened: Callable[..., Page], translated: Trace) -> None:
    first, *others = translated.target
    page = opened(replace(translated, target=(replace(first, special=True), *others)))
    page.get_by_label("hide special tokens").check()
    page.locator("#kind").select_option("encoder")
    expect(page.locator("#queries li")).to_have_count(len(translated.source))


def test_a_printed_page_keeps_its_colours(opened: Callable[..., Page], snake: Trace) -> None:
    page = opened(snake)
    page.emulate_media(media="print")
    shade = page.locator("#map button").first
    assert shade.evaluate("(button) => getComputedStyle(button).printColorAdjust") == "exact"
