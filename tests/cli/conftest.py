"""The default model loaded once for all tests of the command line."""

import pytest

from regard.tracing import model_loading as loading
from regard.tracing.model_loading import LoadedModel


@pytest.fixture
def minilm_once(monkeypatch: pytest.MonkeyPatch, minilm: LoadedModel) -> None:
    """Make every command use the model that is loaded already, instead of loading it again."""
    load = loading.load

    def load_once(name: str | None = None, generates: bool = False) -> LoadedModel:
        return minilm if name in (None, "MiniLM") and not generates else load(name, generates)

    for module in ("tracing.model_loading", "tracing.run", "by_hand.model_head"):
        monkeypatch.setattr(f"regard.{module}.load", load_once)
