"""Pages that many tests open: of a trace, and of one sentence with the movement of its tokens and without."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import regard
from regard import Trace
from regard.tracing.model_loading import LoadedModel


@pytest.fixture(scope="session")
def kept(minilm: LoadedModel, snake: Trace) -> Trace:
    """The trace of MiniLM on the sentence of `snake`, with its hidden vectors."""
    return regard.trace(minilm.model, snake.text, tokenizer=minilm.tokenizer, keep=("hidden",))


@pytest.fixture(scope="session")
def kept_page(kept: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `kept`, which shows what "it" attends to in head L3H1."""
    return kept.html(tmp_path_factory.mktemp("kept") / "page.html", token="it", head="L3H1")


@pytest.fixture(scope="session")
def snake_page(snake: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `snake`, which shows what "it" attends to in head L3H1."""
    return snake.html(tmp_path_factory.mktemp("snake") / "page.html", token="it", head="L3H1")


@pytest.fixture
def shown(opened: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """shown(trace, token="it", head="L3H1") is the trace's page in the browser."""

    def show(trace: Trace, token: str | int | None = None, head: str | None = None) -> Page:
        page = opened(trace.html(tmp_path / "page.html", token=token, head=head))
        expect(page.locator(".top li")).not_to_have_count(0)
        return page

    return show
