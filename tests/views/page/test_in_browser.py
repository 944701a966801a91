"""Tests of the page in a browser: the numbers of every view, and the response to pointer, keyboard, URL and window."""

import math
import re
import xml.etree.ElementTree
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from axe import violations
from page_views import cells, numbers, saved, table, view, weights
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from regard import Alibi, Causal, Keep, ScaledDot, Softmax, Trace, attend, trace
from regard.tracing.focus import strongest_other_words
from regard.tracing.generation import WrittenToken
from regard.tracing.model_loading import LoadedModel
from regard.tracing.tokens.places import Frame, Patch
from regard.tracing.tokens.readable_tokens import Token
from regard.views.page import weights as stored
from regard.views.page.notebook import notebook_frame

CLOSE = 1.6e-5
"""1e-5 for the weights of the page, and half a unit of the fifth decimal for the way they are written."""


@pytest.fixture
def page(opened: Callable[..., Page], snake_page: Path) -> Page:
    """The page of the snake, which shows what "it" attends to in head L3H1."""
    shown = opened(snake_page)
    expect(shown.locator(".top li")).not_to_have_count(0)
    return shown


def title(page: Page) -> Locator:
    return view(page, "sentence").locator("h2")


def word(page: Page, text: str) -> Locator:
    return view(page, "sentence").locator(".word").filter(has=page.get_by_text(text, exact=True)).first


def choose_head(page: Page, layer: int, head: int | str) -> None:
    page.get_by_label("Layer", exact=True).select_option(str(layer))
    page.get_by_label("Head", exact=True).select_option(str(head))


def canvas_of(page: Page) -> Locator:
    return view(page, "pattern").locator("canvas")


def point_at_cell(page: Page, below: int, beyond: int) -> None:
    """Move the pointer to a cell of the pattern, counted from its last row and last column."""
    canvas = canvas_of(page)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    size = cell_size(page)
    page.mouse.move(
        box["x"] + box["width"] - (beyond + 0.5) * size - 1, box["y"] + box["height"] - (below + 0.5) * size - 1
    )


def cell_size(page: Page) -> float:
    """Return the size of a square cell in pixels, from the height of the canvas without its labels."""
    n_rows = int(str(canvas_of(page).get_attribute("aria-label")).split(": ")[1].split(" × ")[0])
    script = """(canvas, rows) => {
        const { width, height } = canvas;
        const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const data = copy.getImageData(width - 3, 0, 1, height).data;
        const first = Array.from({ length: height }, (_, y) => data[4 * y + 3]).findIndex((alpha) => alpha > 0);
        return (height / devicePixelRatio - 1 - first / devicePixelRatio) / rows;
    }"""
    return float(canvas_of(page).evaluate(script, n_rows))


def test_a_token_is_chosen_by_pointer_and_keyboard_and_a_head_by_keyboard(page: Page) -> None:
    expect(page.locator("h1")).to_have_text("The snake is very dangerous because it has a venom.")
    expect(page.locator(".facts")).to_have_text("MiniLM · 6 layers × 12 heads · 13 tokens")
    expect(page.locator(".masked-legend")).to_have_count(0)
    expect(view(page, "movement")).to_have_count(0)  # the trace has no hidden vectors
    word(page, "The").hover()
    expect(title(page)).to_have_text("L3H1 · The")
    word(page, "it").hover()
    expect(title(page)).to_have_text("L3H1 · it")
    expect(view(page, "sentence").locator(".caption").first).to_have_text("“it” looks most at “snake” (0.6741)")
    expect(page.locator(".top li").first).to_have_text("snake0.6741")
    expect(word(page, "snake").locator("small")).to_have_text("0.6741")
    word(page, "it").click()
    expect(page.locator(".lock")).to_have_text("it ✕")
    word(page, "has").hover()
    expect(title(page)).to_have_text("L3H1 · it")
    page.keyboard.press("Escape")
    expect(page.locator(".lock")).to_have_count(0)
    word(page, "very").hover()
    expect(title(page)).to_have_text("L3H1 · very")
    word(page, "it").click()
    page.get_by_role("button", name="unlock “it”").click()
    expect(page.locator(".lock")).to_have_count(0)
    for pressed, head in (("ArrowRight", "L3H2"), ("ArrowDown", "L4H2"), ("ArrowLeft", "L4H1"), ("ArrowUp", "L3H1")):
        page.keyboard.press(pressed)
        expect(title(page)).to_have_text(f"{head} · it")
    page.locator(".tokens[role=listbox]").focus()
    page.keyboard.press("ArrowDown")
    expect(title(page)).to_have_text("L3H1 · has")
    expect(view(page, "sentence").locator("[aria-selected=true]")).to_contain_text("has")
    page.keyboard.press("Enter")
    expect(page.locator(".lock")).to_have_text("has ✕")


def test_every_head_of_every_layer_shows_python_s_weights(page: Page, snake: Trace) -> None:
    for layer, pattern in snake.encoder.items():
        for head in range(0, 12, 5):
            choose_head(page, layer, head)
            expect(title(page)).to_have_text(f"L{layer}H{head} · it")
            assert weights(page) == pytest.approx(pattern[0, head, 7].tolist(), abs=CLOSE)
    expect(page.locator(".precision")).to_have_text(
        "The page computes the weights from the queries and keys that the model’s kernel was given; "
        "they agree with the kernel’s weights to 0.00001."
    )
    choose_head(page, 3, "average")
    expect(title(page)).to_have_text("L3 average · it")
    assert weights(page) == pytest.approx(snake.encoder[3][0, :, 7].mean(0).tolist(), abs=CLOSE)
    choose_head(page, 3, 1)
    page.get_by_role("button", name="compare +").click()
    page.get_by_role("button", name="L2H0: it →").click()
    rows = table(page, "sentence")
    for column, name in ((1, "L2H0"), (2, "L3H1")):
        assert numbers([row[column] for row in rows]) == pytest.approx(snake[name]["it"].tolist(), abs=CLOSE)
    colours = "paths => [...new Set(paths.map(path => path.getAttribute('stroke')))]"
    assert len(page.locator(".arcs path").evaluate_all(colours)) == 2
    page.get_by_role("button", name="remove L3H1").click()
    assert len(table(page, "sentence")[0]) == 2


def test_the_pieces_of_a_word_are_joined(shown: Callable[..., Page], minilm: LoadedModel) -> None:
    pieces = trace(minilm.model, "Venomous snakelets", tokenizer=minilm.tokenizer)
    assert [token.text for token in pieces.tokens] == ["[CLS]", "Venom", "ous", "snake", "lets", "[SEP]"]
    page = shown(pieces, token="Venom", head="L2H4")
    page.get_by_label("whole words").check()
    expect(title(page)).to_have_text("L2H4 · Venomous")
    row = pieces["L2H4"].weights[1:3].mean(0)
    assert [name for name, _ in table(page, "sentence")] == ["[CLS]", "Venomous", "snakelets", "[SEP]"]
    joined = [float(n) for n in (row[0], row[1:3].sum(), row[3:5].sum(), row[5])]
    assert weights(page) == pytest.approx(joined, abs=CLOSE)


def test_arcs_and_columns_show_the_weights_of_a_query_and_of_a_key(page: Page, snake: Trace) -> None:
    widths = page.locator(".arcs path").evaluate_all(
        "all => all.map(path => Number(path.getAttribute('stroke-width')))"
    )
    row = snake["L3H1"]["it"].tolist()
    drawn = [weight for weight in row if weight * 11 >= 0.02]
    assert widths == pytest.approx([max(0.3, 11 * weight) for weight in drawn], abs=1e-3)
    shade = "word => word.style.background"
    first = word(page, "snake").evaluate(shade)
    page.get_by_label("Colour scale").select_option("row")
    expect(view(page, "pattern").locator(".legend")).to_contain_text("each query’s largest weight")
    assert word(page, "snake").evaluate(shade) != first
    page.get_by_label("hide special tokens").check()
    expect(view(page, "sentence").locator(".word")).to_have_count(11)
    expect(word(page, "snake").locator("small")).to_have_text("0.6741")
    expect(view(page, "sentence").locator(".hint")).to_have_text(
        "point at a token to see its weights; click to keep them · hidden tokens keep their weights"
    )
    page.get_by_label("hide special tokens").uncheck()
    page.get_by_role("button", name="columns").click()
    keys = view(page, "sentence").locator(".columns ul:last-child li")
    assert keys.locator("b").all_inner_texts() == [f"{weight:.4f}" for weight in row]
    keys.nth(2).hover()
    looking = view(page, "sentence").locator(".columns ul:first-child b")
    expect(looking.first).not_to_be_empty()
    assert looking.all_inner_texts() == [f"{weight:.4f}" for weight in snake["L3H1"].weights[:, 2].tolist()]
    page.get_by_role("button", name="arcs", exact=True).click()
    page.get_by_role("button", name="all tokens").click()
    expect(title(page)).to_have_text("L3H1 · all tokens")
    expect(page.locator(".arcs path")).to_have_count(int((snake["L3H1"].weights >= 0.02).sum()))


def test_the_map_shows_every_head_s_weight_on_another_word_and_sorts_them(page: Page, snake: Trace) -> None:
    buttons = view(page, "heads").locator(".map button")
    expect(buttons).to_have_count(72)
    wanted = {
        head.name: f"{head.name}: it → {head.keys[key].text} {weight:.4f}"
        for head, key, weight in strongest_other_words(snake.heads(), 7)
    }
    expect(view(page, "heads").locator(".map button[aria-label$='…']")).to_have_count(0)  # every layer is decoded
    labels = buttons.evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert sorted(labels) == sorted(wanted.values())
    chosen = page.get_by_role("button", name=wanted["L2H4"])
    chosen.click()
    expect(title(page)).to_have_text("L2H4 · it")
    expect(chosen).to_have_attribute("aria-current", "true")
    expect(view(page, "heads").locator("button[aria-current=true]")).to_have_count(1)
    page.get_by_role("button", name="patterns").click()
    expect(view(page, "heads").locator(".map canvas")).to_have_count(72)
    page.get_by_label("Sort by").select_option("entropy")
    rows = table(page, "heads")
    for name, _, entropy, distance, *_ in rows:
        head = snake[name]
        assert float(entropy) == pytest.approx(float(head.pattern.entropy()[0, head.head].mean()), abs=2e-4)
        apart = (torch.arange(13)[:, None] - torch.arange(13)).abs()
        assert float(distance) == pytest.approx(float((head.weights * apart).sum(-1).mean()), abs=2e-4)
    assert [float(row[2]) for row in rows] == sorted(float(row[2]) for row in rows)


def test_a_cell_is_read_either_way_round_and_its_circle_is_its_weight(page: Page, snake: Trace) -> None:
    readout = view(page, "pattern").locator(".readout")
    point_at_cell(page, 13 - 1 - 7, 13 - 1 - 2)
    expect(readout).to_have_text("it → snake 0.6741")
    page.keyboard.press("ArrowRight")
    expect(readout).to_have_text(f"it → snake {snake['L3H2']['it', 'snake']:.4f}")
    page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="queries →").click()
    point_at_cell(page, 13 - 1 - 2, 13 - 1 - 7)
    expect(readout).to_have_text("it → snake 0.6741")
    page.get_by_role("button", name="queries ↓").click()
    page.get_by_role("button", name="circles").click()
    page.mouse.move(0, 0)
    size = cell_size(page)
    area = """(canvas, [left, top, size]) => {
        const ratio = devicePixelRatio;
        const box = [left * ratio, top * ratio, size * ratio, size * ratio].map(Math.round);
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const data = copy.getImageData(...box).data;
        let dark = 0;
        for (let i = 0; i < data.length; i += 4) if (data[i + 3] && data[i] < 160) dark += 1;
        return dark / ratio / ratio;
    }"""
    bounds = canvas_of(page).bounding_box()
    assert bounds
    full = math.pi * ((size - 1.5) / 2) ** 2
    for position, token in ((0, "[CLS]"), (2, "snake")):
        place = [bounds["width"] - 1 - (13 - position) * size, bounds["height"] - 1 - (13 - 1) * size, size]
        got = canvas_of(page).evaluate(area, place)
        assert got == pytest.approx(full * snake["L3H1"]["The", token], rel=0.15, abs=6)


def test_a_changed_temperature_and_a_cut_edge_give_what_attend_gives(
    opened: Callable[..., Page], snake_page: Path, snake: Trace
) -> None:
    page = opened(snake_page, address="#temperature=0.5")
    p = snake.encoder[3]
    cold = attend(p.query, p.key, p.value, normalise=Softmax(temperature=0.5)).pattern
    assert weights(page) == pytest.approx(cold[0, 1, 7].tolist(), abs=2e-5)
    page.get_by_role("button", name="undo all changes").click()
    assert weights(page) == pytest.approx(p[0, 1, 7].tolist(), abs=CLOSE)
    page.get_by_role("button", name="cut “it” → “snake”").click()
    keep = torch.ones(13, 13, dtype=torch.bool)
    keep[7, 2] = False
    cut = attend(p.query, p.key, p.value, mask=Keep(keep[None, None])).pattern
    assert weights(page) == pytest.approx(cut[0, 1, 7].tolist(), abs=CLOSE)
    expect(view(page, "what-if").locator(".caption").first).to_have_text("1 edge cut")
    expect(page.locator(".changes-band b")).to_have_text("What if: 1 edge cut · L3H1")
    for name in ("sentence", "pattern", "strongest", "steps"):
        expect(view(page, name).locator("h2 .of-trace")).to_have_text("as you changed it")
    expect(view(page, "heads").locator("h2 .of-trace")).to_have_text("as the model has it")
    steps = view(page, "steps")
    steps.get_by_role("button", name="3 · mask").click()
    expect(steps.locator("[aria-current=step]")).to_have_text("3 · mask")
    expect(steps.locator(".say")).to_have_text(
        "You cut the edge to 1 key: the score becomes −∞, and so the weight 0; the other weights grow."
    )
    expect(steps.locator("tbody th")).to_have_text([token.text for token in snake.tokens])
    steps.get_by_role("button", name="divide").click()
    assert cells(steps.locator("table.steps tbody tr"))[2][3:] == ["−∞", "0.0000", "0.0000"]
    page.get_by_role("button", name="restore “it” → “snake”").click()
    assert weights(page) == pytest.approx(p[0, 1, 7].tolist(), abs=CLOSE)
    expect(page.locator(".changes-band, h2 .of-trace")).to_have_count(0)
    expect(steps.locator(".stages button", has_text="mask")).to_have_count(0)  # the model has no mask


def test_a_masked_word_gets_no_weight_from_any_query(
    opened: Callable[..., Page], snake_page: Path, snake: Trace
) -> None:
    page = opened(snake_page)
    page.get_by_role("button", name="mask “snake” for every token").click()
    p = snake.encoder[3]
    keep = torch.ones(13, 13, dtype=torch.bool)
    keep[:, 2] = False
    masked = attend(p.query, p.key, p.value, mask=Keep(keep[None, None])).pattern
    assert weights(page) == pytest.approx(masked[0, 1, 7].tolist(), abs=CLOSE)
    expect(page.locator(".changes-band b")).to_have_text("What if: 1 token masked · L3H1")
    page.wait_for_function("() => location.hash.includes('cut=*%2C2') || location.hash.includes('cut=*,2')")
    word(page, "venom").click()
    assert weights(page) == pytest.approx(masked[0, 1, 10].tolist(), abs=CLOSE)
    page.keyboard.press("Escape")
    word(page, "it").click()
    page.get_by_role("button", name="unmask “snake”").click()
    assert weights(page) == pytest.approx(p[0, 1, 7].tolist(), abs=CLOSE)


def test_keys_read_every_weight_and_axe_finds_no_faint_word(page: Page, snake: Trace) -> None:
    cells, readout = view(page, "pattern").locator("canvas"), view(page, "pattern").locator(".readout")
    cells.focus()
    for press in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp", "+", "ArrowLeft"):
        page.keyboard.press(press)  # the query "it" and the first key; then 2 keys to the right, a query up, a key back
    expect(readout).to_have_text(f"because → The {snake['L3H1']['because', 'The']:.4f}")
    expect(page).to_have_url(re.compile("pattern-at="))
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("pattern-at="))
    expect(page.get_by_label("Head", exact=True)).to_have_value("1")  # the arrows chose no head
    page.get_by_label("Layer", exact=True).select_option("4")
    page.get_by_label("Head", exact=True).select_option("2")
    view(page, "sentence").locator(".word", has_text="has").click()  # it gives [CLS], a special token, weight 0.32
    assert violations(page, "[data-view=sentence]") == []


def test_everybody_can_use_a_page(page: Page) -> None:
    """Controls have names and are reached by Tab, axe finds nothing, words are Korean, a phone is wide enough."""
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea")].filter(
            (one) => one.checkVisibility() && !one.ariaLabel && !one.textContent.trim() && !one.labels?.length
        ).length"""
    )
    assert unnamed == 0
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.closest('[data-view]')?.dataset.view"))
    assert {"sentence", "heads", "pattern", "strongest", "what-if", "steps"} <= reached
    for name in ("sentence", "heads", "what-if"):
        table(page, name)
    assert violations(page) == []
    page.get_by_role("button", name="columns").click()
    assert violations(page, "[data-view=sentence]") == []
    page.get_by_label("Language").select_option("ko")
    expect(view(page, "heads").locator("h2")).to_have_text("모든 헤드")
    assert page.evaluate("() => document.documentElement.lang") == "ko"
    texts = page.locator("h2, .caption, .hint, button, label, summary").all_inner_texts()
    english = [text for text in texts if any(word in text.split() for word in ("the", "token", "head", "layer", "and"))]
    assert english == []
    page.get_by_label("언어").select_option("en")
    page.set_viewport_size({"width": 360, "height": 900})
    page.wait_for_function("() => document.documentElement.scrollWidth === 360")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 360
        lightness = page.evaluate("() => parseFloat(getComputedStyle(document.body).backgroundColor.split('(')[1])")
        assert lightness < 0.3 if scheme == "dark" else lightness > 0.9


def test_the_pattern_is_zoomed_moved_and_fitted(shown: Callable[..., Page], handmade: Callable[..., Trace]) -> None:
    page = shown(handmade(" ".join(f"word{n}" for n in range(401)), n_layers=1), token="word7", head="L0H1")
    assert page.evaluate("() => document.querySelectorAll('*').length") < 10 * 401
    sizes = page.evaluate("() => [...document.querySelectorAll('canvas')].map((one) => [one.width, one.height])")
    assert all(width <= 1280 and height <= 900 for width, height in sizes)
    expect(page.get_by_label("Colour scale")).to_have_value("row")
    canvas, readout = canvas_of(page), view(page, "pattern").locator(".readout")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    middle = box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.7
    page.mouse.move(*middle)
    expect(readout).not_to_have_class("readout quiet")
    whole = readout.inner_text()
    for name, is_whole in (("larger cells", False), ("fit", True)):
        page.get_by_role("button", name=name, exact=True).click()
        address = re.compile("pattern-at")
        (expect(page).not_to_have_url if is_whole else expect(page).to_have_url)(address)  # the cells are drawn
        page.mouse.move(*middle)
        (expect(readout).to_have_text if is_whole else expect(readout).not_to_have_text)(whole)
        expect(readout).not_to_have_class("readout quiet")
    page.get_by_label("find a token").fill("word149")
    expect(title(page)).to_have_text("L0H1 · word149")
    page.get_by_label("find a token").fill("")
    page.get_by_label("find a token").press_sequentially("word")  # each letter finds the same token again
    expect(view(page, "sentence").locator(".lock")).to_have_text("word0 ✕")
    page.get_by_label("find a token").fill("snake")
    expect(view(page, "pattern").locator(".find")).to_contain_text("not in this text")


def test_a_found_token_is_in_the_middle_also_where_special_tokens_are_hidden(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    trace = handmade(" ".join(f"word{n}" for n in range(401)), n_layers=1)
    special = tuple(replace(token, special=n < 3) for n, token in enumerate(trace.source))
    page = shown(replace(trace, source=special), token="word7", head="L0H1")
    page.get_by_label("hide special tokens").check()
    for _ in range(3):
        page.get_by_role("button", name="larger cells").click()
    page.get_by_label("find a token").fill("word149")
    expect(page).to_have_url(re.compile(r"pattern-at=[\d.]+\+146\.5\+"))  # row 146 of those in view


def test_a_decoder_masks_later_keys_and_its_steps_are_the_pattern_s_own(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    trace = handmade("a b c d e f g", n_layers=1, mask=Causal(), kind="decoder")
    written = (
        WrittenToken(2, trace.target[2], 0.75, (("c", 0.75), ("x", 0.125))),
        WrittenToken(3, trace.target[3], 0.25, (("d", 0.25),)),
    )
    page = shown(replace(trace, written=written), token="e", head="L0H1")
    steps = trace.decoder[0].steps(0, 1, 4)
    panel = view(page, "steps")
    rows = cells(panel.locator("table.steps tbody tr"))
    assert [row[0] for row in rows] == list("abcdefg")
    exponentials = (steps.masked - steps.masked.max()).exp()
    for column, exact in enumerate((steps.products, steps.scores, steps.masked, exponentials, steps.weights), 1):
        assert numbers([row[column] for row in rows]) == pytest.approx(exact.tolist(), abs=6e-5)
    last_column = panel.locator("table.dimensions tbody tr td:last-child")
    context = trace.attended["decoder"][0].context[0, 1, 4].tolist()
    assert numbers(last_column.all_inner_texts()) == pytest.approx(context, abs=6e-5)
    panel.get_by_role("button", name="1 · query · key").click()
    strongest = int(steps.weights.argmax())
    products = trace.decoder[0].query[0, 1, 4] * trace.decoder[0].key[0, 1, strongest]
    assert numbers(last_column.all_inner_texts()) == pytest.approx(products.tolist(), abs=6e-5)
    expect(panel.locator("table.dimensions tfoot td").last).to_have_text(
        f"{float(steps.products[strongest]):.4f}".replace("-", "−")
    )
    for name in ("2 · scale", "3 · mask", "4 · exp", "5 · sum", "6 · divide"):
        panel.get_by_role("button", name="next ›").click()
        expect(panel.locator("[aria-current=step]")).to_have_text(name)
    expect(panel.locator(".say")).to_have_text(
        "Each exponential divided by the sum is the weight; the weights add up to 1."
    )
    assert table(page, "generation") == [["c", "0.75000", "c 0.7500, x 0.1250"], ["d", "0.25000", "d 0.2500"]]
    view(page, "generation").locator(".word").first.click()
    expect(title(page)).to_have_text("L0H1 · b")
    likely = view(page, "generation").locator(".likely")
    expect(likely.locator("p")).to_have_text("Likely tokens at the place of “c” (0.7500):")
    assert likely.locator("li").all_inner_texts() == ["c\n0.7500", "x\n0.1250"]
    assert [row[1] for row in table(page, "sentence")][2:] == ["masked"] * 5
    assert [row[1:3] for row in cells(view(page, "what-if").locator(".changes tbody tr"))][2:] == [["masked"] * 2] * 4
    assert [row[1:] for row in table(page, "what-if")][2:] == [["masked"] * 2] * 5
    expect(page.locator(".masked-legend")).to_be_visible()
    point_at_cell(page, 7 - 1 - 1, 7 - 1 - 3)
    expect(view(page, "pattern").locator(".readout")).to_have_text("b → d masked")


def test_softcap_bias_and_sinks_are_computed_in_the_page(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    trace = handmade("a b c d e", n_layers=1)
    p = trace.encoder[0]
    stages = {"score": ScaledDot(softcap=2.0, bias=Alibi()), "normalise": Softmax(sinks=torch.tensor([1.0, -0.5, 2.0]))}
    step = attend(p.query, p.key[:, :1], p.value[:, :1], mask=Causal(), **stages)
    page = shown(replace(trace, attended={"encoder": {0: step}}), token="d", head="L0H2")
    assert weights(page) == pytest.approx(step.pattern[0, 2, 3].tolist(), abs=CLOSE)
    expect(view(page, "steps").locator("table.steps thead")).to_contain_text("bias")
    expect(view(page, "steps").locator("table.steps tbody")).to_contain_text("sink")


def test_pictures_and_a_recording_lie_under_the_weights(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    trace = handmade("a b c d", n_layers=1)
    places = (
        Patch(0, 0, 0, 16.0, 16.0, thumbnail=True),
        Patch(0, 0, 0, 16.0, 8.0),
        Patch(0, 0, 1, 16.0, 8.0),
        Patch(1, 0, 0, 16.0, 16.0),
    )
    tokens = tuple(Token(f"p{i}", f"p{i}", place=place) for i, place in enumerate(places))
    page = shown(replace(trace, source=tokens, images=tuple(torch.rand(2, 3, 16, 16))), token="p0", head="L0H1")
    row = trace.encoder[0][0, 1, 0].tolist()
    assert weights(page, "medium") == pytest.approx(row, abs=CLOSE)
    panel = view(page, "medium")
    expect(panel.locator("figcaption")).to_have_text(["picture 0", "thumbnail of picture 0", "picture 1"])
    for canvas, position, key in ((0, 150, 2), (1, 150, 0), (2, 150, 3)):
        panel.locator("canvas").nth(canvas).hover(position={"x": position, "y": 20})
        expect(view(page, "pattern").locator(".readout")).to_have_text(f"p0 → p{key} {row[key]:.4f}")
    frames = tuple(Token(f"f{i}", f"f{i}", place=Frame(i / 2, (i + 1) / 2)) for i in range(4))
    page = shown(replace(trace, source=frames, spectrogram=torch.rand(5, 40)), token="f0", head="L0H0")
    assert [row[0] for row in table(page, "medium")][:2] == ["0.00 to 0.50 s", "0.50 to 1.00 s"]
    times = ["0.00 s", "0.50 s", "1.00 s", "1.50 s", "2.00 s"]
    expect(view(page, "medium").locator(".times span")).to_have_text(times)
    page.set_viewport_size({"width": 360, "height": 900})
    box = view(page, "medium").locator("canvas").bounding_box()
    assert box
    assert (box["width"] < 360, box["height"]) == (True, 140)  # a spectrogram stays as high in a narrow window
    page.set_viewport_size({"width": 1280, "height": 900})
    page = shown(replace(trace, source=frames), token="f0", head="L0H0")  # a model that reads the waveform
    assert weights(page, "medium") == pytest.approx(trace.encoder[0][0, 0, 0].tolist(), abs=CLOSE)
    expect(view(page, "medium").locator(".times span")).to_have_text(times)
    seconds = [{"start_seconds": i / 2, "end_seconds": (i + 1) / 2} for i in range(4)]
    patches = tuple(Token(f"p{i}", f"p{i}", place=Patch(0, 0, i, 16.0, 4.0, **seconds[i])) for i in range(4))
    page = shown(replace(trace, source=patches, images=(torch.rand(3, 16, 16),)), token="p0", head="L0H0")
    expect(view(page, "medium").locator(".times span")).to_have_text(times)


def test_the_colours_of_a_picture_are_scaled_to_its_weights(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    trace = handmade("a b c d e", n_layers=1)
    places = [None, *(Patch(0, i // 2, i % 2, 8.0, 8.0) for i in range(4))]
    tokens = tuple(Token(f"p{i}", f"p{i}", special=place is None, place=place) for i, place in enumerate(places))
    weights = [0.202, 0.198, 0.199, 0.200, 0.201]
    key = torch.tensor(weights).log().view(1, 1, 5, 1)
    seen = attend(torch.ones(1, 1, 5, 1), key, key, score=ScaledDot(scale=1.0))
    grey = torch.full((3, 16, 16), 0.5)
    picture = replace(trace, source=tokens, images=(grey,), attended={"encoder": {0: seen}})
    page = shown(picture, token="p1", head="L0H0")
    legends = view(page, "medium").locator(".legend")
    expect(legends).to_have_text(["0.1980 0.2010", "largest weights on other tokens: p0 0.2020"])
    colour = """(canvas, [x, y]) => {
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      return [...copy.getImageData(x * canvas.width, y * canvas.height, 1, 1).data];
    }"""
    canvas = view(page, "medium").locator("canvas")
    drawn = [canvas.evaluate(colour, [x, y]) for y in (0.25, 0.75) for x in (0.25, 0.75)]
    chroma = [max(pixel[:3]) - min(pixel[:3]) for pixel in drawn]
    assert chroma == sorted(chroma)
    assert chroma[0] < 30 < 100 < chroma[3]


def test_the_border_of_a_picture_can_be_left_out_of_the_colours(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    places = [Patch(0, i // 3, i % 3, 8.0, 8.0) for i in range(9)]  # only patch 4 does not touch the border
    tokens = tuple(Token(f"p{i}", f"p{i}", place=place) for i, place in enumerate(places))
    trace = handmade(" ".join(token.text for token in tokens), n_layers=1)
    page = shown(replace(trace, source=tokens, images=(torch.full((3, 24, 24), 0.5),)), token="p0", head="L0H0")
    medium = view(page, "medium")
    row = trace.encoder[0][0, 0, 0]
    expect(medium.locator(".legend").first).to_have_text(f"{row.min():.4f} {row.max():.4f}")
    chroma = """(canvas) => {
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      const of = (x, y) => copy.getImageData((x + 0.5) * canvas.width / 3, (y + 0.5) * canvas.height / 3, 1, 1).data;
      return [0, 1, 2].flatMap((y) => [0, 1, 2].map((x) => Math.max(...of(x, y)) - Math.min(...of(x, y).slice(0, 3))));
    }"""
    medium.get_by_label("leave out the border").check()
    expect(medium.locator(".legend").first).to_have_text(f"{row[4]:.4f} {row[4]:.4f}")
    coloured = medium.locator("canvas").evaluate(chroma.replace("of(x, y)) -", "of(x, y).slice(0, 3)) -"))
    assert [place for place, one in enumerate(coloured) if one > 60] == [4]
    assert weights(page, "medium") == pytest.approx(row.tolist(), abs=CLOSE)  # the numbers stay


def test_the_address_restores_what_was_shown(opened: Callable[..., Page], snake_page: Path) -> None:
    page = opened(snake_page, address="#head=L2H5&query=4&locked=1&words=1&hidden=1&scale=log&temperature=2")
    expect(title(page)).to_have_text("L2H5 · very as you changed it")
    expect(page.locator(".lock")).to_have_text("very ✕")
    for name in ("whole words", "hide special tokens"):
        expect(page.get_by_label(name)).to_be_checked()
    expect(page.get_by_label("Colour scale")).to_have_value("log")
    page.keyboard.press("ArrowRight")
    expect(title(page)).to_have_text("L2H6 · very as you changed it")
    page.wait_for_function("() => location.hash.includes('head=L2H6')")
    assert page.evaluate("() => location.hash") == (
        "#head=L2H6&query=4&locked=1&scale=log&hidden=1&words=1&temperature=2"
    )


@pytest.mark.parametrize(
    "address", ["#head=L9H9&query=999&cut=a,b%20c&scale=blue", "#head=x&query=-1&kind=none&temperature=0"]
)
def test_an_address_that_fits_nothing_is_left_aside(
    opened: Callable[..., Page], snake_page: Path, snake: Trace, address: str
) -> None:
    page = opened(snake_page, address=address)
    expect(title(page)).to_have_text("L3H1 · it")
    assert weights(page) == pytest.approx(snake["L3H1"]["it"].tolist(), abs=CLOSE)


def test_the_text_can_hold_markup_and_one_of_several_words_is_called_by_its_number(
    shown: Callable[..., Page], handmade: Callable[..., Trace]
) -> None:
    text = "A <script>alert(1)</script> </script> it <img/src=x/onerror=alert(2)> &amp; it"
    page = shown(handmade(text), token="it:2", head="L0H1")
    expect(page.locator("h1")).to_have_text(text)
    assert view(page, "sentence").locator(".word bdi").all_inner_texts() == text.split()
    assert page.locator("img").count() == 0
    expect(title(page)).to_have_text("L0H1 · it:2")
    names = page.locator(".top li span:first-of-type").all_inner_texts()
    assert {"it:1", "it:2"} <= {*names} <= {*text.split(), "it:1", "it:2"} - {"it"}
    page.get_by_role("button", name="all tokens").click()
    expect(view(page, "strongest").locator("h2")).to_have_text("The largest weights in L0H1")
    assert all("→" in name for name in page.locator(".top li span:first-of-type").all_inner_texts())


def test_a_translation_chooses_its_kind_of_attention(shown: Callable[..., Page], translated: Trace) -> None:
    first, *others = translated.target
    page = shown(replace(translated, target=(replace(first, special=True), *others)), token="chat", head="L1H2")
    expect(page.locator(".target")).to_have_text("le chat est assis là !")
    expect(page.locator(".note")).to_have_text(
        "A query is a token just read; its weights help to predict the token after it."
    )
    expect(page.locator(".facts")).to_have_text("toy · 2 layers × 3 heads · 5 source and 6 target tokens")
    expect(page.locator(".masked-legend")).to_have_count(0)
    assert weights(page) == pytest.approx(translated["cross L1H2"]["chat"].tolist(), abs=CLOSE)
    page.get_by_label("Attention", exact=True).select_option("decoder")
    expect(title(page)).to_have_text("L0H2 · chat")
    expect(page.locator(".masked-legend")).to_be_visible()
    page.get_by_label("Attention", exact=True).select_option("encoder")
    expect(title(page)).to_have_text("L0H2 · all tokens")
    expect(page.locator(".note")).to_have_count(0)
    word(page, "cat").hover()
    assert weights(page) == pytest.approx(translated["encoder L0H2"]["cat"].tolist(), abs=CLOSE)


def test_layers_of_different_numbers_of_heads(shown: Callable[..., Page], uneven: Trace) -> None:
    page = shown(uneven, head="L4H3")
    expect(page.locator(".facts")).to_have_text("handmade · 2 layers × 2–4 heads · 3 tokens")
    page.get_by_label("Layer", exact=True).select_option("1")
    expect(title(page)).to_contain_text("L1H1")


def test_a_page_that_was_out_of_sight_draws_itself_when_it_is_seen(
    opened: Callable[..., Page], snake: Trace, tmp_path: Path
) -> None:
    """Where no frame may be, as in a notebook that is not trusted, a picture is shown in its place."""
    frame, path = notebook_frame(snake), tmp_path / "frame.html"
    path.write_text(f'<meta charset="utf-8"><div hidden>{frame}</div>')
    page = opened(path)
    inner = page.frame_locator("iframe")
    expect(inner.locator(".top li")).not_to_have_count(0)
    page.evaluate("() => { document.querySelector('div').hidden = false; }")
    expect(inner.locator(".arcs path")).not_to_have_count(0)
    widest = "paths => Math.max(...paths.map(path => path.getBoundingClientRect().width)) > 200"
    page.frames[1].wait_for_function(f"() => ({widest})([...document.querySelectorAll('.arcs path')])")
    page.frames[1].wait_for_function("() => document.querySelector('[data-view=pattern] canvas').width > 200")
    without_frame = re.sub("<iframe.*?</iframe>", "", frame, flags=re.DOTALL)
    page.evaluate("html => { document.querySelector('div').innerHTML = html; }", without_frame)
    picture = page.locator("img")
    size = picture.evaluate("async one => (await one.decode(), [one.naturalWidth, one.naturalHeight])")
    assert min(size) > 500
    expect(page.get_by_alt_text(repr(snake))).to_be_visible()


def test_every_view_is_saved_as_a_picture(page: Page, tmp_path: Path) -> None:
    for name, ending in product(("sentence", "pattern", "heads", "steps"), ("svg", "png")):
        path = saved(page, name, ending, tmp_path)
        assert path.name == f"regard-{name}-L3H1.{ending}"
        if ending == "png":
            with Image.open(path) as picture:
                panel = view(page, name).bounding_box()
                assert panel
                assert picture.width == pytest.approx(2 * panel["width"], abs=4)
                darkest, lightest = picture.convert("L").getextrema()
                assert lightest - darkest > 100  # not a blank sheet
        else:
            assert xml.etree.ElementTree.parse(path).getroot().tag.endswith("svg")


def test_numbers_that_were_rounded_more_are_marked(
    shown: Callable[..., Page], handmade: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "PAGE_BYTES", 0)
    trace = handmade(" ".join("abcdefghijklmnopqrstuvw"), n_layers=1)
    p = trace.encoder[0]
    bias = torch.zeros(3, 23, 23)
    bias[:, 5, 3] = 1e-9  # depends on more than the distance, so that the page has weights
    step = attend(p.query, p.key, p.value, score=ScaledDot(bias=bias))
    page = shown(replace(trace, attended={"encoder": {0: step}}), token="b", head="L0H1")
    expect(page.locator(".precision")).to_have_text(
        "Weights of at least 0.01 are given to four decimals; smaller ones, marked ≈, are rounded to multiples of "
        "0.005, so that all heads of so long a text fit into one page."
    )
    page.get_by_role("button", name="columns").click()
    row = trace["L0H1"]["b"]
    texts = view(page, "sentence").locator(".columns ul:last-child b").all_inner_texts()
    for text, exact in zip(texts, row.tolist(), strict=True):
        assert text.startswith("≈") == (exact <= 0.01)
        assert abs(float(text.removeprefix("≈")) - exact) <= (0.0025 if exact < 0.01 else 0.00005)
    expect(view(page, "steps")).to_contain_text("choose such a head")
    expect(view(page, "what-if")).to_contain_text("Only weights that are a softmax")


def test_no_head_is_called_without_steps_before_its_layer_is_decoded(browser: Browser, snake_page: Path) -> None:
    page = browser.new_page()
    page.add_init_script("""new MutationObserver(() => {
        window.refused ||= !!document.querySelector("[data-view=steps]")?.textContent.includes("choose such a head");
    }).observe(document, { childList: true, subtree: true, characterData: true })""")
    page.goto(snake_page.as_uri())
    expect(view(page, "steps")).to_contain_text("Point at a number")
    assert not page.evaluate("window.refused")
    page.close()
