"""The page of an Arabic text in a browser: words, cut labels and lists of words with numbers in their order."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, expect

from regard import Causal, Trace
from regard.tracing.generation import WrittenToken

TEXT = "المستشفيات الأفعى خطيرة"

RECORD_LABELS = """() => {
    window.drawn = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        drawn.push(text);
        draw.call(this, text, ...place);
    };
}"""


def test_a_cut_label_has_its_dots_at_the_left(
    opened: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    words = f"{'م' * 40} {'m' * 40}"
    page = opened(handmade(words).html(tmp_path / "page.html"))
    expect(page.locator(".arcs .word")).to_have_count(2)
    page.evaluate(RECORD_LABELS)
    page.locator("[data-view=pattern]").get_by_role("button", name="circles").click()
    page.wait_for_function("drawn.length >= 4")
    cut = {text for text in page.evaluate("drawn") if "…" in text}
    assert {text[0] + text[-2:] for text in cut} == {"\u2068…\u2069", "mm…"}


def test_what_a_model_wrote_runs_from_the_right_with_its_numbers_beside_their_words(
    opened: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    trace = handmade(TEXT, mask=Causal(), kind="decoder")
    tokens = trace.target
    alternatives = (("الأفعى", 0.5), ("خطيرة", 0.25), ("a", 0.125))
    written = tuple(WrittenToken(place, tokens[place], 0.5, alternatives) for place in (1, 2))
    page = opened(replace(trace, written=written).html(tmp_path / "page.html"))
    view = page.locator("[data-view=generation]")
    first, second = (view.locator(".word").nth(place).bounding_box() for place in (0, 1))
    assert first["x"] > second["x"]
    view.locator(".numbers summary").click()
    expect(view.locator(".numbers tbody tr").first.locator("td").last).to_have_text(
        "\u2068الأفعى\u2069 0.5000, \u2068خطيرة\u2069 0.2500, a 0.1250"
    )
    assert page.locator("h1").evaluate("title => getComputedStyle(title).direction") == "rtl"
