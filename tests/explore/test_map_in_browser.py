"""Tests of the map of a long text in a browser: the numbers it shows at every zoom equal Python's."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from axe import violations
from page_state import assert_link_restores
from playwright.sync_api import Locator, Page, Request, Route, expect
from running_explorer import Running

from regard import Causal, Trace
from regard.attention import pyramid
from regard.explore import map as module
from regard.explore.session import Session
from regard.views.page import data

TOKENS = 1501
LEFT, TOP, HEIGHT = 118, 104, 640
"""The left and top margins with the labels, and the height of labels and map, in pixels."""

EDGE = 8
"""Pixels at the right and at the bottom of the canvas, outside of the map."""

BASE = (HEIGHT - TOP) / TOKENS
"""The size of the square of one weight in pixels when the whole map is shown."""


PIXEL = 3
"""The number of weights along one pixel when the whole map is shown."""


@pytest.fixture(scope="module")
def long(handmade: Callable[..., Trace]) -> Trace:
    """A trace of 1,501 tokens."""
    return handmade(" ".join(f"w{n}" for n in range(TOKENS)), mask=Causal(), kind="decoder")


@pytest.fixture(scope="module")
def weights(long: Trace) -> torch.Tensor:
    """The weights of the head that the map first shows, by softmax in float64."""
    call = long.decoder[0].call
    scores = call.query.double()[0, 0] @ call.key.double()[0, 0].mT / 5**0.5
    return torch.softmax(scores.masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), -torch.inf), dim=-1)


@pytest.fixture(scope="module")
def running(long: Trace, serving: Callable[..., Running]) -> Iterator[Running]:
    """A running explorer that shows the trace as a map, of which level 2 and higher ones are stored."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(data, "MOST_TOKENS", 1500)
        patched.setattr(pyramid, "STORED_LEVEL", 2)
        patched.setattr(module, "STORED_LEVEL", 2)
        yield serving(Session(None, long))


@pytest.fixture
def page(tab: Page, running: Running) -> Page:
    """The page of the map, once all levels are there."""
    tab.set_viewport_size({"width": 1280, "height": 1000})
    tab.goto("about:blank")
    tab.goto(f"http://{running.host}/")
    expect(canvas(tab)).to_have_attribute("data-level", "2")
    expect(tab.locator(".turns")).to_have_count(0)
    return tab


def view(page: Page) -> Locator:
    return page.locator("[data-view=pattern]")


def canvas(page: Page) -> Locator:
    return view(page).locator("canvas")


@contextmanager
def routed(page: Page, address: str, answer: Callable[[Route], None]) -> Iterator[None]:
    """Answer the requests to an address in place of the server."""
    page.route(address, answer)
    yield
    page.unroute(address)


def read(page: Page, query: int, key: int, size: float, x: float = 0, y: float = 0) -> str:
    """Point at the weight of a query on a key; return the text that the page shows when the weight is loaded."""
    canvas(page).hover(position={"x": LEFT + x + (key + 0.5) * size, "y": TOP + y + (query + 0.5) * size})
    readout = view(page).locator(".readout")
    expect(readout).to_have_text(re.compile(r"[0-9]"))
    return readout.inner_text()


def number(text: str) -> float:
    """Return the number at the end of the shown text, whose exponent may have a typographic minus sign."""
    return float(text.split()[-1].replace("−", "-"))


@pytest.mark.parametrize(("pool", "reduce"), [("largest", F.max_pool2d), ("mean", F.avg_pool2d)])
def test_numbers_are_read_at_three_zooms(page: Page, weights: torch.Tensor, pool: str, reduce: Callable) -> None:
    view(page).get_by_role("button", name=f"{pool} weight").click()
    square = "queries 1,200–1,203, keys 400–403"
    assert read(page, 1202, 401, BASE) == f"{square}: the {pool} weight is {read(page, 1202, 401, BASE).split()[-1]}"
    wanted = float(reduce(weights[None, 1200:1204, 400:404], 4))
    assert number(read(page, 1202, 401, BASE)) == pytest.approx(wanted, rel=1e-5)
    assert read(page, 400, 1202, BASE) == "queries 400–403, keys 1,200–1,203: masked"
    view(page).get_by_label("find a token").fill("w1202")  # cells of 24 pixels, with the token's own key in the middle
    expect(canvas(page)).to_have_attribute("data-level", "0")
    middle = {"x": LEFT + (canvas(page).bounding_box()["width"] - LEFT - EDGE) / 2, "y": TOP + (HEIGHT - TOP) / 2}
    canvas(page).hover(position={"x": middle["x"] - 48, "y": middle["y"]})
    expect(view(page).locator(".readout")).to_have_text(re.compile(r"^1,202 w1202 → 1,200 w1200 [0-9.e−]+$"))
    assert number(view(page).locator(".readout").inner_text()) == pytest.approx(float(weights[1202, 1200]), rel=1e-5)
    for _ in range(5):
        view(page).get_by_role("button", name="smaller").click()
    expect(canvas(page)).to_have_attribute("data-level", "1")
    canvas(page).hover(position=middle)
    expect(view(page).locator(".readout")).to_have_text(re.compile(rf"^queries .*: the {pool} weight is "))
    place = view(page).locator(".readout").inner_text().replace(",", "")
    row, column = map(int, re.findall(r"([0-9]+)–", place))
    wanted = float(reduce(weights[None, row : row + 2, column : column + 2], 2))
    assert number(view(page).locator(".readout").inner_text()) == pytest.approx(wanted, rel=1e-5)


def test_queries_are_columns_too(page: Page, weights: torch.Tensor) -> None:
    view(page).get_by_role("button", name="queries →").click()
    canvas(page).hover(position={"x": LEFT + 1202.5 * BASE, "y": TOP + 401.5 * BASE})
    readout = view(page).locator(".readout")
    expect(readout).to_have_text(re.compile("^queries 1,200–1,203, keys 400–403: the largest weight is [0-9]"))
    assert number(readout.inner_text()) == pytest.approx(float(weights[1200:1204, 400:404].max()), rel=1e-5)
    canvas(page).click(position={"x": LEFT + 900.5 * BASE, "y": TOP + 50})
    heading = page.locator("[data-view=strongest] h2")
    expect(heading).to_have_text(re.compile("^Where “w[89][0-9]+” looks most in L0H0$"))
    query = int(heading.inner_text().split("”")[0].split("w")[1])
    assert abs(query - 900) <= PIXEL
    page.locator("[data-view=strongest] li button").nth(1).click()
    key = int(weights[query].topk(2).indices[1])
    middle = {"x": LEFT + (canvas(page).bounding_box()["width"] - LEFT - EDGE) / 2, "y": TOP + (HEIGHT - TOP) / 2}
    for name in ("queries →", "queries ↓"):  # the same weight stays in the middle
        view(page).get_by_role("button", name=name).click()
        canvas(page).hover(position=middle)
        expect(readout).to_have_text(re.compile(f"^{query} w{query} → {key:,} w{key} "))
        assert number(readout.inner_text()) == pytest.approx(float(weights[query, key]), rel=1e-5)


def test_the_colours_of_a_map_are_mirrored_when_it_is_turned(page: Page) -> None:
    script = """(canvas, [left, top, side]) => {
        const { data } = canvas.getContext("2d").getImageData(left, top, side, side);
        return Array.from({ length: side * side }, (_, i) => data.slice(4 * i, 4 * i + 3).join());
    }"""
    expect(page.locator("[data-view=strongest] li")).to_have_count(8)
    page.get_by_label("find a token").fill("w0")  # the first query, whose line and ring are small
    view(page).get_by_role("button", name="fit").click()
    found = []
    for name in ("queries ↓", "queries →"):
        view(page).get_by_role("button", name=name).click()
        page.wait_for_timeout(300)
        found.append(canvas(page).evaluate(script, [LEFT + 12, TOP + 12, 500]))
    rows, turned = found
    assert len(set(rows)) > 100
    same = sum(rows[500 * y + x] == turned[500 * x + y] for y in range(500) for x in range(500))
    assert same > 0.99 * 500**2  # a pixel between two cells may take the colour of either


def test_the_table_has_the_largest_cells_in_view(page: Page, weights: torch.Tensor) -> None:
    page.wait_for_load_state("networkidle")  # every tile is there
    view(page).locator(".numbers summary").click()
    expect(view(page).locator(".numbers tbody tr")).to_have_count(200)
    rows = (
        view(page)
        .locator(".numbers tbody tr")
        .evaluate_all("rows => rows.map(row => [...row.cells].map(c => c.textContent))")
    )
    pooled = F.max_pool2d(weights[None], 4, ceil_mode=True)[0]
    assert [number(row[2]) for row in rows] == pytest.approx(pooled.flatten().topk(200).values.tolist(), rel=1e-5)
    for queries, keys, shown in rows[:20]:
        row, column = (int(span.split("–")[0].replace(",", "")) // 4 for span in (queries, keys))
        assert number(shown) == pytest.approx(float(pooled[row, column]), rel=1e-5)


def test_a_chosen_query_shows_its_strongest_keys_and_jumps_to_them(page: Page, weights: torch.Tensor) -> None:
    canvas(page).click(position={"x": LEFT + 50, "y": TOP + 900.5 * BASE})
    items = page.locator("[data-view=strongest] li")
    heading = page.locator("[data-view=strongest] h2")
    expect(heading).to_have_text(re.compile("^Where “w[89][0-9]+” looks most in L0H0$"))
    query = int(heading.inner_text().split("”")[0].split("w")[1])
    assert abs(query - 900) <= PIXEL
    best = weights[query].topk(8)
    expect(items.first).to_have_text(re.compile(f"^{int(best.indices[0]):,} w{int(best.indices[0])}"))
    texts = items.locator("span").all_inner_texts()
    assert texts[0::2] == [f"{key:,} w{key}" for key in best.indices.tolist()]
    assert [number(text) for text in texts[1::2]] == pytest.approx(best.values.tolist(), rel=1e-5)
    items.nth(1).locator("button").click()
    expect(canvas(page)).to_have_attribute("data-level", "0")
    middle = {"x": LEFT + (canvas(page).bounding_box()["width"] - LEFT - EDGE) / 2, "y": TOP + (HEIGHT - TOP) / 2}
    canvas(page).hover(position=middle)
    key = int(best.indices[1])
    expect(view(page).locator(".readout")).to_have_text(re.compile(f"^{query} w{query} → {key:,} w{key} "))
    assert number(view(page).locator(".readout").inner_text()) == pytest.approx(float(best.values[1]), rel=1e-5)


def test_the_keyboard_zooms_moves_and_chooses(page: Page, long: Trace) -> None:
    canvas(page).focus()
    for _ in range(4):
        page.keyboard.press("+")
    expect(canvas(page)).to_have_attribute("data-level", "0")
    before = view(page).locator(".readout").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(view(page).locator(".readout")).not_to_have_text(before)
    page.keyboard.press("Enter")
    query = view(page).locator(".readout").inner_text().split()[1]
    expect(page.locator("[data-view=strongest] h2")).to_contain_text(f"“{query}”")
    expect(page.get_by_label("Head", exact=True)).to_have_value("0")  # arrows chose no head
    page.keyboard.press("0")
    expect(canvas(page)).to_have_attribute("data-level", "2")


def test_a_weight_stays_under_the_pointer_while_the_wheel_zooms(page: Page) -> None:
    for _ in range(3):
        canvas(page).hover(position={"x": LEFT + 300.5 * BASE, "y": TOP + 1100.5 * BASE})
        page.mouse.wheel(0, -500)
        page.wait_for_timeout(50)
    expect(canvas(page)).to_have_attribute("data-level", "0")
    canvas(page).hover(position={"x": LEFT + 300.5 * BASE, "y": TOP + 1100.5 * BASE})
    expect(view(page).locator(".readout")).to_have_text(re.compile("^1,[0-9]+ w1[0-9]+ → "))
    query, key = re.findall("w([0-9]+)", view(page).locator(".readout").inner_text())
    assert (int(query), int(key)) == (pytest.approx(1100, abs=PIXEL), pytest.approx(300, abs=PIXEL))


def test_another_head_has_its_own_map(page: Page, long: Trace) -> None:
    page.get_by_label("Head", exact=True).select_option("2")
    expect(page.locator(".turns")).to_have_count(0)
    wanted = float(long.decoder[0][0, 2, 1200:1204, 400:404].max())
    expect(view(page).locator("h2")).to_be_visible()
    assert number(read(page, 1202, 401, BASE)) == pytest.approx(wanted, rel=1e-5)


def test_the_average_over_heads_has_its_own_map(page: Page, long: Trace) -> None:
    page.get_by_label("Head", exact=True).select_option("average")
    expect(page.locator(".turns")).to_have_count(0)
    mean = long.decoder[0][0, :, 1200:1204].mean(dim=0)
    assert number(read(page, 1202, 401, BASE)) == pytest.approx(float(mean[:, 400:404].max()), rel=1e-5)
    expect(page.locator("[data-view=strongest] h2")).to_have_text("Where “w1500” looks most in L0 average")
    strongest = page.locator("[data-view=strongest] li span").all_inner_texts()[1::2]
    wanted = long.decoder[0][0, :, 1500].mean(dim=0).topk(8).values.tolist()
    assert [number(text) for text in strongest] == pytest.approx(wanted, rel=1e-5)


def test_tiles_of_another_head_are_requested_once_its_levels_are_computed(page: Page) -> None:
    """Earlier requests would be refused or canceled."""
    ended = []

    def note(request: Request) -> None:
        address = request.url.rpartition("/")[2]
        if '"head":2' in request.post_data and address in ("turn", "tile"):
            ended.append((address, request.failure))

    for event in ("requestfinished", "requestfailed"):
        page.on(event, note)
    page.get_by_label("Head", exact=True).select_option("2")
    read(page, 1202, 401, BASE)
    for event in ("requestfinished", "requestfailed"):
        page.remove_listener(event, note)
    assert ended[0] == ("turn", None)
    assert ("tile", None) in ended
    assert {failure for _, failure in ended} == {None}


def test_the_first_token_is_left_out_of_the_map(page: Page, weights: torch.Tensor) -> None:
    page.get_by_label("hide the first token").check()
    expect(page.locator(".turns")).to_have_count(0)
    size = (HEIGHT - TOP) / (TOKENS - 1)
    square = "queries 1,201–1,204, keys 401–404"
    wanted = float(weights[1201:1205, 401:405].max())
    text = read(page, 1202, 401, size)
    assert text.startswith(f"{square}: the largest weight is ")
    assert number(text) == pytest.approx(wanted, rel=1e-5)
    items = page.locator("[data-view=strongest] li span").all_inner_texts()
    best = weights[1500, 1:].topk(8)
    keys = [key + 1 for key in best.indices.tolist()]
    assert items[0::2] == [f"{key:,} w{key}" for key in keys]
    place = next(place for place, key in enumerate(keys) if 100 < key < 1400)  # far from the map's edges
    page.locator("[data-view=strongest] li button").nth(place).click()
    expect(canvas(page)).to_have_attribute("data-level", "0")
    middle = {"x": LEFT + (canvas(page).bounding_box()["width"] - LEFT - EDGE) / 2, "y": TOP + (HEIGHT - TOP) / 2}
    canvas(page).hover(position=middle)
    readout = view(page).locator(".readout")
    expect(readout).to_have_text(re.compile(f"^1,[0-9]+ w1[0-9]+ → {items[2 * place]} "))
    query = int(readout.inner_text().split()[1].removeprefix("w"))
    assert number(readout.inner_text()) == pytest.approx(float(weights[query, keys[place]]), rel=1e-5)
    canvas(page).click(position=middle)
    expect(page.locator("[data-view=strongest] h2")).to_have_text(f"Where “w{query}” looks most in L0H0")


def test_the_computation_is_stopped_and_goes_on(
    tab: Page, serving: Callable[..., Running], long: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MOST_TOKENS", 1500)
    monkeypatch.setattr(module, "TURN_SECONDS", -1.0)  # a row a turn
    tab.goto(f"http://{serving(Session(None, long)).host}/")
    tab.get_by_role("button", name="cancel").click()
    expect(tab.locator(".turns")).to_contain_text("the computation of the whole map has stopped at")
    percent = tab.locator(".turns span").inner_text()
    tab.wait_for_timeout(300)
    assert tab.locator(".turns span").inner_text() == percent
    monkeypatch.setattr(module, "TURN_SECONDS", 0.5)
    tab.get_by_role("button", name="continue").click()
    expect(tab.locator(".turns")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_and_it_fits_a_narrow_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert violations(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_map_speaks_korean(page: Page) -> None:
    page.get_by_label("Language").select_option("ko")
    expect(page.locator("main > .caption")).to_contain_text("글이 토큰 1,501개여서")
    expect(view(page).locator(".legend")).to_contain_text("칸 하나는 가중치 4 × 4개의 최댓값입니다.")
    page.get_by_label("언어").select_option("en")


def busy(route: Route) -> None:
    route.fulfill(status=503, body="busy", headers={"Content-Type": "text/plain"})


def test_a_tile_that_did_not_load_is_asked_for_again(page: Page) -> None:
    notice = view(page).locator(".notice")
    with routed(page, "**/map/tile", busy):
        page.get_by_label("Head", exact=True).select_option("1")
        expect(notice).to_have_text("A part of the map could not be loaded and is being requested again: busy")
    expect(notice).to_have_count(0)
    read(page, 1202, 401, BASE)
    read(page, 400, 1202, BASE)


def test_other_tiles_load_while_one_is_missing(page: Page) -> None:
    def fails(route: Route) -> None:
        place = route.request.post_data_json
        (busy if (place["level"], place["row"], place["column"]) == (2, 1, 0) else Route.continue_)(route)

    notice = view(page).locator(".notice")
    with routed(page, "**/map/tile", fails):
        page.get_by_label("Head", exact=True).select_option("1")
        expect(notice).to_have_text("A part of the map could not be loaded: busy try again")  # after four times
        assert read(page, 400, 1202, BASE) == "queries 400–403, keys 1,200–1,203: masked"
        canvas(page).hover(position={"x": LEFT + 401.5 * BASE, "y": TOP + 1202.5 * BASE})
        expect(view(page).locator(".readout")).to_have_text("…")
    notice.get_by_role("button", name="try again").click()
    expect(notice).to_have_count(0)
    read(page, 1202, 401, BASE)


def test_the_failure_of_a_head_is_not_shown_beside_the_next(page: Page) -> None:
    fails = lambda route: (busy if route.request.post_data_json["head"] == 1 else Route.continue_)(route)  # noqa: E731
    with routed(page, "**/map/turn", fails):
        page.get_by_label("Head", exact=True).select_option("1")
        expect(page.locator(".turns [role=alert]")).to_have_text("busy")
        page.get_by_label("Head", exact=True).select_option("2")
        expect(page.locator(".turns")).to_have_count(0)
    page.get_by_label("Layer", exact=True).select_option("1")
    expect(page.get_by_text("busy")).to_have_count(0)


def test_strongest_keys_that_cannot_be_asked_for_say_why(page: Page) -> None:
    panel = page.locator("[data-view=strongest]")
    with routed(page, "**/map/strongest", busy):
        canvas(page).click(position={"x": LEFT + 50, "y": TOP + 900.5 * BASE})
        expect(panel.locator(".notice")).to_have_text("busy try again")
        expect(panel.locator("li")).to_have_count(0)
    panel.get_by_role("button", name="try again").click()
    expect(panel.locator("li")).to_have_count(8)
    expect(panel.locator(".notice")).to_have_count(0)


def test_the_label_of_the_last_query_is_whole_in_a_narrow_window(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 900})
    expect(canvas(page)).to_have_attribute("data-level", "3")
    script = """(canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, canvas.height - 16, 94, 16);
        return Array.from({ length: 16 }, (_, y) => data.slice(4 * 94 * y, 4 * 94 * (y + 1)).some(Boolean));
    }"""
    inked = canvas(page).evaluate(script)
    assert any(inked)
    assert not inked[-1]


def test_a_link_restores_the_map(page: Page) -> None:
    assert_link_restores(
        page,
        [
            lambda page: page.get_by_label("Head", exact=True).select_option("2"),
            lambda page: page.get_by_label("Head", exact=True).select_option("average"),
            lambda page: page.get_by_label("Colour scale").select_option("absolute"),
            lambda page: view(page).get_by_role("button", name="mean weight").click(),
            lambda page: view(page).get_by_role("button", name="queries →").click(),
            lambda page: page.get_by_label("hide the first token").check(),
            lambda page: canvas(page).click(position={"x": LEFT + 50, "y": TOP + 900.5 * BASE}),
            lambda page: view(page).get_by_role("button", name="larger cells").click(),
            lambda page: page.locator("[data-view=strongest] li button").nth(3).click(),
        ],
    )
