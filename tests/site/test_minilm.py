"""The site of MiniLM itself, in a real browser: 91 MB of model in a page, and Python's numbers."""

from collections.abc import Callable

import pytest
from page_views import weights
from playwright.sync_api import Page, expect

import regard
from regard.site import write_site
from regard.tracing.model_loading import LoadedModel

TEXT = "The quick brown fox jumps over the lazy dog and runs into the woods."


@pytest.mark.slow
def test_minilm_in_a_page_attends_as_in_python(
    carried, serve_folder: Callable, tab: Page, minilm: LoadedModel, tmp_path
):
    written = write_site(tmp_path / "public", course=False)
    assert [one.name for one in written.models] == ["MiniLM"]
    assert written.models[0].difference.weights < 1e-5
    tab.goto(serve_folder(tmp_path / "public"))
    tab.get_by_label("Text").fill(TEXT)
    expect(tab.locator(".word")).to_have_count(17, timeout=120_000)
    trace = regard.trace(minilm.model, TEXT, tokenizer=minilm.tokenizer)
    for name in ("L0H0", "L3H1", "L5H11"):
        tab.get_by_label("Layer", exact=True).select_option(name[1])
        tab.get_by_label("Head", exact=True).select_option(name[3:])
        tab.locator("[data-view=sentence] .word", has_text="jumps").click()
        assert weights(tab) == pytest.approx(trace[name]["jumps"].tolist(), abs=2e-5)
        tab.keyboard.press("Escape")
