"""The roles of heads in a real browser: the page's numbers are those of `Trace.roles`, and heads are sorted by them."""

from collections.abc import Callable
from pathlib import Path

import torch
from page_views import numbers, table, view
from playwright.sync_api import Page, expect

from regard import Trace
from regard.effects.roles import KEY_ROLES
from regard.tracing.model_loading import LoadedModel
from regard.tracing.run import trace


def test_the_roles_of_heads_are_python_s(opened: Callable[..., Page], minilm: LoadedModel, tmp_path: Path) -> None:
    repeated = trace(minilm.model, "The snake saw the snake, and the snake hid.", tokenizer=minilm.tokenizer)
    page = opened(repeated.html(tmp_path / "page.html"))  # so that every role has keys
    rows, wanted = opened_rows(page), repeated.roles()
    assert [row[0] for row in rows] == list(wanted.heads)
    shown = torch.tensor([numbers(row[4:]) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(shown, wanted.means[: len(KEY_ROLES)].T, atol=6e-5, rtol=0)
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
