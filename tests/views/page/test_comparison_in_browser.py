"""The page of a comparison in a browser: the numbers of both traces are Python's, on one scale."""

import html
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from axe import violations
from page_views import table, view, weights
from playwright.sync_api import Page, expect

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


@pytest.fixture(scope="module")
def written(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison.html(tmp_path_factory.mktemp("comparison") / "page.html")


@pytest.fixture
def page(opened: Callable[..., Page], written: Path) -> Page:
    return opened(written)


def check_weights(page: Page, comparison: Comparison, head: str, within: float = 2e-5) -> None:
    for place, trace in enumerate(comparison.traces, start=1):
        assert weights(page, column=place) == pytest.approx(trace[head]["it"].tolist(), abs=within)


def test_it_first_shows_where_the_traces_part_with_the_weights_of_both(page: Page, comparison: Comparison) -> None:
    assert comparison.first == ("L3H1", "it")
    expect(view(page, "sentence").locator("figcaption b")).to_have_text(["1 · MiniLM: L3H1", "2 · MiniLM: L3H1"])
    check_weights(page, comparison, "L3H1")
    cells = {(row[0], row[1]): row[2:] for row in table(page, "pattern")}
    weight = comparison.traces[0]["L3H1"]["it", "snake"]
    assert cells["it", "snake"] == [f"{weight:.5f}", "masked", f"−{weight:.5f}"]
    assert float(cells["has", "venom"][1]) == pytest.approx(comparison.traces[1]["L3H1"]["has", "venom"], abs=2e-5)
    grown = comparison.traces[1]["L3H1"]["it", "The"] - comparison.traces[0]["L3H1"]["it", "The"]
    assert float(cells["it", "The"][2].removeprefix("+")) == pytest.approx(grown, abs=2e-5)
    expect(view(page, "pattern").locator("figcaption").last).to_contain_text(f"−{weight:.4f}  +{weight:.4f}")
    assert violations(page, "main") == []
    # With colours relative to each query's largest weight in both traces, no weight of the changed trace is as dark.
    page.get_by_label("Colour scale").select_option("row")
    bars = "words => words.map(word => getComputedStyle(word).backgroundColor)"
    figures = view(page, "sentence").locator("figure")
    first, second = (figures.nth(place).locator(".word").evaluate_all(bars) for place in (0, 1))
    deepest = first[2]  # snake, 0.674
    assert deepest not in second  # the largest weight in the second trace is 0.329
    assert second[1] != first[1]


def test_the_heads_that_differ_most_are_shown_by_a_click_and_side_by_side(page: Page, comparison: Comparison) -> None:
    marked = page.locator("[data-view]:has(.of-trace)").evaluate_all("views => views.map(view => view.dataset.view)")
    assert marked == ["strongest", "what-if", "steps"]
    expect(page.locator(".of-trace")).to_have_text(["1 · MiniLM"] * 3)
    heads = view(page, "heads")
    expect(heads.locator(".legend")).to_have_text(f"0  {comparison.heads.max():.4f}")
    shades = heads.locator("[data-head]").evaluate_all(
        "heads => heads.map(head => Number(head.style.background.match(/oklch.([0-9.]+)/)[1]))"
    )
    strengths = (0.975 - torch.tensor(shades)) / (0.975 - 0.475)
    torch.testing.assert_close(strengths, (comparison.heads / comparison.heads.max()).flatten(), atol=2e-3, rtol=0)
    assert table(page, "heads")[37][:2] == ["L3H1", f"{comparison.heads[3, 1]:.5f}"]
    view(page, "sentence").get_by_role("button", name="compare +").click()
    heads.locator("[data-head=L4H2]").click()
    expect(view(page, "sentence").locator("h2")).to_have_text("L4H2 · it")
    rows, figures = view(page, "difference").locator("li"), view(page, "sentence").locator("figure")
    expect(figures).to_have_count(2)
    view(page, "sentence").get_by_role("button", name="side by side").click()
    names = [f"{number} · MiniLM: {head}" for head in ("L4H2", "L3H1") for number in (1, 2)]
    expect(figures.locator("figcaption b")).to_have_text(names)
    largest = [max(trace[head]["it"].tolist()) for head in ("L4H2", "L3H1") for trace in comparison.traces]
    expect(figures.locator("figcaption")).to_contain_text([f"({weight:.4f})" for weight in largest])
    colours = figures.evaluate_all("all => all.map(one => getComputedStyle(one.querySelector('.word small')).color)")
    assert colours[0] == colours[1] != colours[2] == colours[3]  # the numbers of a head have its colour
    page.get_by_role("button", name="remove L3H1").click()
    texts = rows.locator("span").all_inner_texts()
    assert texts == [
        text for head, token, share in comparison.largest(8) for text in (f"{head} · {token}", f"{share:.4f}")
    ]
    rows.nth(0).get_by_role("button").click()
    expect(view(page, "sentence").locator("h2")).to_have_text("L3H1 · it")
    rows.nth(1).get_by_role("button").click()
    expect(view(page, "sentence").locator("h2")).to_have_text("L4H2 · it")
    check_weights(page, comparison, "L4H2", within=5.1e-5)  # a layer with sharpened heads is stored to 4 decimals
    expect(page.locator(".precision")).to_have_text("Weights are given to four decimals.")
    heads.get_by_role("button", name="patterns").click()
    expect(heads.locator(".of-trace")).to_have_text("1 · MiniLM")


def test_a_head_of_another_kind_of_attention_is_shown(
    opened: Callable[..., Page], translated: Trace, tmp_path: Path
) -> None:
    patterns = {layer: step.pattern for layer, step in translated.attended["cross"].items()}
    cross = {layer: regard.attend(3 * one.query, one.key, one.value) for layer, one in patterns.items()}
    comparison = regard.compare(translated, replace(translated, attended={**translated.attended, "cross": cross}))
    page = opened(comparison.html(tmp_path / "page.html", head="encoder L0H0"), address="#language=ko")
    head, token, _ = comparison.largest(1)[0]
    first = view(page, "difference").locator("li").first
    expect(first).to_contain_text(f"{head.replace('cross', '크로스')} · {token}")
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
