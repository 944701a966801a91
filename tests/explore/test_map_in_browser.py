"""Tests of the map of a long text in a browser: the numbers it shows at every zoom equal Python's."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from axe import violations
from page_state import assert_link_restores
from page_views import number, numbers, table, view
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


def pattern(page: Page) -> Locator:
    return view(page, "pattern")


def canvas(page: Page) -> Locator:
    return pattern(page).locator("canvas")


def middle(page: Page) -> dict[str, float]:
    width = canvas(page).bounding_box()["width"]
    return {"x": LEFT + (width - LEFT - EDGE) / 2, "y": TOP + (HEIGHT - TOP) / 2}


def listed(page: Page) -> tuple[list[str], list[float]]:
    texts = view(page, "strongest").locator("li span").all_inner_texts()
    return texts[0::2], numbers(texts[1::2])


@contextmanager
def routed(page: Page, address: str, answer: Callable[[Route], None]) -> Iterator[None]:
    """Answer the requests to an address in place of the server."""
    page.route(address, answer)
    yield
    page.unroute(address)


def read(page: Page, query: int, key: int, size: float, x: float = 0, y: float = 0) -> str:
    """Point at the weight of a query on a key; return the text that the page shows when the weight is loaded."""
    canvas(page).hover(position={"x": LEFT + x + (key + 0.5) * size, "y": TOP + y + (query + 0.5) * size})
    readout = pattern(page).locator(".readout")
    expect(readout).to_have_text(re.compile(r"[0-9]"))
    return readout.inner_text()


def last_number(text: str) -> float:
    return number(text.split()[-1])


def test_numbers_are_read_at_three_zooms(page: Page, weights: torch.Tensor) -> None:
    readout = pattern(page).locator(".readout")
    square = "queries 1,200–1,203, keys 400–403"
    for pool, reduce in (("largest", F.max_pool2d), ("mean", F.avg_pool2d)):
        pattern(page).get_by_role("button", name=f"{pool} weight").click()
        pattern(page).get_by_role("button", name="fit").click()
        expect(canvas(page)).to_have_attribute("data-level", "2")
        text = read(page, 1202, 401, BASE)
        assert text.startswith(f"{square}: the {pool} weight is ")
        assert last_number(text) == pytest.approx(float(reduce(weights[None, 1200:1204, 400:404], 4)), rel=1e-5)
        assert read(page, 400, 1202, BASE) == "queries 400–403, keys 1,200–1,203: masked"
        find = pattern(page).get_by_label("find a token")
        find.fill("")
        find.fill("w1202")  # cells of 24 pixels, with the token's own key in the middle
        expect(canvas(page)).to_have_attribute("data-level", "0")
        aside = middle(page) | {"x": middle(page)["x"] - 48}
        canvas(page).hover(position=aside)
        expect(readout).to_have_text(re.compile(r"^1,202 w1202 → 1,200 w1200 [0-9.e−]+$"))
        assert last_number(readout.inner_text()) == pytest.approx(float(weights[1202, 1200]), rel=1e-5)
        for _ in range(5):
            pattern(page).get_by_role("button", name="smaller").click()
        expect(canvas(page)).to_have_attribute("data-level", "1")
        canvas(page).hover(position=middle(page))
        expect(readout).to_have_text(re.compile(rf"^queries .*: the {pool} weight is "))
        row, column = map(int, re.findall(r"([0-9]+)–", readout.inner_text().replace(",", "")))
        wanted = float(reduce(weights[None, row : row + 2, column : column + 2], 2))
        assert last_number(readout.inner_text()) == pytest.approx(wanted, rel=1e-5)


def test_queries_are_columns_too(page: Page, weights: torch.Tensor) -> None:
    pattern(page).get_by_role("button", name="queries →").click()
    canvas(page).hover(position={"x": LEFT + 1202.5 * BASE, "y": TOP + 401.5 * BASE})
    readout = pattern(page).locator(".readout")
    expect(readout).to_have_text(re.compile("^queries 1,200–1,203, keys 400–403: the largest weight is [0-9]"))
    assert last_number(readout.inner_text()) == pytest.approx(float(weights[1200:1204, 400:404].max()), rel=1e-5)
    canvas(page).click(position={"x": LEFT + 900.5 * BASE, "y": TOP + 50})
    query = chosen_query(page)
    view(page, "strongest").locator("li button").nth(1).click()
    key = int(weights[query].topk(2).indices[1])
    for name in ("queries →", "queries ↓"):  # the same weight stays in the middle
        pattern(page).get_by_role("button", name=name).click()
        canvas(page).hover(position=middle(page))
        expect(readout).to_have_text(re.compile(f"^{query} w{query} → {key:,} w{key} "))
        assert last_number(readout.inner_text()) == pytest.approx(float(weights[query, key]), rel=1e-5)


def chosen_query(page: Page) -> int:
    """The query near 900 that the list of the strongest keys names."""
    heading = view(page, "strongest").locator("h2")
    expect(heading).to_have_text(re.compile("^Where “[0-9,]+ w[89][0-9]+” looks most in L0H0 ?$"))
    query = int(heading.inner_text().split("”")[0].split("w")[1])
    assert abs(query - 900) <= PIXEL
    return query


def test_the_colours_of_a_map_are_mirrored_when_it_is_turned(page: Page) -> None:
    script = """([left, top, side]) => {
        const canvas = document.querySelector("[data-view=pattern] canvas");
        const { data } = canvas.getContext("2d").getImageData(left, top, side, side);
        const [before, now] = [window.pixels, new Uint32Array(data.buffer)];
        window.pixels = now;
        let same = 0;
        for (let y = 0; before && y < side; y += 1)
            for (let x = 0; x < side; x += 1) same += before[side * y + x] === now[side * x + y];
        return before ? same : new Set(now).size;
    }"""
    expect(view(page, "strongest").locator("li")).to_have_count(8)
    page.get_by_label("find a token").fill("w0")  # the first query, whose line and ring are small
    pattern(page).get_by_role("button", name="fit").click()
    expect(page).not_to_have_url(re.compile("map-at"))
    page.wait_for_load_state("networkidle")  # every tile is there
    assert page.evaluate(script, [LEFT + 12, TOP + 12, 500]) > 100  # colours
    pattern(page).get_by_role("button", name="queries →").click()
    expect(page).to_have_url(re.compile("queries=columns"))
    same = page.evaluate(script, [LEFT + 12, TOP + 12, 500])
    assert same > 0.99 * 500**2  # a pixel between two cells may take the colour of either


def test_the_table_has_the_largest_cells_in_view(page: Page, weights: torch.Tensor) -> None:
    page.wait_for_load_state("networkidle")  # every tile is there
    rows = table(page, "pattern")
    pooled = F.max_pool2d(weights[None], 4, ceil_mode=True)[0]
    wanted = pooled.flatten().topk(200).values.tolist()
    assert numbers([row[2] for row in rows]) == pytest.approx(wanted, rel=1e-5)
    for queries, keys, shown in rows[:20]:
        row, column = (int(span.split("–")[0].replace(",", "")) // 4 for span in (queries, keys))
        assert number(shown) == pytest.approx(float(pooled[row, column]), rel=1e-5)


def test_a_chosen_query_shows_its_strongest_keys_and_jumps_to_them(page: Page, weights: torch.Tensor) -> None:
    canvas(page).click(position={"x": LEFT + 50, "y": TOP + 900.5 * BASE})
    query = chosen_query(page)
    best = weights[query].topk(8)
    names = [f"{key:,} w{key}" for key in best.indices.tolist()]
    items, readout = view(page, "strongest").locator("li"), pattern(page).locator(".readout")
    expect(items.first).to_have_text(re.compile(f"^{names[0]}"))
    assert listed(page) == (names, pytest.approx(best.values.tolist(), rel=1e-5))
    items.nth(1).locator("button").click()
    expect(canvas(page)).to_have_attribute("data-level", "0")
    canvas(page).hover(position=middle(page))
    expect(readout).to_have_text(re.compile(f"^{query} w{query} → {names[1]} "))
    assert last_number(readout.inner_text()) == pytest.approx(float(best.values[1]), rel=1e-5)


def test_the_keyboard_zooms_moves_and_chooses(page: Page) -> None:
    canvas(page).focus()
    for _ in range(4):
        page.keyboard.press("+")
    expect(canvas(page)).to_have_attribute("data-level", "0")
    readout = pattern(page).locator(".readout")
    before = readout.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(readout).not_to_have_text(before)
    page.keyboard.press("Enter")
    query = readout.inner_text().split()[1]
    expect(view(page, "strongest").locator("h2")).to_contain_text(f"{query}”")
    expect(page.get_by_label("Head", exact=True)).to_have_value("0")  # arrows chose no head
    page.keyboard.press("0")
    expect(canvas(page)).to_have_attribute("data-level", "2")
    place = {"x": LEFT + 300.5 * BASE, "y": TOP + 1100.5 * BASE}
    for level in ("1", "0", "0"):  # a weight stays under the pointer while the wheel zooms
        canvas(page).hover(position=place)
        page.mouse.wheel(0, -500)
        expect(canvas(page)).to_have_attribute("data-level", level)
    canvas(page).hover(position=place)
    expect(readout).to_have_text(re.compile("^1,[0-9]+ w1[0-9]+ → "))
    found = map(int, re.findall("w([0-9]+)", readout.inner_text()))
    assert (*found,) == (pytest.approx(1100, abs=PIXEL), pytest.approx(300, abs=PIXEL))


def test_other_heads_have_their_own_maps_whose_tiles_are_requested_once_their_levels_are_computed(
    page: Page, long: Trace
) -> None:
    """Earlier requests would be refused or canceled."""
    ended = []

    def note(request: Request) -> None:
        address = request.url.rpartition("/")[2]
        if '"head":2' in request.post_data and address in ("turn", "tile"):
            ended.append((address, request.failure))

    for event in ("requestfinished", "requestfailed"):
        page.on(event, note)
    page.get_by_label("Head", exact=True).select_option("2")
    expect(page.locator(".turns")).to_have_count(0)
    wanted = float(long.decoder[0][0, 2, 1200:1204, 400:404].max())
    assert last_number(read(page, 1202, 401, BASE)) == pytest.approx(wanted, rel=1e-5)
    for event in ("requestfinished", "requestfailed"):
        page.remove_listener(event, note)
    assert ended[0] == ("turn", None)
    assert ("tile", None) in ended
    assert {failure for _, failure in ended} == {None}
    page.get_by_label("Head", exact=True).select_option("average")
    expect(page.locator(".turns")).to_have_count(0)
    mean = long.decoder[0][0, :, 1200:1204].mean(dim=0)
    assert last_number(read(page, 1202, 401, BASE)) == pytest.approx(float(mean[:, 400:404].max()), rel=1e-5)
    expect(view(page, "strongest").locator("h2")).to_have_text("Where “1,500 w1500” looks most in L0 average")
    strongest = long.decoder[0][0, :, 1500].mean(dim=0).topk(8).values.tolist()
    assert listed(page)[1] == pytest.approx(strongest, rel=1e-5)


def test_the_first_token_is_left_out_of_the_map(page: Page, weights: torch.Tensor) -> None:
    page.get_by_label("hide the first token").check()
    expect(page.locator(".turns")).to_have_count(0)
    text = read(page, 1202, 401, (HEIGHT - TOP) / (TOKENS - 1))
    assert text.startswith("queries 1,201–1,204, keys 401–404: the largest weight is ")
    assert last_number(text) == pytest.approx(float(weights[1201:1205, 401:405].max()), rel=1e-5)
    keys = [key + 1 for key in weights[1500, 1:].topk(8).indices.tolist()]
    names, _ = listed(page)
    assert names == [f"{key:,} w{key}" for key in keys]
    place = next(place for place, key in enumerate(keys) if 100 < key < 1400)  # far from the map's edges
    view(page, "strongest").locator("li button").nth(place).click()
    expect(canvas(page)).to_have_attribute("data-level", "0")
    canvas(page).hover(position=middle(page))
    readout = pattern(page).locator(".readout")
    expect(readout).to_have_text(re.compile(f"^1,[0-9]+ w1[0-9]+ → {names[place]} "))
    query = int(readout.inner_text().split()[1].removeprefix("w"))
    assert last_number(readout.inner_text()) == pytest.approx(float(weights[query, keys[place]]), rel=1e-5)
    canvas(page).click(position=middle(page))
    expect(view(page, "strongest").locator("h2")).to_have_text(f"Where “{query:,} w{query}” looks most in L0H0")


def test_the_computation_is_stopped_and_goes_on(
    tab: Page, serving: Callable[..., Running], long: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MOST_TOKENS", 1500)
    monkeypatch.setattr(module, "TURN_SECONDS", -1.0)  # a row a turn
    tab.goto(f"http://{serving(Session(None, long)).host}/")
    tab.get_by_role("button", name="cancel").click()
    expect(tab.locator(".turns")).to_contain_text("the computation of the whole map has stopped at")
    percent = tab.locator(".turns span").inner_text()
    tab.wait_for_load_state("networkidle")  # half a second without a request
    assert tab.locator(".turns span").inner_text() == percent
    monkeypatch.setattr(module, "TURN_SECONDS", 0.5)
    tab.get_by_role("button", name="continue").click()
    expect(tab.locator(".turns")).to_have_count(0)


def test_axe_finds_nothing_and_it_fits_a_narrow_window_and_speaks_korean(page: Page) -> None:
    assert violations(page) == []
    page.set_viewport_size({"width": 360, "height": 900})
    expect(canvas(page)).to_have_attribute("data-level", "3")
    page.wait_for_function("() => document.documentElement.scrollWidth <= 360")
    assert violations(page, "[data-view=pattern]") == []
    script = """(canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, canvas.height - 16, 94, 16);
        return Array.from({ length: 16 }, (_, y) => data.slice(4 * 94 * y, 4 * 94 * (y + 1)).some(Boolean));
    }"""
    inked = canvas(page).evaluate(script)  # the label of the last query, which is whole
    assert any(inked)
    assert not inked[-1]
    page.get_by_label("Language").select_option("ko")
    expect(page.locator("main > .caption")).to_contain_text("글이 토큰 1,501개로 길어서")
    expect(pattern(page).locator(".legend")).to_contain_text("칸 하나는 가중치 8 × 8개의 최댓값입니다.")
    page.get_by_label("언어").select_option("en")


def busy(route: Route) -> None:
    route.fulfill(status=503, body="busy", headers={"Content-Type": "text/plain"})


@pytest.mark.slow
def test_a_tile_that_did_not_load_is_asked_for_again_while_others_load(page: Page) -> None:
    notice = pattern(page).locator(".notice")
    with routed(page, "**/map/tile", busy):
        page.get_by_label("Head", exact=True).select_option("1")
        expect(notice).to_have_text("A part of the map could not be loaded and is being requested again: busy")
    expect(notice).to_have_count(0)
    read(page, 1202, 401, BASE)
    read(page, 400, 1202, BASE)

    def fails(route: Route) -> None:
        place = route.request.post_data_json
        (busy if (place["level"], place["row"], place["column"]) == (2, 1, 0) else Route.continue_)(route)

    with routed(page, "**/map/tile", fails):
        page.get_by_label("Layer", exact=True).select_option("1")
        expect(notice).to_have_text("A part of the map could not be loaded: busy try again")  # after four times
        assert read(page, 400, 1202, BASE) == "queries 400–403, keys 1,200–1,203: masked"
        canvas(page).hover(position={"x": LEFT + 401.5 * BASE, "y": TOP + 1202.5 * BASE})
        expect(pattern(page).locator(".readout")).to_have_text("…")
    notice.get_by_role("button", name="try again").click()
    expect(notice).to_have_count(0)
    read(page, 1202, 401, BASE)


def test_the_failure_of_a_head_is_not_shown_beside_the_next_and_that_of_strongest_keys_says_why(page: Page) -> None:
    panel = view(page, "strongest")
    with routed(page, "**/map/strongest", busy):
        canvas(page).click(position={"x": LEFT + 50, "y": TOP + 900.5 * BASE})
        expect(panel.locator(".notice")).to_have_text("busy try again")
        expect(panel.locator("li")).to_have_count(0)
    panel.get_by_role("button", name="try again").click()
    expect(panel.locator("li")).to_have_count(8)
    expect(panel.locator(".notice")).to_have_count(0)
    fails = lambda route: (busy if route.request.post_data_json["head"] == 1 else Route.continue_)(route)  # noqa: E731
    with routed(page, "**/map/turn", fails):
        page.get_by_label("Head", exact=True).select_option("1")
        expect(page.locator(".turns [role=alert]")).to_have_text("busy")
        page.get_by_label("Head", exact=True).select_option("2")
        expect(page.locator(".turns")).to_have_count(0)
    page.get_by_label("Layer", exact=True).select_option("1")
    expect(page.get_by_text("busy")).to_have_count(0)


@pytest.mark.slow
def test_a_link_restores_the_map(page: Page) -> None:
    assert_link_restores(
        page,
        [
            lambda page: page.get_by_label("Head", exact=True).select_option("2"),
            lambda page: page.get_by_label("Head", exact=True).select_option("average"),
            lambda page: page.get_by_label("Colour scale").select_option("absolute"),
            lambda page: pattern(page).get_by_role("button", name="mean weight").click(),
            lambda page: pattern(page).get_by_role("button", name="queries →").click(),
            lambda page: page.get_by_label("hide the first token").check(),
            lambda page: canvas(page).click(position={"x": LEFT + 50, "y": TOP + 900.5 * BASE}),
            lambda page: pattern(page).get_by_role("button", name="larger cells").click(),
            lambda page: view(page, "strongest").locator("li button").nth(3).click(),
        ],
    )
