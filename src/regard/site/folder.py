"""Write the folder of a site: a page, and the exported models that it runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError, require_packages
from regard.export import new_folder
from regard.lessons.course_page import write_course
from regard.site.exported import Exported, file_record
from regard.site.runtime import compressed_runtime
from regard.site.text_model import export_text_model
from regard.site.translator_model import export_translator
from regard.tracing.model_loading import load_with_lm_head
from regard.translation.translator import Translator
from regard.views.page import read_source, site_page

FIRST_TEXT = "The snake is very dangerous because it has a venom."
"""The text that the page shows first, if no other is given."""

PAGE, WORKER, RUNTIME, COURSE = "index.html", "worker.js", "runtime.deflate", "learn.html"
"""The files of a site: the page, the web worker's script, the compressed ONNX Runtime and the course."""


@dataclass(frozen=True, slots=True)
class Site:
    """A site that was written: its models, in the order in which the page offers them, and its size in bytes."""

    models: tuple[Exported, ...]
    n_bytes: int


def write_site(
    out: Path,
    model: str | None = None,
    given_runtime: Path | None = None,
    *,
    translator: Path | None = None,
    text: str = FIRST_TEXT,
    course: bool = True,
    int8: bool = False,
) -> Site:
    """Write a folder with a page and models that run in the reader's browser; any web server can serve the folder.

    Args:
        out: the folder; it must be empty, or not exist yet.
        model: the name or folder of a Hugging Face model; None = MiniLM, or only the translator if one is given.
        given_runtime: the path of ONNX Runtime for browsers; None = the file that comes with regard.
        translator: the folder of a translator; None = no translator.
        text: the text that the page shows first.
        course: whether to write the lessons of `regard learn` too, as a page; it and the first page link to each other.
        int8: whether the parameters of `model` become 8-bit integers: a quarter of the bytes to load, and weights that
            differ from Python's by more than rounding; the page says by how much.

    Raises:
        InputError: `out` has files or cannot be written; a model cannot be loaded or exported; MiniLM, which the course
            needs, cannot be loaded; or an export differs from its model. In each case nothing is written to `out`.
    """
    packages, extras = ("transformers", "onnxscript", "onnxruntime"), "export,huggingface"
    if translator is None:
        require_packages(packages, extras)
    else:
        require_packages((*packages, "sentencepiece"), f"{extras},translation")
    if int8 and model is None and translator is not None:
        raise InputError("int8 is for a model; a translator stays in float32: leave int8 out, or give a model too.")
    check_empty(out)
    compressed = compressed_runtime(given_runtime)
    with new_folder(out) as written:
        if course:
            write_lessons(written / COURSE)
        models = export_models(model, translator, text, written, int8)
        (written / RUNTIME).write_bytes(compressed)
        (written / WORKER).write_text(read_source("built/worker.js"), encoding="utf-8")
        (written / PAGE).write_text(first_page(models, written, COURSE if course else None), encoding="utf-8")
        n_bytes = sum(path.stat().st_size for path in written.iterdir())
    return Site(models, n_bytes)


def write_lessons(path: Path) -> None:
    try:
        write_course(path, site=PAGE)
    except InputError as error:
        advice = "Leave the course out: --no-course, or course=False."
        raise InputError(f"cannot write the course: {error} {advice}") from error


def export_models(
    model: str | None, translator: Path | None, text: str, folder: Path, int8: bool
) -> tuple[Exported, ...]:
    """Write the files of a Hugging Face model, a translator or both into a folder; the page opens with `text`."""
    models = []
    if model is not None or translator is None:
        models.append(export_text_model(load_with_lm_head(model), text, folder, int8))
    if translator is not None:
        models.append(export_translator(Translator.load(translator, device="cpu"), text, folder))
    if len({exported.name for exported in models}) < len(models):
        raise InputError(
            f"the model and the translator are both named {models[0].name}; rename one of the folders, so that the "
            "page can offer both."
        )
    return tuple(models)


def check_empty(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; name a new folder, or remove what is in it first.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a new folder.")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}; make it first or name another.")


def first_page(models: tuple[Exported, ...], folder: Path, course: str | None) -> str:
    site: dict[str, Any] = {
        "worker": file_record(folder / WORKER),
        "runtime": file_record(folder / RUNTIME),
        "models": [model.record(folder) for model in models],
        "course": course,
    }
    return site_page(models[0].page(), site)
