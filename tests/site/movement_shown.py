"""How the vector of a token moves in a site's page, compared with `Trace.movement` in Python."""

from urllib.parse import urlencode

import pytest
import torch
from page_views import cells, table
from playwright.sync_api import Page, expect
from site_worker import answers

from regard.effects.plane import Plane
from regard.effects.plane_movement import layer_arrows
from regard.tracing.trace import Trace
from regard.views.shared_text import token_label


def angle(vector: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(vector.double(), other.double(), dim=0).acos().rad2deg())


def check_movement(tab: Page, address: str, exact: Trace, kind: str, token: int) -> None:
    """Let a site read a text, and compare the movement of a token in each layer with Python's numbers.

    Args:
        exact: the trace of the text in Python, with its hidden vectors.
        kind: the kind of attention in whose layers the token moves, "encoder" or "decoder".
    """
    wanted = exact.movement(token, kind)
    view = tab.locator("[data-view=movement]")
    choice = {"text": exact.text, "head": f"L{wanted.layers[0]}H0", "kind": kind, "query": token, "moved-by": "heads"}
    tab.goto("about:blank")
    tab.goto(f"{address}#{urlencode(choice)}")
    tokens = exact.source if kind == "encoder" else exact.target
    expect(tab.locator("[data-view=sentence] .arcs .word")).to_have_count(len(tokens))
    for place, layer in enumerate(wanted.layers):
        view.get_by_role("button", name=f"L{layer}", exact=True).click()
        expect(view.locator("h2")).to_contain_text(f"L{layer} · {tokens[token].text}")
        change = wanted.after[place] - wanted.before[place]
        for button, vectors in (("heads", wanted.by_head[place]), ("source tokens", wanted.by_source[place])):
            view.get_by_role("button", name=button, exact=True).click()
            lengths = vectors.norm(dim=-1)
            longest = lengths.argsort(descending=True)[: min(8, int((lengths > 0).sum()))].tolist()
            rows = cells(view.locator("table.parts tbody tr"))[1:]
            for number, row in zip(longest, rows, strict=False):
                name = f"H{number}" if button == "heads" else token_label(number, tokens)
                assert row[0] == name
                assert float(row[1]) == pytest.approx(float(vectors[number].norm()), abs=6e-4)
                assert float(row[2].removesuffix("°")) == pytest.approx(angle(vectors[number], change), abs=0.06)
    parts = "before", "attention", "feed_forward", "rest", "after"
    for place, row in enumerate(table(tab, "movement")):
        assert row[0] == f"L{wanted.layers[place]}"
        lengths = [float(getattr(wanted, part)[place].norm()) for part in parts]
        assert [float(cell) for cell in row[1:6]] == pytest.approx(lengths, abs=1e-4, rel=1e-5)
        assert float(row[6]) == pytest.approx(angle(wanted.before[place], wanted.after[place]), abs=1e-3)
    check_plane(tab, address, exact, kind)


def check_plane(tab: Page, address: str, exact: Trace, kind: str) -> None:
    """Compare the plane of a site, and the arrows in it, with Python's."""
    states = exact.states[kind]
    first, *_ = states.values()
    plane = Plane.through(torch.cat([first.before, *(state.after for state in states.values())]).float())
    arrows = [layer_arrows(exact.attended[kind][layer].pattern, state, plane, 8) for layer, state in states.items()]
    (answer,) = answers(tab, address, [exact.text], ("moves", "sent"), kind=kind, layer=0, head=0)
    found = answer["moves"]["movement"][kind]
    assert found["shares"] == pytest.approx(plane.shares, abs=1e-5)
    assert found["left_out"] == plane.n_left_out
    assert not any(name.endswith((" before", " output weight")) for name in answer["sent"])
    for name, record in found["arrays"].items():
        group, _, field = name.rpartition(" ")
        layers = [getattr(layer, group) if group else layer for layer in arrows]
        wanted = torch.stack([getattr(layer, {"names": "indices"}.get(field, field)) for layer in layers])
        numbers = torch.tensor(answer["moves"]["numbers"][record["block"]]).view(record["shape"])
        assert numbers.shape == wanted.shape
        if group and field != "places":  # the name and the angle of a vector that rounding alone makes say nothing
            longer = torch.stack([layer.places for layer in layers])[..., 2] > 1e-3
            numbers, wanted = numbers[longer], wanted[longer]
        tolerance = 0.05 if "angles" in name or name == "turned" else 1e-4 * max(1, float(wanted.abs().max()))
        assert (numbers - wanted).abs().max() <= tolerance, name
