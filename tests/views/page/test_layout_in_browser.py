"""The page's layout: what belongs together is in view together, and nothing lies over anything else."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from page_views import boxes, number, overlaps, saved, table, view
from PIL import Image
from playwright.sync_api import Locator, Page, expect

import regard
from regard import Trace, attend
from regard.tracing.model_loading import LoadedModel
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.readable_tokens import Token


@pytest.fixture
def picture(handmade: Callable[..., Trace]) -> Trace:
    """A trace of a picture of 3 × 4 patches."""
    trace = handmade(" ".join("abcdefghijkl"), n_layers=1)
    patches = tuple(Token(f"{i // 4},{i % 4}", f"{i}", place=Patch(0, i // 4, i % 4, 8.0, 8.0)) for i in range(12))
    return replace(trace, text="", source=patches, images=(torch.rand(3, 24, 32),))


def box(found: Locator) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of an element."""
    return boxes(found)[0]


def test_no_panel_and_no_tool_lies_over_another(opened: Callable[..., Page], kept_page: Path) -> None:
    page = opened(kept_page, width=2560)
    expect(view(page, "movement").locator(".arrow")).not_to_have_count(0)
    for width in (2560, 1280, 800, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
        panels = page.locator("[data-view]")
        assert overlaps(boxes(panels)) == []
        for panel, inside in zip(panels.all(), boxes(panels), strict=True):
            parts = boxes(panel.locator("h2, .tools, .save summary"))
            assert overlaps(parts) == []
            assert all(inside[0] <= left and right <= inside[2] for left, _, right, _ in parts)


def test_cards_in_a_row_end_at_one_height_and_the_heads_fill_theirs(
    opened: Callable[..., Page], kept_page: Path, kept: Trace
) -> None:
    page = opened(kept_page)
    expect(view(page, "movement").locator(".arrow")).not_to_have_count(0)
    bottoms = {round(box(view(page, name))[3]) for name in ("strongest", "what-if", "pattern")}
    assert len(bottoms) == 1
    gaps = [box(view(page, "movement"))[1] - bottoms.pop()]
    gaps.append(box(view(page, "steps"))[1] - box(view(page, "movement"))[3])
    assert gaps == pytest.approx([18, 18], abs=1)
    heads = view(page, "heads")
    left, _, right, bottom = box(heads)
    assert bottom - box(heads.locator(".numbers"))[3] < 20
    first, last = box(heads.locator("[data-head=L0H0]")), box(heads.locator("[data-head=L5H11]"))
    assert last[2] - first[0] > 0.8 * (right - left)
    parts = view(page, "movement").locator(".parts tbody tr:has(i)")
    colours = parts.locator("i").evaluate_all("marks => marks.map(mark => mark.style.background)")
    grey = [" 0 0)" in colour for colour in colours]  # only heads have hues
    assert grey == [not re.match(r"H\d", text) for text in parts.locator("th").all_inner_texts()]
    assert len(set(colours)) == len(colours)
    bar, row = (view(page, "strongest").locator(part).first for part in ("li i", "li"))
    share = (box(bar)[2] - box(bar)[0]) / (box(row)[2] - box(row)[0])
    assert share == pytest.approx(float(kept["L3H1"]["it"].max()), abs=0.02)
    page.get_by_label("Colour scale").select_option("row")
    expect(bar).to_have_attribute("style", "width: 100%;")


IS_ON_TOP = """(one) => {
    const { left, top, height } = one.getBoundingClientRect();
    return document.elementFromPoint(left + 5, top + height / 2) === one;
}"""

IS_IN_ITS_LIST = """(one) => {
    const [row, list] = [one, one.closest(".scroll")].map((element) => element.getBoundingClientRect());
    return list.top <= row.top && row.bottom <= list.bottom + 1;
}"""

NOTE_TEXTS = """() => {
    window.written = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        window.written.push(text);
        draw.call(this, text, ...place);
    };
}"""


def test_an_arrow_names_the_strongest_key_that_is_out_of_view(opened: Callable[..., Page], snake_page: Path) -> None:
    page = opened(snake_page)
    page.evaluate(NOTE_TEXTS)
    view(page, "sentence").locator(".word", has_text="it").click()
    pattern = view(page, "pattern")
    for _ in range(6):
        pattern.get_by_role("button", name="larger").click()
    pattern.locator("canvas").scroll_into_view_if_needed()
    box = pattern.locator("canvas").bounding_box()
    x, y = (box[place] + 0.7 * box[side] for place, side in (("x", "width"), ("y", "height")))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 0.3 * box["width"], y, steps=3)
    page.evaluate("window.written = []")
    page.mouse.move(x - 0.4 * box["width"], y)
    page.wait_for_function("() => window.written.length > 0")
    page.mouse.up()
    written = page.evaluate("window.written")
    assert "The" not in written  # the columns in view begin after "snake"
    assert (written.count("snake"), written[-1]) == (1, "snake")


def test_the_arrow_to_a_key_with_a_long_name_has_room_for_the_beginning_of_the_name(
    opened: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    trace = handmade(
        " ".join([*(f"w{n}" for n in range(40)), "a-name-that-is-wider-than-the-weights-of-a-narrow-page"])
    )
    key = torch.zeros(1, 1, 41, 1)
    key[..., -1, :] = 9
    step = attend(torch.ones(1, 1, 41, 1), key, key)
    page = opened(replace(trace, attended={"encoder": {0: step}}).html(tmp_path / "page.html", token="w0"), width=360)
    page.evaluate(NOTE_TEXTS)
    view(page, "pattern").get_by_role("button", name="larger").click()
    page.wait_for_function("() => window.written.some((text) => /^a-name-that-.*…$/.test(text))")
    page.evaluate("window.written = []")
    view(page, "pattern").get_by_role("button", name="larger").click()
    page.wait_for_function("() => window.written.length > 0")
    assert not [text for text in page.evaluate("window.written") if text.endswith("page")]


def test_both_scissors_of_a_key_with_a_long_name_are_in_one_line(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    page = shown(handmade(" ".join(["extraordinarily"] * 14)), "extraordinarily:3", "L1H1")
    cut, mask = boxes(view(page, "what-if").locator(".changes tbody tr:first-child button"))
    assert cut[1] == mask[1]
    assert mask[2] < box(view(page, "what-if"))[2] - 15  # inside the panel


def test_weights_under_neighbours_do_not_overlap(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade("a b c d e f g h i"), "e", "L1H1")
    labels = boxes(view(page, "sentence").locator(".word small"))
    assert len(labels) > 1
    assert overlaps(labels) == []
    weights = handmade("a b c d e f g h i")["L1H1"]["e"]
    written = view(page, "sentence").locator(".word small").all_inner_texts()
    assert f"{float(weights.max()):.4f}" in written  # the largest weight always is


def test_the_step_that_is_shown_is_in_view_and_whole_in_a_narrow_window(
    opened: Callable[..., Page], kept_page: Path
) -> None:
    steps = view(opened(kept_page, width=390), "steps")
    table = steps.locator(".scroll").first
    expect(steps.locator(".stages button")).to_have_count(7)
    table.evaluate("table => table.scrollBy({ left: -30, behavior: 'instant' })")
    for button in (None, *steps.locator(".stages button").all()):
        if button:
            button.click()
            now, inside = steps.locator("table.steps td.now"), box(table)
            if now.count():
                left, _, right, _ = box(now)
                assert (left >= inside[0] - 1, right <= inside[2] + 1) == (True, True)
        key, *others = boxes(steps.locator("table.steps thead th"))
        assert key[0] == pytest.approx(box(table)[0], abs=0.1)  # no digit beside the column of keys
        assert all(left > key[2] - 1.5 or right < key[2] + 1.5 for left, _, right, _ in others)


def test_a_label_far_down_in_a_long_text_is_whole(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade(" ".join([*(f"w{n}" for n in range(401)), "dangerous"]), n_layers=1), "dangerous", "L0H1")
    page.evaluate(NOTE_TEXTS)
    page.keyboard.press("ArrowRight")  # another head is drawn
    expect(view(page, "pattern").locator("h2")).to_contain_text("L0H2")
    page.wait_for_function("() => window.written.some((text) => /^\u2068?d/.test(text))")
    assert "dangerous" in page.evaluate("window.written")


def test_weights_keep_their_colours_in_high_contrast(opened: Callable[..., Page], kept_page: Path) -> None:
    page = opened(kept_page)
    page.emulate_media(forced_colors="active")
    colours = "all => all.map((one) => getComputedStyle(one).backgroundColor)"
    page.wait_for_function(f"() => new Set(({colours})([...document.querySelectorAll('[data-head]')])).size > 60")
    assert len({*view(page, "sentence").locator(".word").evaluate_all(colours)}) > 5
    frame = view(page, "sentence").locator(".word[aria-selected=true]")
    assert frame.evaluate("(one) => getComputedStyle(one).boxShadow") != "none"
    page.emulate_media(forced_colors="none")


def test_numbers_that_scroll_do_not_cover_the_name_of_their_sum(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    page = shown(handmade(" ".join(f"w{n}" for n in range(24))), "w0", "L1H1")
    page.set_viewport_size({"width": 360, "height": 500})
    rows = view(page, "steps").locator(".scroll").first
    view(page, "steps").get_by_role("button", name="5 · divide").click()
    rows.evaluate("(rows) => rows.scrollIntoView({ block: 'end', inline: 'nearest' })")
    assert rows.evaluate("(rows) => rows.scrollLeft > 30 && rows.scrollHeight > rows.clientHeight")
    assert rows.locator("tfoot th").evaluate(IS_ON_TOP)


def test_views_name_which_of_several_equal_tokens(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade("the cat the dog"), "the:2", "L1H1")
    steps = view(page, "steps")
    expect(steps.locator("h2")).to_have_text("Step by step · L1H1 · the:2")
    expect(steps.locator("table.steps tbody th")).to_have_text(["the:1", "cat", "the:2", "dog"])
    expect(steps.locator(".dimensions caption")).to_contain_text(re.compile("“the:[12]”|“cat”|“dog”"))


def test_a_text_a_little_longer_than_a_line_is_written_smaller(shown: Callable[..., Page], minilm: LoadedModel) -> None:
    text = "The committee decided to ask the applicants for more details about how they planned it."
    page = shown(regard.trace(minilm.model, text, tokenizer=minilm.tokenizer), "they", "L3H1")
    words = view(page, "sentence").locator(".word")
    expect(words).to_have_count(18)
    assert len({round(top) for _, top, _, _ in boxes(words)}) == 1
    page.set_viewport_size({"width": 390, "height": 900})
    expect(words.last).not_to_have_css("font-size", "16px")  # on several lines, letters keep their size


CROSSED = """text => {
    const words = [...text.querySelectorAll(".word bdi")].map(word => word.getBoundingClientRect());
    const from = text.querySelector("svg").getBoundingClientRect();
    return [...text.querySelectorAll("path")].flatMap(path => {
        const step = path.getTotalLength() / 199;
        const points = Array.from({ length: 200 }, (_, i) => path.getPointAtLength(i * step));
        return words.filter(({ left, right, top, bottom }) => points.some(({ x, y }) =>
            x + from.x > left && x + from.x < right && y + from.y > top + 1 && y + from.y < bottom - 1));
    }).length;
}"""
"""Returns how many times an arc crosses a word."""


def test_the_arcs_of_all_tokens_are_drawn_when_a_slow_machine_has_computed_them(
    opened: Callable[..., Page], kept_page: Path
) -> None:
    page = opened(kept_page)
    view(page, "sentence").get_by_role("button", name="all tokens").click()

    def arcs_of(head: str) -> Locator:
        page.get_by_label("Head", exact=True).select_option(head)
        expect(view(page, "sentence").locator("h2")).to_have_text(f"L3H{head} · all tokens")
        return view(page, "sentence").locator(".arcs path")

    count = arcs_of("5").count()
    assert count > 0
    arcs_of("4")
    page.evaluate("() => { let now = 0; performance.now = () => (now += 6); }")  # one row fills a slice of 10 ms
    expect(arcs_of("5")).to_have_count(count)


def test_arcs_begin_at_the_words_when_a_shorter_text_has_less_room_above_it(
    shown: Callable[..., Page], minilm: LoadedModel
) -> None:
    page = shown(regard.trace(minilm.model, "the cat", tokenizer=minilm.tokenizer), "cat", "L3H1")
    page.get_by_label("hide special tokens").check()
    words, arcs = (view(page, "sentence").locator(part) for part in (".word", ".arcs path"))
    expect(words).to_have_count(2)
    starts = """arcs => arcs.map(arc => arc.ownerSVGElement.getBoundingClientRect().top + arc.getPointAtLength(0).y)"""
    assert arcs.evaluate_all(starts) == pytest.approx([box(words)[1]] * arcs.count(), abs=1)
    assert arcs.count() > 0


@pytest.mark.parametrize(("token", "width"), [("it", 390), ("venom", 360), ("", 600)])
def test_arcs_to_other_lines_pass_between_the_words(
    opened: Callable[..., Page], minilm: LoadedModel, kept: Trace, tmp_path: Path, token: str, width: int
) -> None:
    text = f"{kept.text} The man who built the boat with his own hands knew where it was."
    trace = regard.trace(minilm.model, text, tokenizer=minilm.tokenizer)
    page = opened(trace.html(tmp_path / "page.html", token="it:1", head="L3H1"), width=width)
    sentence = view(page, "sentence")
    if not token:
        sentence.get_by_role("button", name="all tokens").click()
    else:
        sentence.locator(".word", has_text=token).first.click()
    expect(sentence.locator("h2")).to_contain_text(token or "all tokens")
    assert len({round(top) for _, top, _, _ in boxes(sentence.locator(".word"))}) >= 3
    assert sentence.locator(".arcs").evaluate(CROSSED) == 0


def test_the_columns_of_all_tokens_have_their_names_above_them(opened: Callable[..., Page], kept_page: Path) -> None:
    sentence = view(opened(kept_page, address="#query=all&sentence=columns"), "sentence")
    expect(sentence.locator(".ends span")).to_have_text(["queries", "keys"])
    first, name = box(sentence.locator(".columns ul:last-child li span")), box(sentence.locator(".ends span").last)
    assert abs(first[0] - name[0]) < 20
    expect(sentence.locator(".columns ul:last-child i")).to_have_count(0)  # no bars, since there are no weights


def test_a_compared_head_keeps_the_weights_of_the_model(
    opened: Callable[..., Page], kept_page: Path, kept: Trace
) -> None:
    """A head that is compared with itself is dashed."""
    page = opened(kept_page, address="#head=L3H1&query=7&compared=L3H1 L2H0&cut=7,2&temperature=2")
    sentence = view(page, "sentence")
    expect(sentence).to_contain_text("Dashed, with its weight in brackets where you cut: the head as the model has it.")
    expect(sentence.locator("path:not([stroke-dasharray])")).not_to_have_count(0)
    assert sentence.locator("path[stroke-dasharray]").count() > 5
    weight = float(kept["L3H1"]["it", "snake"])
    expect(sentence.locator(".word", has_text="snake").locator("small")).to_have_text(f"({weight:.4f})")
    rows = table(page, "sentence")
    names = ["token", "L3H1 · as you changed it", "L3H1 · as the model has it", "L2H0"]
    expect(sentence.locator(".numbers thead th")).to_have_text(names)
    for column, name in ((2, "L3H1"), (3, "L2H0")):
        assert [number(row[column]) for row in rows] == pytest.approx(kept[name]["it"].tolist(), abs=2e-5)
    assert rows[2][1] in ("0.00000", "masked")
    page.get_by_role("button", name="undo all changes").click()  # then each head has one set of arcs: that of the model
    expect(sentence.locator("path[stroke-dasharray]")).to_have_count(0)
    expect(sentence.locator(".numbers thead th")).to_have_text(["token", "L3H1", "L2H0"])


def test_a_click_on_a_picture_makes_the_patch_the_query(shown: Callable[..., Page], picture: Trace) -> None:
    page = shown(picture, "0,0", "L0H1")
    expect(page.locator("h1:not(.brand)")).to_have_text("A picture")
    expect(page).to_have_title("A picture · regard")
    queries = view(page, "sentence").locator(".columns ul:first-child li span")
    assert queries.evaluate_all("all => all.every((one) => one.scrollWidth <= one.clientWidth)")  # no name is cut
    said = "Attention shows where a head reads; by itself it does not explain the answer."
    for name in ("medium", "sentence"):
        expect(view(page, name).locator(".caution")).to_contain_text(said)
        page.evaluate("() => scrollTo(0, 0)")
        view(page, name).locator(".caution button").click()
        expect(view(page, "what-if").get_by_role("slider")).to_be_focused()
        expect(view(page, "what-if")).to_be_in_viewport()
    expect(view(page, "what-if")).to_contain_text(said)
    canvas = view(page, "medium").locator("canvas")
    area = canvas.bounding_box()
    canvas.click(position={"x": area["width"] * 0.6, "y": area["height"] * 0.5})  # in row 1, column 2
    expect(view(page, "sentence").locator("h2")).to_have_text("L0H1 · 1,2")
    expect(view(page, "sentence").locator("li .figure, li small, li span").first).to_be_visible()
    expect(view(page, "sentence").locator("svg")).to_have_count(0)  # a list of patches has no arcs
    assert box(view(page, "medium"))[1] == box(view(page, "sentence"))[1]  # side by side
    page.get_by_label("Language").select_option("ko")
    expect(page.locator("h1:not(.brand)")).to_have_text("그림 1장")
    expect(page).to_have_title("그림 1장 · regard")


def test_the_list_beside_a_picture_is_scrolled_to_the_query(
    shown: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    trace = handmade(" ".join(f"p{i}" for i in range(48)), n_layers=1)
    patches = tuple(Token(f"{i // 8},{i % 8}", f"{i}", place=Patch(0, i // 8, i % 8, 8.0, 8.0)) for i in range(48))
    page = shown(replace(trace, source=patches, images=(torch.rand(3, 48, 64),)), "5,6", "L0H1")
    chosen = view(page, "sentence").locator(".columns li[aria-selected=true]")
    expect(chosen).to_contain_text("5,6")
    assert chosen.evaluate(IS_IN_ITS_LIST)
    canvas = view(page, "medium").locator("canvas")
    canvas.click(position={"x": 5, "y": 5})
    expect(chosen).to_contain_text("0,0")
    assert chosen.evaluate(IS_IN_ITS_LIST)
    with Image.open(saved(page, "sentence", "png", tmp_path)) as picture:  # as high as the list on the page
        assert picture.height < 2 * (box(view(page, "sentence"))[3] - box(view(page, "sentence"))[1])


@pytest.mark.parametrize("n_pictures", [2, 6])
def test_several_pictures_leave_the_sentence_its_room(
    shown: Callable[..., Page], picture: Trace, n_pictures: int
) -> None:
    patches = tuple(Token(f"p{i}", f"{i}", place=Patch(i % n_pictures, 0, 0, 24.0, 32.0)) for i in range(12))
    page = shown(replace(picture, source=patches, images=(torch.rand(3, 24, 32),) * n_pictures), "p0", "L0H1")
    expect(view(page, "medium").locator("canvas")).to_have_count(n_pictures)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 1280
    left, _, right, _ = box(view(page, "sentence"))
    assert right - left > 600
