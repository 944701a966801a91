"""Write a site: export the model, check it, and put it into a folder with the page."""

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError, reason, require_packages
from regard.site.check import Difference, check
from regard.site.graph import write_model
from regard.site.runtime import runtime
from regard.site.wordpiece import tokenizer_tables
from regard.tracing.encoding import token_limit
from regard.tracing.focus import focus_on
from regard.tracing.model_loading import LoadedModel, load
from regard.tracing.run import trace
from regard.tracing.trace import Trace
from regard.views.page import read_source, site_page
from regard.views.page.data import page_data

EXTRAS = "export,huggingface"
"""The extras of regard (optional dependencies) that a site needs."""

FIRST_TEXT = "The snake is very dangerous because it has a venom."
"""The text that the page shows first."""

MOST_TOKENS = 512
"""The most tokens that a text in a site may have, unless the model allows fewer."""

FILES = {"worker": "worker.js", "model": "model.onnx", "runtime": "runtime.deflate", "tokenizer": "tokenizer.json"}
"""The names of the files beside the page, by their purpose."""


@dataclass(frozen=True, slots=True)
class Site:
    """A site that was written.

    Attributes:
        model: the model's name.
        n_bytes: the size of the folder.
        difference: the largest differences between the exported model and the model itself.
    """

    model: str
    n_bytes: int
    difference: Difference


def write_site(out: Path, model: str | None = None, given_runtime: Path | None = None) -> Site:
    """Write a folder with a page and a model that runs in the reader's browser; any web server can serve the folder.

    Args:
        out: the folder, which must not exist yet or be empty.
        model: the name or folder of a Hugging Face model; None = MiniLM.
        given_runtime: the path of ONNX Runtime for browsers; None = the one that comes with regard.

    Raises:
        InputError: `out` has files or cannot be written, the model cannot be loaded or exported, or the export does not
            attend as the model does. In each case nothing is written to `out`.
    """
    require_packages(("transformers", "onnxscript", "onnxruntime"), EXTRAS)
    check_empty(out)
    compressed = runtime(given_runtime)
    loaded = load(model)
    first = trace(loaded.model, FIRST_TEXT, tokenizer=loaded.tokenizer)
    check_supported(loaded, first)
    tables = tokenizer_tables(loaded.tokenizer)
    most = min(token_limit(loaded.model, loaded.tokenizer) or MOST_TOKENS, MOST_TOKENS)
    try:
        with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as temporary:
            written = Path(temporary) / "site"
            written.mkdir()
            layers = first.attended["encoder"]
            n_heads = next(iter(layers.values())).pattern.n_heads
            write_model(loaded.model, list(layers), n_heads, most, written / FILES["model"])
            difference = check(written / FILES["model"], loaded)
            (written / FILES["runtime"]).write_bytes(compressed)
            write_text(written / FILES["tokenizer"], json.dumps(tables, ensure_ascii=False, separators=(",", ":")))
            write_text(written / FILES["worker"], read_source("built/worker.js"))
            records = {part: file_record(written / name) for part, name in FILES.items()}
            known = {"files": records, "most": most, "difference": difference.weights}
            write_text(written / "index.html", first_page(first, known))
            n_bytes = sum(path.stat().st_size for path in written.iterdir())
            written.rename(out)
    except OSError as error:
        if error.strerror is None:  # not from the file system: a library raises OSError for its own errors
            raise
        raise InputError(f"cannot write {out}: {reason(error)}; name another folder.") from error
    return Site(loaded.name, n_bytes, difference)


def check_empty(out: Path) -> None:
    """Raise InputError unless `out` is an empty folder, or does not exist and can be created."""
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; name a new folder, or remove what is in it first.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a new folder.")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}; make it first or name another.")


def check_supported(loaded: LoadedModel, first: Trace) -> None:
    """Raise InputError unless the page can compute a model's weights from its queries and keys alone."""
    reason = unsupported_reason(loaded, first)
    if reason:
        raise InputError(
            f"{loaded.name} {reason}; a site runs encoders of text whose weights are a softmax of scaled dot products, "
            "such as MiniLM. regard explore shows other models."
        )


def unsupported_reason(loaded: LoadedModel, first: Trace) -> str:
    """Return the reason why a site cannot show a model; an empty text if it can."""
    if first.kinds != ("encoder",):
        return f"has attention of the kind {' and '.join(first.kinds)}"
    if not loaded.model._can_set_attn_implementation():
        return "computes its attention without the attention interface of transformers"
    patterns = [step.pattern for step in first.attended["encoder"].values()]
    if len({pattern.n_heads for pattern in patterns}) > 1:
        return "has layers of different numbers of heads"
    for pattern in patterns:
        formula = pattern.call.formula
        if formula is None or formula.other_score is not None or formula.bias is not None:
            return "adds other numbers to its scores"
        if formula.softcap is not None or formula.sinks is not None or formula.temperature != 1:
            return "changes its scores after their scaling"
        if pattern.mask is not None and not bool(pattern.mask.keep(pattern.grid.whole(), pattern.device).all()):
            return "masks some keys"
    return ""


def first_page(first: Trace, site: dict[str, Any]) -> str:
    """Return the HTML page of a site, which first shows the trace `first`."""
    return site_page(page_data(first, focus_on(first)) | {"live": True, "next": []}, site)


def file_record(path: Path) -> dict[str, Any]:
    """Return the JSON record by which the page finds and checks a file of the site."""
    content = path.read_bytes()
    return {"name": path.name, "bytes": len(content), "version": hashlib.sha256(content).hexdigest()[:16]}


def write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
