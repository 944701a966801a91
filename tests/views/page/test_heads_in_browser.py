"""The view of all heads in a browser: their roles are those of `Trace.roles`, and very many heads are on a canvas."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from page_views import numbers, table, view
from playwright.sync_api import Page, expect
from random_models import gpt2

from regard import Causal, Trace
from regard.effects.roles import KEY_ROLES
from regard.tracing.focus import strongest_other_words
from regard.tracing.model_loading import LoadedModel
from regard.tracing.run import trace

LAYERS, HEADS = 30, 24

COLOURED = """() => {
    const canvas = document.querySelector("[data-view=heads] canvas");
    const { data } = canvas.getContext("2d").getImageData(60, 40, 400, 300);
    const range = (pixel) => Math.max(...pixel) - Math.min(...pixel);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) if (range(data.slice(i, i + 3)) > 40) count += 1;
    return count > 1000;
}"""


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_roles_of_heads_are_python_s(
    opened: Callable[..., Page], minilm: LoadedModel, tmp_path: Path, is_causal: bool
) -> None:
    model = gpt2() if is_causal else minilm.model
    repeated = trace(model, "The snake saw the snake, and the snake hid.", tokenizer=minilm.tokenizer)
    page = opened(repeated.html(tmp_path / "page.html"))  # so that every role has keys
    rows, wanted = opened_rows(page), repeated.roles()
    assert [row[0] for row in rows] == list(wanted.heads)
    in_digits = [[number.replace("–", "nan") for number in row[4:]] for row in rows]
    shown = torch.tensor([numbers(row) for row in in_digits], dtype=torch.float64)
    assert bool(wanted["next"].isnan().all()) == is_causal
    torch.testing.assert_close(shown, wanted.means[: len(KEY_ROLES)].T, atol=6e-5, rtol=0, equal_nan=True)
    page.get_by_label("Sort by").select_option("previous")
    means = wanted.means[KEY_ROLES.index("previous")]
    best = wanted.heads[int(means.argmax())]
    expect(view(page, "heads").locator("figcaption").first).to_have_text(f"{best}{float(means.max()):.4f}")


def opened_rows(page: Page) -> list[list[str]]:
    table(page, "heads")
    expect(view(page, "heads").locator(".numbers tbody")).not_to_contain_text("…")  # every head is summarised
    return table(page, "heads")


def test_a_role_without_keys_has_no_number_and_cross_attention_no_roles(
    opened: Callable[..., Page], handmade: Callable[..., Trace], translated: Trace, tmp_path: Path
) -> None:
    rows = opened_rows(opened(handmade("a b c").html(tmp_path / "page.html")))
    assert {tuple(row[8:]) for row in rows} == {("–", "–", "–")}  # no special token, and no word twice
    page = opened(translated.html(tmp_path / "cross.html"))
    assert {len(row) for row in opened_rows(page)} == {4}
    expect(view(page, "heads").locator("optgroup")).to_have_count(0)


def test_many_heads_are_read_chosen_and_listed(
    opened: Callable[..., Page], handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    many = handmade("a b c d e f g", n_layers=LAYERS, n_heads=HEADS, mask=Causal(), kind="decoder")
    wanted = strongest_other_words(many.heads(), 5)
    page = opened(many.html(tmp_path / "page.html", token="f", head="L2H3"))
    heads = view(page, "heads")
    expect(page.locator(".top li")).not_to_have_count(0)
    expect(heads.locator(".map button")).to_have_count(0)
    expect(heads.locator(".legend")).to_contain_text("each head has its own colour")
    box = heads.bounding_box()
    assert box
    assert box["width"] > 1100  # as wide as the page
    size = (float(heads.locator(".heads-canvas > div").evaluate("one => one.clientWidth")) - 34) / HEADS
    place = {"x": 34 + 17.5 * size, "y": 18 + 4.5 * size}
    heads.locator("canvas").hover(position=place)
    ((to, weight),) = ((head.keys[key].text, weight) for head, key, weight in wanted if head.name == "L4H17")
    expect(heads.locator(".readout")).to_have_text(f"L4H17: f → {to} {weight:.4f}")
    heads.locator("canvas").click(position=place)
    expect(page.locator("[data-view=sentence] h2")).to_have_text("L4H17 · f")
    heads.get_by_role("button", name="patterns").click()
    page.wait_for_function(COLOURED)
    heads.get_by_role("button", name="one token").click()
    heads.get_by_label("Sort by").select_option("token")
    expect(heads.locator("figure")).to_have_count(120)
    expect(heads).to_contain_text("the first 120 of 720 heads")
    first = [f"{head.name}{weight:.4f}" for head, _, weight in wanted[:120]]
    expect(heads.locator("figcaption")).to_have_text(first)  # once every head is computed
    rows = table(page, "heads")
    assert len(rows) == 600
    assert f"{wanted[0][2]:.5f}" in rows[0][1]
