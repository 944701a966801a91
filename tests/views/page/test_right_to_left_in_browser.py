"""Pages of Hebrew and Arabic texts in a browser: the order of words and numbers, and where long labels are cut."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from page_views import table, view
from playwright.sync_api import Page, expect

from regard import Causal, Trace
from regard.tracing.generation import WrittenToken

RECORD_LABELS = """() => {
    window.drawn = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        drawn.push(text);
        draw.call(this, text, ...place);
    };
}"""
LEFT = "words => words.map(word => word.getBoundingClientRect().left)"
PLACES = """line => {
    const [text, range] = [line.firstChild, document.createRange()];
    return ["ש", "→", "ע", "."].map((letter) => {
        const place = text.data.indexOf(letter);
        range.setStart(text, place);
        range.setEnd(text, place + 1);
        return range.getBoundingClientRect().left;
    });
}"""


def test_words_run_from_right_to_left_and_the_arrow_between_two_words_does_not(
    opened: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    for text, is_reversed in (("peace שלום world", False), ("שלום עולם x", True)):
        page = opened(handmade(text).html(tmp_path / "page.html", token="שלום", head="L0H1"))
        expect(view(page, "sentence").locator(".word bdi")).to_have_text(text.split())
        places = view(page, "sentence").locator(".word").evaluate_all(LEFT)
        assert places == sorted(places, reverse=is_reversed)
    canvas, readout = view(page, "pattern").locator("canvas"), view(page, "pattern").locator(".readout")
    box = canvas.bounding_box()
    assert box
    canvas.hover(position={"x": box["width"] - 66, "y": box["height"] - 110})  # row 0, column 1
    expect(readout).to_contain_text("\u2068שלום\u2069 → \u2068עולם\u2069")
    places = readout.locator("span").evaluate(PLACES)
    assert places == sorted(places)


def test_a_cut_label_has_its_dots_at_the_left(
    opened: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    words = f"{'م' * 40} {'m' * 40}"
    page = opened(handmade(words).html(tmp_path / "page.html"))
    expect(page.locator(".arcs .word")).to_have_count(2)
    page.evaluate(RECORD_LABELS)
    view(page, "pattern").get_by_role("button", name="circles").click()
    page.wait_for_function("() => drawn.length >= 4")
    cut = {text for text in page.evaluate("drawn") if "…" in text}
    assert {text[0] + text[-2:] for text in cut} == {"\u2068…\u2069", "mm…"}


def test_what_a_model_wrote_runs_from_the_right_with_its_numbers_beside_their_words(
    opened: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    trace = handmade("المستشفيات الأفعى خطيرة", mask=Causal(), kind="decoder")
    alternatives = (("الأفعى", 0.5), ("خطيرة", 0.25), ("a", 0.125))
    written = tuple(WrittenToken(place, trace.target[place], 0.5, alternatives) for place in (1, 2))
    page = opened(replace(trace, written=written).html(tmp_path / "page.html"))
    first, second = (view(page, "generation").locator(".word").nth(place).bounding_box() for place in (0, 1))
    assert first["x"] > second["x"]
    assert table(page, "generation")[0][-1] == "\u2068الأفعى\u2069 0.5000, \u2068خطيرة\u2069 0.2500, a 0.1250"
    assert page.locator("h1").evaluate("title => getComputedStyle(title).direction") == "rtl"
