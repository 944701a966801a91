"""Export a translator to the format of another program, and check that the export gives the same translations.

An export is written to a temporary folder beside `out`, checked there, and only then renamed to `out`.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from regard.errors import InputError, nearest, reason, require_packages
from regard.export.parity import Parity, compare, random_lines
from regard.translation.translator import Translator


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A format to which translators can be exported.

    Attributes:
        name: the format's name in messages.
        module: the module that writes and loads this format; it is imported at first use.
        packages: the import names of the packages that write and load this format.
        extra: the extras of regard that install these packages, with commas between.
        usage: Python code that loads an export, for the user; {out!r} stands for the folder of the export.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    extra: str
    usage: str

    @property
    def write(self) -> Callable[[Translator, Path], None]:
        """The function that writes a translator in this format to an empty folder."""
        return import_module(self.module).write

    @property
    def open(self) -> Callable[[Path], Any]:
        """The class that loads an exported translator and translates with it."""
        return import_module(self.module).LoadedExport


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "huggingface": Format(
            name="Hugging Face",
            module="regard.export.huggingface",
            packages=("transformers", "safetensors", "sentencepiece"),
            extra="huggingface,translation",
            usage="AutoModelForSeq2SeqLM.from_pretrained({out!r}), AutoTokenizer.from_pretrained({out!r})",
        ),
        "ctranslate2": Format(
            name="CTranslate2",
            module="regard.export.ctranslate2",
            packages=("ctranslate2", "safetensors", "sentencepiece"),
            extra="export,translation",
            usage="ctranslate2.Translator({out!r})",
        ),
        "onnx": Format(
            name="ONNX",
            module="regard.export.onnx",
            packages=("onnx", "onnxscript", "onnxruntime", "safetensors", "sentencepiece"),
            extra="export,translation",
            usage="onnxruntime.InferenceSession({out!r} + '/encoder.onnx')  # and decoder.onnx; see config.json",
        ),
    }
)
"""The formats, by the names that `export` and `regard export --to` take."""


def export(folder: Path, to: str, out: Path, lines: Sequence[str] | None = None) -> Parity:
    """Export a translator to the new folder `out`, check that the export translates alike, and return how far it does.

    Args:
        to: the name of the format, a key of `FORMATS`.
        lines: the source sentences that the translator and the export translate; None = lines of random pieces.
    """
    chosen = format_of_name(to)
    require_packages(chosen.packages, chosen.extra)
    if out.exists():
        raise InputError(f"{out} exists already; name a new folder, or remove this one first.")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}; make it first or name another.")
    translator = Translator.load(folder, "cpu")
    # `write` and `open` may create models with random parameters, but the caller's random numbers must not change
    with new_folder(out) as written, torch.random.fork_rng(devices=[]):
        chosen.write(translator, written)
        lines = random_lines(translator.source_vocabulary) if lines is None else lines
        parity = compare(translator, chosen.open(written), lines)
        refuse_difference(parity, chosen)
    return parity


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder, and rename it to `out` at the end of the `with` block; after an error, delete it."""
    try:
        with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as temporary:
            written = Path(temporary) / "new"
            written.mkdir()
            yield written
            written.rename(out)
    except OSError as error:
        if error.strerror is None:  # no error of the file system: some libraries raise OSError for errors of their own
            raise
        raise InputError(f"cannot write {out}: {reason(error)}; name another folder.") from error


def format_of_name(to: str) -> Format:
    if to not in FORMATS:
        close = nearest(to, list(FORMATS), n=1)[0]
        raise InputError(f"cannot export to {to!r}; nearest: {close}; there are {', '.join(FORMATS)}.")
    return FORMATS[to]


def refuse_difference(parity: Parity, chosen: Format) -> None:
    if not parity.holds:
        raise InputError(
            f"the {chosen.name} export does not translate as the translator does, so it was deleted: {parity}; at the "
            "first piece that differs, the translator's logits of its own piece and of the export's piece are up to "
            f"{parity.gap:.1e} apart; the worst line is {parity.worst[:60]!r}."
        )
