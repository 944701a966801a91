"""The roles of heads in a real browser: the page's numbers are those of `Trace.roles`, and heads are sorted by them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from regard import Trace
from regard.effects.roles import KEY_ROLES
from regard.tracing.model_loading import LoadedModel
from regard.tracing.run import trace


@pytest.fixture(scope="module")
def repeated(minilm: LoadedModel) -> Trace:
    """A trace of a text with repeated words, so that every role has keys."""
    return trace(minilm.model, "The snake saw the snake, and the snake hid.", tokenizer=minilm.tokenizer)


def opened_rows(page: Page) -> list[list[str]]:
    heads = page.locator("[data-view=heads]")
    heads.locator(".numbers summary").click()
    expect(heads.locator(".numbers tbody")).not_to_contain_text("…")
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    return list(heads.locator(".numbers tbody tr").evaluate_all(cells))


def test_the_roles_of_heads_are_python_s(opened: Callable[..., Page], repeated: Trace, tmp_path: Path) -> None:
    rows = opened_rows(opened(repeated.html(tmp_path / "page.html")))
    wanted = repeated.roles()
    assert [row[0] for row in rows] == list(wanted.heads)
    shown = torch.tensor([[float(cell.replace("−", "-")) for cell in row[4:]] for row in rows], dtype=torch.float64)
    torch.testing.assert_close(shown, wanted.means[: len(KEY_ROLES)].T, atol=6e-5, rtol=0)


def test_heads_are_sorted_by_a_role(opened: Callable[..., Page], repeated: Trace, tmp_path: Path) -> None:
    page = opened(repeated.html(tmp_path / "page.html"))
    opened_rows(page)  # every head is summarised
    page.get_by_label("Sort by").select_option("previous")
    means = repeated.roles().means[KEY_ROLES.index("previous")]
    best = repeated.roles().heads[int(means.argmax())]
    expect(page.locator("[data-view=heads] figcaption").first).to_have_text(f"{best}{float(means.max()):.4f}")


def test_a_role_without_keys_has_no_number_and_cross_attention_no_roles(
    opened: Callable[..., Page], handmade: Callable[..., Trace], translated: Trace, tmp_path: Path
) -> None:
    rows = opened_rows(opened(handmade("a b c").html(tmp_path / "page.html")))
    assert {tuple(row[8:]) for row in rows} == {("–", "–", "–")}  # no special token, and no word twice
    page = opened(translated.html(tmp_path / "cross.html"))
    assert {len(row) for row in opened_rows(page)} == {4}
    expect(page.locator("[data-view=heads] optgroup")).to_have_count(0)
