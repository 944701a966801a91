"""The page of a comparison in a browser: the numbers of both traces are Python's, on one scale."""

import html
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from axe import violations
from playwright.sync_api import Locator, Page, expect

import regard
from regard.tracing.comparison import Comparison
from regard.tracing.model_loading import LoadedModel
from regard.tracing.trace import Trace


@pytest.fixture(scope="module")
def comparison(minilm: LoadedModel, snake: Trace) -> Comparison:
    """MiniLM as it is, and with an edge of one head cut and another head sharpened."""
    changes = [regard.Cut("it", "snake", heads=["L3H1"]), regard.Sharpen("L4H2", 0.4)]
    changed = regard.trace(minilm.model, snake.text, tokenizer=minilm.tokenizer, changes=changes)
    return regard.compare(snake, changed)


@pytest.fixture
def page(opened: Callable[..., Page], comparison: Comparison, tmp_path: Path) -> Page:
    return opened(comparison.html(tmp_path / "page.html"))


def view(page: Page, name: str) -> Locator:
    return page.locator(f"[data-view={name}]")


def numbers(page: Page, name: str) -> list[list[str]]:
    """The cells of a view's table of numbers."""
    if view(page, name).locator(".numbers").get_attribute("open") is None:
        view(page, name).locator(".numbers summary").click()
    expect(view(page, name).locator(".numbers tbody tr").first).to_be_visible()
    return [row.locator("th, td").all_inner_texts() for row in view(page, name).locator(".numbers tbody tr").all()]


def check_weights(page: Page, comparison: Comparison, head: str, within: float = 2e-5) -> None:
    wanted = [trace[head]["it"].tolist() for trace in comparison.traces]
    for place, weights in enumerate(wanted, start=1):
        shown = [0.0 if row[place] == "masked" else float(row[place]) for row in numbers(page, "sentence")]
        assert shown == pytest.approx(weights, abs=within)


def test_it_first_shows_where_the_traces_part_with_the_weights_of_both(page: Page, comparison: Comparison) -> None:
    assert comparison.first == ("L3H1", "it")
    expect(view(page, "sentence").locator("figcaption b")).to_have_text(["1 · MiniLM: L3H1", "2 · MiniLM: L3H1"])
    check_weights(page, comparison, "L3H1")
    cells = {(row[0], row[1]): row[2:] for row in numbers(page, "pattern")}
    weight = comparison.traces[0]["L3H1"]["it", "snake"]
    assert cells["it", "snake"] == [f"{weight:.5f}", "masked", f"−{weight:.5f}"]
    assert float(cells["has", "venom"][1]) == pytest.approx(comparison.traces[1]["L3H1"]["has", "venom"], abs=2e-5)
    grown = comparison.traces[1]["L3H1"]["it", "The"] - comparison.traces[0]["L3H1"]["it", "The"]
    assert float(cells["it", "The"][2].removeprefix("+")) == pytest.approx(grown, abs=2e-5)
    expect(view(page, "pattern").locator("figcaption").last).to_contain_text(f"−{weight:.4f}  +{weight:.4f}")
    assert violations(page) == []


def test_the_heads_that_differ_most_are_listed_and_a_click_shows_one(page: Page, comparison: Comparison) -> None:
    rows = view(page, "difference").locator("li")
    texts = [row.locator("span").all_inner_texts() for row in rows.all()]
    assert texts == [[f"{head} · {token}", f"{share:.4f}"] for head, token, share in comparison.largest(8)]
    rows.nth(1).get_by_role("button").click()
    expect(view(page, "sentence").locator("h2")).to_have_text("L4H2 · it")
    check_weights(page, comparison, "L4H2", within=5.1e-5)  # a layer with sharpened heads is stored to 4 decimals
    expect(page.locator(".precision")).to_have_text("Weights are given to four decimals.")


def test_the_heads_show_how_much_they_differ_on_a_scale_of_their_own(page: Page, comparison: Comparison) -> None:
    heads = view(page, "heads")
    expect(heads.locator(".legend")).to_have_text(f"0  {comparison.heads.max():.4f}")
    shades = heads.locator("[data-head]").evaluate_all(
        "heads => heads.map(head => Number(head.style.background.match(/oklch.([0-9.]+)/)[1]))"
    )
    strengths = (0.975 - torch.tensor(shades)) / (0.975 - 0.475)
    torch.testing.assert_close(strengths, (comparison.heads / comparison.heads.max()).flatten(), atol=2e-3, rtol=0)
    heads.locator("[data-head=L4H2]").click()
    expect(view(page, "sentence").locator("h2")).to_have_text("L4H2 · it")
    assert [row[:2] for row in numbers(page, "heads")][37] == ["L3H1", f"{comparison.heads[3, 1]:.5f}"]


def test_the_views_of_one_trace_say_which(page: Page) -> None:
    marked = page.locator("[data-view]:has(.of-trace)").evaluate_all("views => views.map(view => view.dataset.view)")
    assert marked == ["strongest", "what-if", "steps"]
    expect(page.locator(".of-trace")).to_have_text(["1 · MiniLM"] * 3)
    view(page, "heads").get_by_role("button", name="patterns").click()
    expect(view(page, "heads").locator(".of-trace")).to_have_text("1 · MiniLM")


def test_both_sentences_have_one_scale(page: Page) -> None:
    """On the scale of each query's largest weight, "it" of the changed trace is pale where the first one's is deep."""
    page.get_by_label("Colour scale").select_option("row")
    bars = "words => words.map(word => getComputedStyle(word).backgroundColor)"
    view(page, "sentence").locator("figcaption").first.wait_for()
    first, second = (
        view(page, "sentence").locator("figure").nth(place).locator(".word").evaluate_all(bars) for place in (0, 1)
    )
    deepest = first[2]  # snake, 0.674
    assert deepest not in second  # its largest, 0.329, is not drawn as the largest
    assert second[1] != first[1]


def test_heads_are_drawn_side_by_side(page: Page, comparison: Comparison) -> None:
    view(page, "sentence").get_by_role("button", name="compare +").click()
    page.get_by_label("Layer", exact=True).select_option("4")
    page.get_by_label("Head", exact=True).select_option("2")
    figures = view(page, "sentence").locator("figure")
    expect(figures).to_have_count(2)
    view(page, "sentence").get_by_role("button", name="side by side").click()
    expect(figures.locator("figcaption b")).to_have_text(
        [f"{number} · MiniLM: {head}" for head in ("L4H2", "L3H1") for number in (1, 2)]
    )
    largest = [max(trace[head]["it"].tolist()) for head in ("L4H2", "L3H1") for trace in comparison.traces]
    expect(figures.locator("figcaption")).to_contain_text([f"({weight:.4f})" for weight in largest])


def test_a_head_of_another_kind_of_attention_is_shown(
    opened: Callable[..., Page], translated: Trace, tmp_path: Path
) -> None:
    patterns = {layer: step.pattern for layer, step in translated.attended["cross"].items()}
    cross = {layer: regard.attend(3 * one.query, one.key, one.value) for layer, one in patterns.items()}
    comparison = regard.compare(translated, replace(translated, attended={**translated.attended, "cross": cross}))
    page = opened(comparison.html(tmp_path / "page.html", head="encoder L0H0"), address="#language=ko")
    head, token, _ = comparison.largest(1)[0]
    first = view(page, "difference").locator("li").first
    expect(first).to_contain_text(f"{head.replace('cross', '교차')} · {token}")
    first.get_by_role("button").click()
    expect(view(page, "sentence").locator("h2")).to_have_text(f"{head.removeprefix('cross ')} · {token}")
    expect(page.get_by_label("어텐션", exact=True)).to_have_value("cross")


def test_two_traces_that_are_equal_say_so(opened: Callable[..., Page], snake: Trace, tmp_path: Path) -> None:
    page = opened(regard.compare(snake, snake).html(tmp_path / "same.html", token="has", head="L1H2"), width=360)
    expect(view(page, "difference")).to_contain_text("The attention of no token differs.")
    expect(view(page, "sentence").locator("h2")).to_have_text("L1H2 · has")
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_notebook_shows_the_page_and_a_picture_where_no_frame_may_be(
    opened: Callable[..., Page], comparison: Comparison, tmp_path: Path
) -> None:
    shown, path = comparison._repr_html_(), tmp_path / "cell.html"
    path.write_text(f'<meta charset="utf-8">{shown}')
    page = opened(path)
    names = page.frame_locator("iframe").locator("[data-view=sentence] figcaption b")
    expect(names).to_have_text(["1 · MiniLM: L3H1", "2 · MiniLM: L3H1"])
    assert page.get_by_alt_text(repr(comparison)).evaluate("picture => picture.naturalWidth") > 500


def test_a_notebook_says_why_it_cannot_show_a_comparison(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.views.page.notebook.MAX_WEIGHTS", 53)
    weights = 6 * 12 * 13**2  # layers, heads, queries and keys
    assert comparison._repr_html_() == (
        f"<pre>{html.escape(repr(comparison))}: {weights:,} weights, and a notebook shows at most 53; write a page "
        "with trace.html(path), or trace fewer layers (layers=…).</pre>"
    )
