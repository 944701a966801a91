"""Tests of the view of a token's movement in a browser: its norms and angles equal those of `Trace.movement`."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from axe import violations
from page_views import boxes, cells, overlaps, saved, table, view
from playwright.sync_api import Page, expect

from regard import Trace
from regard.translation.translator import Translator


def parts(page: Page) -> dict[str, tuple[float, float]]:
    """The length and the angle of each part of the move that is shown."""
    rows = cells(view(page, "movement").locator("table.parts tbody tr"))
    return {name: (float(length), float(angle.removesuffix("°") or 0)) for name, length, angle in rows}


def angle(vector: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(vector, other, dim=0).acos().rad2deg())


def test_a_move_has_python_s_lengths_and_angles(opened: Callable[..., Page], kept_page: Path, kept: Trace) -> None:
    page = opened(kept_page)
    expect(view(page, "movement").locator(".arrow")).not_to_have_count(0)
    wanted = kept.movement("it")
    change = wanted.after[3] - wanted.before[3]

    def of(vector: torch.Tensor) -> object:
        return pytest.approx((float(vector.norm()), angle(vector, change)), abs=0.06)

    seen = parts(page)
    assert len(seen) == 2 + 8 + 1 + 1 + 2  # both ends, heads, other heads, bias, feed-forward and norms
    for head in wanted.by_head[3].norm(dim=-1).argsort(descending=True)[:8].tolist():
        assert seen[f"H{head}"] == of(wanted.by_head[3][head])
    assert (seen["feed-forward"], seen["norms"]) == (of(wanted.feed_forward[3]), of(wanted.rest[3]))
    ends = float(wanted.after[3].norm()), angle(wanted.before[3], wanted.after[3])
    assert seen["after"] == pytest.approx(ends, abs=0.06)
    assert seen["before"][0] == pytest.approx(float(wanted.before[3].norm()), abs=6e-4)
    view(page, "movement").get_by_role("button", name="source tokens").click()
    seen = parts(page)
    for source in wanted.by_source[3].norm(dim=-1).argsort(descending=True)[:8].tolist():
        assert seen[kept.tokens[source].text] == of(wanted.by_source[3][source])
    view(page, "movement").get_by_role("button", name="parts").click()
    assert parts(page)["attention"][0] == pytest.approx(float(wanted.attention[3].norm()), abs=6e-4)
    rows = table(page, "movement")
    assert [row[0] for row in rows] == [f"L{layer}" for layer in range(6)]
    for layer, row in enumerate(rows):
        vectors = [getattr(wanted, name)[layer] for name in ("before", "attention", "feed_forward", "rest", "after")]
        assert [float(cell) for cell in row[1:6]] == pytest.approx([float(v.norm()) for v in vectors], abs=1e-3)
        assert float(row[6]) == pytest.approx(angle(vectors[0], vectors[4]), abs=0.02)


def test_the_token_and_the_layer_are_those_of_the_other_views(
    opened: Callable[..., Page], kept_page: Path, kept: Trace, tmp_path: Path
) -> None:
    page = opened(kept_page)
    movement, states = view(page, "movement"), kept.states["encoder"]
    every = torch.cat([states[0].before, *(state.after for state in states.values())]).double()
    sizes = torch.linalg.svdvals(every - every.mean(dim=0)).square()
    first, second = (100 * sizes[:2] / sizes.sum()).tolist()
    expect(movement.locator(".caption").first).to_contain_text(f"it shows {first:.1f} % + {second:.1f} % of their")
    for ending in ("svg", "png"):
        assert saved(page, "movement", ending, tmp_path).name == f"regard-movement-L3H1.{ending}"
    movement.get_by_role("button", name="L5", exact=True).click()
    expect(view(page, "sentence").locator("h2")).to_have_text("L5H1 · it")
    view(page, "sentence").locator(".word", has_text="venom").click()
    expect(movement.locator("h2")).to_have_text("How the token’s vector moves · L5 · venom")
    after = states[5].after
    cosines = torch.nn.functional.cosine_similarity(after, after[10][None]).clone()
    cosines[10] = -1
    nearest = int(cosines.argmax())
    degrees = float(cosines[nearest].acos().rad2deg())
    expect(movement.locator(".nearest")).to_contain_text(
        f"Nearest tokens after L5: {kept.tokens[nearest].text} {degrees:.1f}°"
    )
    page.set_viewport_size({"width": 360, "height": 900})
    table(page, "movement")
    page.wait_for_function("() => document.documentElement.scrollWidth === 360")
    assert violations(page, "[data-view=movement]") == []
    page.get_by_role("button", name="all tokens").click()
    expect(movement).to_contain_text("Choose a token")


@pytest.mark.parametrize(("width", "by"), [(1280, "heads"), (390, "source tokens")])
def test_names_do_not_overlap_and_arrows_fill_the_picture(
    opened: Callable[..., Page], kept_page: Path, width: int, by: str
) -> None:
    page = opened(kept_page, width=width)
    view(page, "movement").get_by_role("button", name=by).click()
    for layer in range(6):
        view(page, "movement").get_by_role("button", name=f"L{layer}", exact=True).click()
        expect(view(page, "movement").locator("h2")).to_contain_text(f"L{layer}")
        names = boxes(view(page, "movement").locator("svg.plane text"))
        assert len(names) > 10
        assert overlaps(names, across=1, down=4) == []  # a line of text is a little higher than its letters
        lefts, tops, rights, bottoms = zip(
            *boxes(view(page, "movement").locator(".arrow path >> visible=true")), strict=True
        )
        assert max(max(rights) - min(lefts), max(bottoms) - min(tops)) > 180  # pixels


def test_the_tokens_of_a_translator_move(opened: Callable[..., Page], translator: Translator, tmp_path: Path) -> None:
    translation = translator.translate(["the cat sat on a mat"])[0]
    page = opened(translation.html(tmp_path / "page.html", head="cross L1H1"))
    movement = view(page, "movement")
    expect(movement).to_contain_text("Cross-attention is a part of the decoder’s layers.")
    kept = translator.trace(translation, keep=("hidden",))
    for kind, rest in (("encoder", None), ("decoder", "cross-attention, norms")):
        page.get_by_label("Attention", exact=True).select_option("cross")
        movement.get_by_role("button", name=kind, exact=True).click()
        view(page, "sentence").locator(".word").nth(2).click()
        expect(movement.locator("h2")).to_contain_text("L1")
        wanted = kept.movement(2, kind=kind)
        change = wanted.after[1] - wanted.before[1]
        vectors = {
            "H0": wanted.by_head[1, 0],
            "H1": wanted.by_head[1, 1],
            "feed-forward": wanted.feed_forward[1],
        } | ({rest: wanted.rest[1]} if rest else {})
        seen = parts(page)
        assert set(seen) == {*vectors, "output bias", "before", "after"}
        for name, vector in vectors.items():
            assert seen[name] == pytest.approx((float(vector.norm()), angle(vector, change)), abs=0.06)
        assert seen["after"][0] == pytest.approx(float(wanted.after[1].norm()), abs=1e-3)
