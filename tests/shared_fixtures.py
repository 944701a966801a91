"""Fixtures and settings of all tests: a process that runs tests imports them, before it collects its tests."""

import copy
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import checked_calls
import jaxtyping
import pytest
import torch
from _pytest.doctest import DoctestModule
from browser import browser, opened, tab  # noqa: F401 (fixtures of all folders)
from hypothesis import settings
from torch import Tensor
from trained_translator import train_translator, train_vocabularies

from regard import Attended, Causal, Mask, Trace, attend, trace
from regard.text.vocabulary import Vocabulary
from regard.tracing.model_loading import LoadedModel, load
from regard.tracing.tokens.readable_tokens import Token
from regard.translation.translator import Translator

settings.register_profile("regard", deadline=None, derandomize=True, max_examples=25, database=None)
settings.load_profile("regard")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for tests in the background
torch.set_num_threads(1)  # a second thread makes tensors this small no faster


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests only in the files that have an example: three in four have none."""
    collectors = yield
    if file_path.suffix == ".py" and ">>> " not in file_path.read_text(encoding="utf-8"):
        return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
    return collectors


def numerical_settings() -> dict[str, object]:
    """Return the settings of PyTorch that change how numbers are rounded, for the whole process."""
    return {
        "threads": torch.get_num_threads(),
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "gradients": torch.is_grad_enabled(),
        "denormals": bool(torch.tensor(1e-40) * 1.0 > 0),
    }


SETTINGS = numerical_settings()


@pytest.fixture(autouse=True)
def unchanged_settings() -> Iterator[None]:
    """Fail a test that leaves numerical settings changed for the tests after it."""
    checked_calls.begin_test()
    yield
    left = numerical_settings()
    torch.set_num_threads(1)
    assert left == SETTINGS


@pytest.fixture
def normal() -> Callable[..., Tensor]:
    """normal(2, 3) draws a tensor of that shape; a test draws the same tensors each time it runs."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    return draw


@pytest.fixture
def default_type() -> Callable[[torch.dtype], AbstractContextManager[None]]:
    """default_type(torch.float64) makes this the type of new tensors inside a `with` block."""

    @contextmanager
    def changed(dtype: torch.dtype) -> Iterator[None]:
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)

    return changed


@pytest.fixture
def without_type_checks() -> Iterator[None]:
    """Switch the checks of shapes and types off, so that a test sees the errors that a caller sees."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def minilm() -> LoadedModel:
    return load()


@pytest.fixture(scope="session")
def tokenizer(minilm: LoadedModel) -> Any:
    """MiniLM's tokenizer for other models: without token types, which GPT-2 would read as tokens."""
    tokenizer = copy.deepcopy(minilm.tokenizer)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    return tokenizer


@pytest.fixture(scope="session")
def snake(minilm: LoadedModel) -> Trace:
    """The trace of MiniLM on a sentence in which `it` refers to the snake."""
    return trace(minilm.model, "The snake is very dangerous because it has a venom.", tokenizer=minilm.tokenizer)


@pytest.fixture(scope="session")
def handmade() -> Callable[..., Trace]:
    """handmade("a b c", mask=Causal()) is a trace of random queries and keys for these words, without a model."""

    def make(
        words: str, n_layers: int = 2, n_heads: int = 3, mask: Mask | None = None, kind: str = "encoder", seed: int = 0
    ) -> Trace:
        tokens = tuple(Token(text=word, piece=word) for word in words.split())
        generator = torch.Generator().manual_seed(seed)
        steps = {
            layer: attend(*torch.randn(3, 1, n_heads, len(tokens), 5, generator=generator).mul(1.5).unbind(), mask=mask)
            for layer in range(n_layers)
        }
        source, target = (tokens, ()) if kind == "encoder" else ((), tokens)
        return Trace(model="handmade", text=words, target_text="", source=source, target=target, attended={kind: steps})

    return make


@pytest.fixture
def translated() -> Trace:
    """The trace of an encoder-decoder whose source and target have different lengths."""
    generator = torch.Generator().manual_seed(0)
    source, target = (
        tuple(Token(t, t) for t in text.split()) for text in ("the cat sat on it", "le chat est assis là !")
    )

    def step(queries: int, keys: int, mask: Causal | None = None) -> Attended:
        return attend(*(torch.randn(1, 3, n, 7, generator=generator) for n in (queries, keys, keys)), mask=mask)

    n, m = len(source), len(target)
    steps = {"encoder": {0: step(n, n)}, "decoder": {0: step(m, m, Causal())}, "cross": {0: step(m, n), 1: step(m, n)}}
    return Trace("toy", "the cat sat on it", "le chat est assis là !", source, target, steps)


@pytest.fixture(scope="session")
def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    return train_vocabularies()


@pytest.fixture(scope="session")
def translator(vocabularies: tuple[Vocabulary, Vocabulary]) -> Translator:
    """Return a small translator, trained on eight sentences."""
    return train_translator(*vocabularies)


@pytest.fixture(scope="session")
def translator_folder(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return translator.save(tmp_path_factory.mktemp("folders") / "en-de")


@pytest.fixture(scope="session")
def operators_read_once() -> Iterator[None]:
    """Let torch.onnx.export read the sources of onnxscript's operators once, not again for each graph."""
    apis = import_module("torch.onnx._internal.exporter._registration").onnxscript_apis
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apis, "get_torchlib_ops", cache(apis.get_torchlib_ops))
        yield


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--cases"))
