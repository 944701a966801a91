"""A site of a small model, served to the browser from a folder below the server's root."""

import functools
import http.server
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from causal_models import write_gpt2, write_llama
from filelock import FileLock
from site_writing import write_unchecked
from trained_translator import PAIRS, train_translator
from transformers import BertConfig, BertModel

from regard.site import Site, write_site
from regard.site.runtime import INCLUDED
from regard.text.placeholders import with_sign_pieces
from regard.text.vocabulary import Vocabulary
from regard.tracing.model_loading import LoadedModel, load
from regard.translation.alignment_rule import AlignmentRule

TEXT = "the cat sat on a mat"
"""The text that the site of a translator shows first."""

MOST = 64
"""The largest number of tokens that the small model reads."""


@dataclass(frozen=True)
class Served:
    """A site that was written, and its address."""

    folder: Path
    address: str
    site: Site


class Files(http.server.SimpleHTTPRequestHandler):
    """An HTTP server of files that logs nothing and ignores clients that disconnect early."""

    def log_message(self, *args: object) -> None:
        """Log nothing."""

    def copyfile(self, *args: object) -> None:
        """Send a file; do not fail if the client disconnects."""
        try:
            super().copyfile(*args)
        except ConnectionError:
            self.close_connection = True


@pytest.fixture(scope="session")
def carried(operators_read_once: None) -> None:
    """Skip the test without ONNX Runtime for browsers, except in CI, which runs `make front` first."""
    if not files("regard.views.page").joinpath(INCLUDED).is_file():
        assert "CI" not in os.environ, f"`make front` puts {INCLUDED} into the page's room"
        pytest.skip("a site needs ONNX Runtime for browsers: run `make front`; CI always does")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, minilm: LoadedModel) -> Path:
    """The folder of a small BERT with clear patterns, and MiniLM's tokenizer."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(minilm.tokenizer),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=MOST,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "query" in name or "key" in name:
                parameter.mul_(20)
    folder = tmp_path_factory.mktemp("small") / "small"
    model.save_pretrained(folder)
    minilm.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def serve_folder() -> Iterator[Callable[[Path], str]]:
    """Yield a function: serve_folder(path) starts an HTTP server of the folder's files and returns its URL."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def serve(folder: Path) -> str:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder))
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()  # the seconds until it ends
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def translating(
    carried: None,
    byte_translator: Path,
    serve_folder: Callable[[Path], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Served:
    """A site of a translator, served while the tests run."""
    folder = tmp_path_factory.mktemp("translating") / "site"
    written = write_unchecked(folder, translator=byte_translator, text=TEXT)
    return Served(folder, serve_folder(folder), written)


@pytest.fixture(scope="session")
def byte_translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a translator that has learned a few sentences, and writes letters without a piece as bytes.

    It has fewer key heads than heads, rotary positions, and signs for names and numbers; it aligns by one head, at the
    step that reads a piece.
    """
    source, target = (
        with_sign_pieces(Vocabulary.train(lines * 9, 330, byte_fallback=True))
        for lines in ([*PAIRS], [*PAIRS.values()])
    )
    sizes = {"d_model": 32, "n_heads": 4, "n_key_heads": 2, "n_layers": 1, "n_decoder_layers": 2, "max_tokens": 40}
    pairs = PAIRS | {"the snake": "뱀 독", "a thumb ran": "ein 👍🏽 lief", "a ⟐ cat ⟡": "⟡ ein ⟐⟢", "⟐ ran": "⟢ lief"}
    translator = train_translator(source, target, pairs, **sizes, positions="rotary")
    rule = AlignmentRule(layer=1, head=2, step="reads", agreement=0.75)
    return replace(translator, alignment_rule=rule).save(tmp_path_factory.mktemp("translators") / "en-de")


@pytest.fixture(scope="session")
def served(
    carried: None, small: Path, serve_folder: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """The small model's site, served below the root of its server; the first worker that needs it writes it for all."""
    folder = tmp_path_factory.getbasetemp()
    root = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "sites"
    folder, record = root / "below" / "attention", root / "site.pickle"
    with FileLock(f"{root}.lock"):
        if not record.exists():
            folder.parent.mkdir(parents=True)
            record.write_bytes(pickle.dumps(write_site(folder, str(small))))
    return Served(folder, f"{serve_folder(root)}below/attention/", pickle.loads(record.read_bytes()))


@pytest.fixture(scope="session")
def gpt2(
    carried: None, serve_folder: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Served, LoadedModel]:
    """The served site of a small GPT-2, and the model in Python."""
    return served_with_model(write_gpt2, serve_folder, tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def llama(
    carried: None, serve_folder: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Served, LoadedModel]:
    """The served site of a small Llama, whose heads share keys and values, and the model in Python."""
    return served_with_model(write_llama, serve_folder, tmp_path_factory.mktemp("llama"))


def served_with_model(
    write_model: Callable[[Path], Path], serve: Callable[[Path], str], folder: Path
) -> tuple[Served, LoadedModel]:
    """Write a model and its site below a folder, and serve the site."""
    model = write_model(folder / "model")
    written = write_unchecked(folder / "site", str(model))
    return Served(folder / "site", serve(folder / "site"), written), load(str(model), generates=True)
