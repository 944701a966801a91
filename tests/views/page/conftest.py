"""Pages of one sentence that many tests open: with the movement of its tokens, and without."""

from pathlib import Path

import pytest

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
