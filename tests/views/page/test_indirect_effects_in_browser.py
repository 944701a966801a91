"""The page of indirect effects in a browser: the effect of every head is Python's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from axe import violations
from hooked_heads import CLEAN, CORRUPTED, bert, traced
from playwright.sync_api import Page, expect

from regard import IndirectEffects, indirect_effects


@pytest.fixture(scope="module")
def effects(tokenizer: object) -> IndirectEffects:
    model = bert().float()
    return indirect_effects(
        model, CORRUPTED, traced(model, tokenizer, CLEAN, ""), tokenizer=tokenizer, heads=["L1", "L2H0", "L2H3"]
    )


@pytest.fixture
def page(opened: Callable[..., Page], effects: IndirectEffects, tmp_path: Path) -> Page:
    return opened(effects.html(tmp_path / "page.html"))


def text_of(effect: float) -> str:
    return f"{effect:.4f}".replace("-", "−") if abs(effect) >= 0.0005 else f"{effect:.2e}".replace("-0", "-")


def test_the_page_shows_both_texts_and_the_effect_of_every_head(page: Page, effects: IndirectEffects) -> None:
    heads = page.locator("[data-view=heads]")
    largest, names = (
        float(effects.heads.abs().nan_to_num(0.0).max()),
        [f"L{layer}H{h}" for layer in range(3) for h in range(4)],
    )
    wanted = {
        name: text_of(effect) if effect == effect else "–"
        for name, effect in zip(names, effects.heads.flatten().tolist(), strict=True)
    }
    labels = [cell.get_attribute("aria-label") for cell in heads.locator("[data-head]").all()]
    assert labels == [f"{name}: {number}" for name, number in wanted.items()]
    expect(heads.locator(".legend")).to_have_text(f"{text_of(-largest)}  {text_of(largest)}")
    expect(heads.locator("[aria-current=true]")).to_have_attribute("data-head", effects.largest(1)[0][0])
    hues = {
        cell.get_attribute("data-head"): cell.evaluate("cell => cell.style.background.match(/ ([0-9]+)\\)/)?.[1]")
        for cell in heads.locator("[data-head]").all()
    }
    assert hues == {
        name: None if effect != effect else "255" if effect >= 0 else "40"
        for name, effect in zip(names, effects.heads.flatten().tolist(), strict=True)
    }
    assert set(hues.values()) == {None, "255", "40"}
    expect(page.locator("[data-view=sentence] figcaption b")).to_contain_text(["the snake has", "the horse has"])
    assert violations(page) == []


def test_heads_are_sorted_by_their_effect_in_pictures_and_numbers(page: Page, effects: IndirectEffects) -> None:
    heads = page.locator("[data-view=heads]")
    heads.locator("select").select_option("effect")
    heads.locator(".numbers summary").click()
    expect(heads.locator(".numbers tbody tr")).to_have_count(12)
    rows = [row.locator("th, td").all_inner_texts()[:2] for row in heads.locator(".numbers tbody tr").all()]
    tried = sorted(effects.largest(12), key=lambda one: -one[1])
    assert rows[:6] == [[name, text_of(effect)] for name, effect in tried]
    assert {number for _, number in rows[6:]} == {"–"}
    assert heads.locator("figcaption").first.inner_text() == "\n".join(rows[0])
