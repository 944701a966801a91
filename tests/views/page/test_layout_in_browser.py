"""The page's layout: what belongs together is in view together, and nothing lies over anything else."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

import regard
from regard import Trace
from regard.tracing.model_loading import LoadedModel
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.readable_tokens import Token

TEXT = "The snake is very dangerous because it has a venom."


@pytest.fixture
def shown(opened: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """shown(trace, token="it", head="L3H1", width=360) is the trace's page in the browser."""

    def show(trace: Trace, token: str, head: str, **window: object) -> Page:
        page = opened(trace.html(tmp_path / "page.html", token=token, head=head), **window)
        expect(view(page, "sentence").locator("h2")).to_contain_text(head)
        return page

    return show


@pytest.fixture(scope="module")
def kept(minilm: LoadedModel) -> Trace:
    return regard.trace(minilm.model, TEXT, tokenizer=minilm.tokenizer, keep=("hidden",))


@pytest.fixture
def picture(handmade: Callable[..., Trace]) -> Trace:
    """A trace of a picture of 3 × 4 patches."""
    trace = handmade(" ".join("abcdefghijkl"), n_layers=1)
    patches = tuple(Token(f"{i // 4},{i % 4}", f"{i}", place=Patch(0, i // 4, i % 4, 8.0, 8.0)) for i in range(12))
    return replace(trace, text="", source=patches, images=(torch.rand(3, 24, 32),))


def view(page: Page, name: str) -> Locator:
    return page.locator(f"[data-view={name}]")


def box(found: Locator) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of an element."""
    place = found.bounding_box()
    return place["x"], place["y"], place["x"] + place["width"], place["y"] + place["height"]


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("width", [360, 800, 1280, 2560])
def test_no_panel_and_no_tool_lies_over_another(shown: Callable[..., Page], kept: Trace, width: int) -> None:
    page = shown(kept, "it", "L3H1", width=width)
    panels = page.locator("[data-view]").all()
    boxes = [box(panel) for panel in panels]
    assert not [(i, j) for i in range(len(boxes)) for j in range(i) if overlap(boxes[i], boxes[j])]
    for panel in panels:
        parts = [box(part) for part in panel.locator("h2, .tools, .save summary").all()]
        assert not [(i, j) for i in range(len(parts)) for j in range(i) if overlap(parts[i], parts[j])]
        inside = box(panel)
        assert all(inside[0] <= left and right <= inside[2] for left, _, right, _ in parts)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_cards_in_a_row_end_at_one_height(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1", width=1280)
    bottoms = {round(box(view(page, name))[3]) for name in ("strongest", "what-if", "pattern")}
    assert len(bottoms) == 1
    gaps = [box(view(page, "movement"))[1] - bottoms.pop()]
    gaps.append(box(view(page, "steps"))[1] - box(view(page, "movement"))[3])
    assert gaps == pytest.approx([18, 18], abs=1)


def test_the_heads_fill_their_card(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1", width=1280)
    heads = view(page, "heads")
    left, _, right, bottom = box(heads)
    assert bottom - box(heads.locator(".numbers"))[3] < 20
    first, last = box(heads.locator("[data-head=L0H0]")), box(heads.locator("[data-head=L5H11]"))
    assert last[2] - first[0] > 0.8 * (right - left)


def test_weights_under_neighbours_do_not_overlap(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade("a b c d e f g h i"), "e", "L1H1")
    labels = [box(label) for label in view(page, "sentence").locator(".word small").all()]
    assert len(labels) > 1
    assert not [(i, j) for i in range(len(labels)) for j in range(i) if overlap(labels[i], labels[j])]
    weights = handmade("a b c d e f g h i")["L1H1"]["e"]
    written = view(page, "sentence").locator(".word small").all_inner_texts()
    assert f"{float(weights.max()):.4f}" in written  # the largest weight always is


def test_the_step_that_is_shown_is_in_view_in_a_narrow_window(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1", width=360)
    steps = view(page, "steps")
    for button in steps.locator(".stages button").all():
        button.click()
        now = steps.locator("table.steps td.now").first
        if now.count():
            table = box(steps.locator(".scroll").first)
            left, _, right, _ = box(now)
            assert (left >= table[0] - 1, right <= table[2] + 1) == (True, True)
            key = box(steps.locator("table.steps tbody th").first)
            assert key[0] == pytest.approx(table[0], abs=4)  # beside the key's name


def test_no_number_of_a_step_is_cut_in_half_in_a_narrow_window(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1", width=390)
    steps = view(page, "steps")
    table = steps.locator(".scroll").first
    for place in range(steps.locator(".stages button").count() + 1):
        if place:
            steps.locator(".stages button").nth(place - 1).click()
        else:
            table.evaluate("table => table.scrollBy({ left: -30, behavior: 'instant' })")
        key = box(steps.locator("table.steps thead th").first)
        assert key[0] == pytest.approx(box(table)[0], abs=0.1)  # no digit beside the column of keys
        for column in steps.locator("table.steps thead th").all()[1:]:
            left, _, right, _ = box(column)
            assert left > key[2] - 1.5 or right < key[2] + 1.5


def test_views_name_which_of_several_equal_tokens(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade("the cat the dog"), "the:2", "L1H1")
    steps = view(page, "steps")
    expect(steps.locator("h2")).to_have_text("Step by step · L1H1 · the:2")
    expect(steps.locator("table.steps tbody th")).to_have_text(["the:1", "cat", "the:2", "dog"])
    expect(steps.locator(".dimensions caption")).to_contain_text(re.compile("“the:[12]”|“cat”|“dog”"))


def test_a_text_a_little_longer_than_a_line_is_written_smaller(shown: Callable[..., Page], minilm: LoadedModel) -> None:
    text = "The committee decided to ask the applicants for more details about how they planned it."
    page = shown(regard.trace(minilm.model, text, tokenizer=minilm.tokenizer), "they", "L3H1", width=1280)
    words = view(page, "sentence").locator(".word")
    expect(words).to_have_count(18)
    assert len({round(box(word)[1]) for word in words.all()}) == 1
    page.set_viewport_size({"width": 390, "height": 900})
    expect(words.last).not_to_have_css("font-size", "16px")  # on several lines, letters keep their size


@pytest.mark.parametrize(("token", "width"), [("it", 390), ("venom", 360), ("", 600)])
def test_arcs_to_other_lines_pass_between_the_words(
    shown: Callable[..., Page], minilm: LoadedModel, token: str, width: int
) -> None:
    text = f"{TEXT} The man who built the boat with his own hands knew where it was."
    page = shown(regard.trace(minilm.model, text, tokenizer=minilm.tokenizer), "it:1", "L3H1", width=width)
    if not token:
        view(page, "sentence").get_by_role("button", name="all tokens").click()
    else:
        view(page, "sentence").locator(".word", has_text=token).first.click()
    expect(view(page, "sentence").locator("h2")).to_contain_text(token or "all tokens")
    lines = (
        view(page, "sentence")
        .locator(".word")
        .evaluate_all("words => [...new Set(words.map(word => Math.round(word.getBoundingClientRect().top)))].length")
    )
    assert lines >= 3
    crossed = (
        view(page, "sentence")
        .locator(".arcs")
        .evaluate(
            """text => {
            const words = [...text.querySelectorAll(".word bdi")].map(word => word.getBoundingClientRect());
            const from = text.querySelector("svg").getBoundingClientRect();
            return [...text.querySelectorAll("path")].flatMap(path => {
                const step = path.getTotalLength() / 199;
                const points = Array.from({ length: 200 }, (_, i) => path.getPointAtLength(i * step));
                return words.filter(({ left, right, top, bottom }) => points.some(({ x, y }) =>
                    x + from.x > left && x + from.x < right && y + from.y > top + 1 && y + from.y < bottom - 1));
            }).length;
        }"""
        )
    )
    assert crossed == 0


def test_the_columns_of_all_tokens_have_their_names_above_them(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1", address="#query=all&sentence=columns")
    sentence = view(page, "sentence")
    expect(sentence.locator(".ends span")).to_have_text(["queries", "keys"])
    first, name = (
        box(sentence.locator(".columns ul:last-child li span").first),
        box(sentence.locator(".ends span").last),
    )
    assert abs(first[0] - name[0]) < 20
    expect(sentence.locator(".columns ul:last-child i")).to_have_count(0)  # no bars, since there are no weights


def test_a_head_compared_with_itself_is_dashed_as_the_model_has_it(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1", address="#head=L3H1&query=7&compared=L3H1&cut=7,2")
    sentence = view(page, "sentence")
    expect(sentence).to_contain_text("Dashed, with its weight in brackets where you cut: the head as the model has it.")
    expect(sentence.locator("path:not([stroke-dasharray])")).not_to_have_count(0)
    n_dashed = sentence.locator("path[stroke-dasharray]").count()
    assert n_dashed > 5
    weight = float(kept["L3H1"]["it", "snake"])
    expect(sentence.locator(".word", has_text="snake").locator("small")).to_have_text(f"({weight:.4f})")
    sentence.locator(".numbers summary").click()
    expect(sentence.locator(".numbers thead th")).to_have_text(
        ["token", "L3H1 · as you changed it", "L3H1 · as the model has it"]
    )
    page.get_by_role("button", name="undo all changes").click()  # as the model has it: one set of arcs
    expect(sentence.locator("path")).to_have_count(n_dashed)
    expect(sentence.locator("path[stroke-dasharray]")).to_have_count(0)


def test_only_heads_have_hues_among_what_moves_a_token(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1")
    parts = view(page, "movement").locator(".parts tbody tr:not(.state)")
    colours = parts.locator("i").evaluate_all("marks => marks.map(mark => mark.style.background)")
    grey = [" 0 0)" in colour for colour in colours]
    assert grey == [not re.match(r"H\d", text) for text in parts.locator("th").all_inner_texts()]
    assert len(set(colours)) == len(colours)


def test_a_click_on_a_picture_makes_the_patch_the_query(shown: Callable[..., Page], picture: Trace) -> None:
    page = shown(picture, "0,0", "L0H1", width=1280)
    expect(page.locator("h1:not(.brand)")).to_have_text("A picture")
    canvas = view(page, "medium").locator("canvas")
    area = canvas.bounding_box()
    canvas.click(position={"x": area["width"] * 0.6, "y": area["height"] * 0.5})  # in row 1, column 2
    expect(view(page, "sentence").locator("h2")).to_have_text("L0H1 · 1,2")
    cells = view(page, "sentence").locator("li .figure, li small, li span")
    expect(cells.first).to_be_visible()
    expect(view(page, "sentence").locator("svg")).to_have_count(0)  # a list of patches has no arcs
    assert box(view(page, "medium"))[1] == box(view(page, "sentence"))[1]  # side by side
    page.get_by_label("Language").select_option("ko")
    expect(page.locator("h1:not(.brand)")).to_have_text("그림 1장")


@pytest.mark.parametrize("n_pictures", [2, 6])
def test_several_pictures_leave_the_sentence_its_room(
    shown: Callable[..., Page], picture: Trace, n_pictures: int
) -> None:
    patches = tuple(Token(f"p{i}", f"{i}", place=Patch(i % n_pictures, 0, 0, 24.0, 32.0)) for i in range(12))
    several = replace(picture, source=patches, images=(torch.rand(3, 24, 32),) * n_pictures)
    page = shown(several, "p0", "L0H1", width=1280)
    expect(view(page, "medium").locator("canvas")).to_have_count(n_pictures)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 1280
    left, _, right, _ = box(view(page, "sentence"))
    assert right - left > 600


def test_every_overlay_says_what_it_does_not_and_leads_to_what_if(shown: Callable[..., Page], picture: Trace) -> None:
    page = shown(picture, "0,0", "L0H1", width=1280)
    said = "Attention shows where a head reads; by itself it does not explain the answer."
    for name in ("medium", "sentence"):
        expect(view(page, name).locator(".caution")).to_contain_text(said)
        page.evaluate("() => scrollTo(0, 0)")
        view(page, name).locator(".caution button").click()
        expect(view(page, "what-if").get_by_role("slider")).to_be_focused()
        expect(view(page, "what-if")).to_be_in_viewport()
    expect(view(page, "what-if")).to_contain_text(said)


def test_bars_are_relative_on_the_relative_scale(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1")
    bar = view(page, "strongest").locator("li i").first
    row = view(page, "strongest").locator("li").first
    weight = float(kept["L3H1"]["it"].max())
    assert bar.bounding_box()["width"] / row.bounding_box()["width"] == pytest.approx(weight, abs=0.02)
    page.get_by_label("Colour scale").select_option("row")
    expect(bar).to_have_attribute("style", "width: 100%;")


def test_a_compared_head_keeps_the_weights_of_the_model(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown(kept, "it", "L3H1", address="#compared=L2H0&temperature=2&cut=7,2&query=7")
    view(page, "sentence").locator(".numbers summary").click()
    expect(view(page, "sentence").locator(".numbers tbody tr").last.locator("td").nth(1)).to_have_text(
        re.compile(r"\d")
    )
    rows = (
        view(page, "sentence")
        .locator(".numbers tbody tr")
        .evaluate_all("rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent))")
    )
    compared = [float(row[1]) for row in rows]
    assert compared == pytest.approx(kept["L2H0"]["it"].tolist(), abs=2e-5)
    assert rows[2][0] == "0.00000" or rows[2][0] == "masked"
