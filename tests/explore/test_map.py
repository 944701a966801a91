"""Tests of the map of a long text: its image tiles equal pooled softmax weights in float64; invalid requests fail."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from running_explorer import Running

from regard import Causal, Trace
from regard.errors import InputError
from regard.explore import map as module
from regard.explore.map import HeadRequest, Map, QueryRequest, TileRequest
from regard.explore.session import Session
from regard.views.page import data

TOKENS = 601
HEAD = {"map": 1, "kind": "decoder", "layer": 1, "head": 2, "hidden": False}
TILE = HEAD | {"level": 0, "row": 0, "column": 0, "pool": "max"}


@pytest.fixture(scope="module")
def long(handmade: Callable[..., Trace]) -> Trace:
    return handmade(" ".join(f"w{n}" for n in range(TOKENS)), mask=Causal(), kind="decoder")


@pytest.fixture(scope="module")
def mapped(long: Trace, serving: Callable[..., Running]) -> Iterator[Running]:
    """Yield a running explorer that shows the trace as a map, after its page was loaded once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(data, "MOST_TOKENS", 600)
        running = serving(Session(None, long))
        status, page, _ = running.ask("/", method="GET")
        assert status == 200
        assert '"map":{"number":1,"tile":256,"stored":5}' in page
        yield running


def exact(long: Trace, level: int, pool: str, heads: slice = slice(2, 3)) -> torch.Tensor:
    """Return a zoom level of the map: the mean over heads of softmax weights in float64, pooled by mean or maximum."""
    call = long.decoder[1].call
    scores = call.query.double()[0, heads] @ call.key.double()[0, heads].mT / 5**0.5
    masked = torch.ones(TOKENS, TOKENS).triu(1).bool()
    weights = torch.softmax(scores.masked_fill(masked, -torch.inf), dim=-1).mean(dim=0)
    window = {"kernel_size": 2**level, "ceil_mode": True}
    pooled = F.max_pool2d if pool == "max" else partial(F.avg_pool2d, count_include_pad=False)
    visible = F.max_pool2d((~masked)[None].double(), **window)[0] > 0
    return pooled(weights[None], **window)[0].masked_fill(~visible, torch.nan).float()


def test_the_last_query_of_the_first_head_is_shown_first(long: Trace) -> None:
    focus = {"kind": "decoder", "layer": long.heads("decoder")[0].layer, "head": 0, "query": TOKENS - 1}
    assert data.map_data(long, {})["focus"] == focus


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize(("level", "row", "column"), [(0, 2, 1), (1, 1, 0), (6, 0, 0)])
def test_a_tile_is_softmax_pooled(mapped: Running, long: Trace, level: int, row: int, column: int, pool: str) -> None:
    while True:
        status, turn, _ = mapped.ask("/map/turn", HEAD)
        assert (status, turn["of"]) == (200, 19)
        if turn["done"] == turn["of"]:
            break
    status, seen, headers = mapped.ask("/map/tile", TILE | {"level": level, "row": row, "column": column, "pool": pool})
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    wanted = exact(long, level, pool)[256 * row : 256 * (row + 1), 256 * column : 256 * (column + 1)]
    numbers = torch.tensor(np.frombuffer(seen, "<f4")).view(wanted.shape)
    torch.testing.assert_close(numbers, wanted, rtol=0, atol=1e-6, equal_nan=True)


def test_the_strongest_keys_of_a_query(mapped: Running, long: Trace) -> None:
    status, seen, _ = mapped.ask("/map/strongest", HEAD | {"query": 500})
    wanted = exact(long, 0, "max")[500].nan_to_num(0.0).topk(8)
    assert status == 200
    assert seen["keys"] == wanted.indices.tolist()
    assert seen["weights"] == pytest.approx(wanted.values.tolist(), abs=1e-6)
    assert len(mapped.ask("/map/strongest", HEAD | {"query": 2})[1]["keys"]) == 3


def test_the_average_over_the_heads_of_a_layer(long: Trace) -> None:
    shown, place = Map(long, 1), HEAD | {"head": None}
    weights = exact(long, 0, "max", slice(None))
    seen = shown.tile(TileRequest(**place, level=0, row=1, column=0, pool="max"))
    found = torch.tensor(np.frombuffer(seen, "<f4")).view(256, 256)
    torch.testing.assert_close(found, weights[256:512, :256], rtol=0, atol=1e-6)
    while (turn := shown.turn(HeadRequest(**place)))["done"] < turn["of"]:
        pass
    seen = shown.tile(TileRequest(**place, level=5, row=0, column=0, pool="mean"))
    found, wanted = torch.tensor(np.frombuffer(seen, "<f4")).view(19, 19), exact(long, 5, "mean", slice(None))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6, equal_nan=True)
    top = weights[500].nan_to_num(0.0).topk(8)
    strongest = shown.strongest(QueryRequest(**place, query=500))
    assert strongest["keys"] == top.indices.tolist()
    assert strongest["weights"] == pytest.approx(top.values.tolist(), abs=1e-6)


@pytest.mark.parametrize("special", [(), (0, 300, 600)], ids=["first token", "special tokens"])
def test_hidden_tokens_are_left_out(long: Trace, special: tuple[int, ...]) -> None:
    target = tuple(replace(token, special=place in special) for place, token in enumerate(long.target))
    shown = Map(replace(long, target=target), 1)
    place = HEAD | {"hidden": True}
    kept = [position for position in range(TOKENS) if position not in (special or (0,))]
    weights = exact(long, 0, "max")[kept][:, kept]
    seen = shown.tile(TileRequest(**place, level=0, row=1, column=1, pool="mean"))
    found = torch.tensor(np.frombuffer(seen, "<f4")).view(256, 256)
    torch.testing.assert_close(found, weights[256:512, 256:512], rtol=0, atol=1e-6, equal_nan=True)
    row = weights[kept.index(500)].nan_to_num(0.0).topk(8)
    strongest = shown.strongest(QueryRequest(**place, query=500))
    assert strongest["keys"] == [kept[key] for key in row.indices.tolist()]
    assert strongest["weights"] == pytest.approx(row.values.tolist(), abs=1e-6)


GONE = "this map is no longer in memory, because another text was read; load the page again."
TILE_FIELDS = "'map', 'kind', 'layer', 'head', 'hidden', 'level', 'row', 'column', 'pool'"


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("tile", [], f"the request must be a JSON object with the fields {TILE_FIELDS}."),
        ("tile", HEAD, f"the request must be a JSON object with the fields {TILE_FIELDS}."),
        ("tile", TILE | {"x": 1}, f"the request must be a JSON object with the fields {TILE_FIELDS}."),
        ("tile", TILE | {"level": 0.5}, "in the request, level=0.5 must be int."),
        ("tile", TILE | {"row": True}, "in the request, row=True must be int."),
        ("tile", TILE | {"row": "0"}, "in the request, row='0' must be int."),
        ("tile", TILE | {"pool": "sum"}, "in the request, pool='sum' must be one of 'mean', 'max'."),
        (
            "tile",
            TILE | {"map": 2},
            "this map is no longer in memory, because another text was read; load the page again.",
        ),
        ("tile", TILE | {"layer": 7}, "there is no head 2 in layer 7 of 'decoder'."),
        ("tile", TILE | {"head": -1}, "there is no head -1 in layer 1 of 'decoder'."),
        ("tile", TILE | {"head": 3}, "there is no head 3 in layer 1 of 'decoder'."),
        ("tile", TILE | {"kind": "../etc"}, "there is no head 2 in layer 1 of '../etc'."),
        ("tile", TILE | {"kind": "__class__"}, "there is no head 2 in layer 1 of '__class__'."),
        ("tile", TILE | {"level": -1}, "there is no level -1; there are 64 levels, counted from 0."),
        ("tile", TILE | {"level": 64}, "there is no level 64; there are 64 levels, counted from 0."),
        ("tile", TILE | {"level": 2**50}, f"there is no level {2**50}; there are 64 levels, counted from 0."),
        ("tile", TILE | {"row": 3}, "there is no tile in row 3 and column 0; level 0 has 601 x 601 cells."),
        ("tile", TILE | {"column": -1}, "there is no tile in row 0 and column -1; level 0 has 601 x 601 cells."),
        (
            "tile",
            TILE | {"row": 2**50},
            f"there is no tile in row {2**50:,} and column 0; level 0 has 601 x 601 cells.",
        ),
        (
            "tile",
            TILE | {"head": 0, "level": 9},
            "L1H0: level 9 needs all rows of level 5; call compute(row) for 19 more rows.",
        ),
        (
            "tile",
            TILE | {"head": None, "level": 9},
            "L1 average: level 9 needs all rows of level 5; call compute(row) for 19 more rows.",
        ),
        ("strongest", HEAD | {"query": 601}, "there is no query 601; there are 601, counted from 0."),
        ("strongest", HEAD | {"query": -1}, "there is no query -1; there are 601, counted from 0."),
        ("turn", TILE, "the request must be a JSON object with the fields 'map', 'kind', 'layer', 'head', 'hidden'."),
    ],
)
def test_what_is_no_part_of_the_map_is_refused(mapped: Running, path: str, content: Any, message: str) -> None:
    assert mapped.ask(f"/map/{path}", content)[:2] == (400, {"error": message})


def test_a_page_loaded_again_has_the_same_map(mapped: Running) -> None:
    assert '"map":{"number":1,' in mapped.ask("/", method="GET")[1]


def test_without_a_map_there_are_no_tiles(serving: Callable[..., Running], handmade: Callable[..., Trace]) -> None:
    assert serving(Session(None, handmade("a b"))).ask("/map/turn", HEAD)[:2] == (400, {"error": GONE})


def test_the_pyramids_in_memory_are_limited(long: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2 * 19 * 19 * 8)
    heads = [HeadRequest(map=1, kind="decoder", layer=0, head=head, hidden=False) for head in range(3)]
    shown = Map(long, 1)
    first, second = map(shown.pyramid, heads[:2])
    assert shown.pyramid(heads[0]) is first
    shown.pyramid(heads[2])
    assert list(shown.pyramids) == [("decoder", 0, 0, False), ("decoder", 0, 2, False)]
    assert shown.pyramid(heads[1]) is not second


def test_a_text_beyond_the_limit_is_refused(long: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2887)
    with pytest.raises(InputError) as refusal:
        Map(long, 1)
    assert str(refusal.value) == (
        "a map of 601 queries x 601 keys takes 2,888 bytes, more than 2,887; trace a shorter text."
    )


def test_a_turn_ends_in_time_and_goes_on(long: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", -1.0)
    shown, place = Map(long, 1), HeadRequest(map=1, kind="decoder", layer=0, head=0, hidden=False)
    n_threads = torch.get_num_threads()
    assert [shown.turn(place)["done"] for _ in range(3)] == [n_threads, 2 * n_threads, 3 * n_threads]
    assert torch.get_num_threads() == n_threads
