"""Export a translator to other programs, and check that the export translates the same lines the same way.

    huggingface.py    transformers' own architectures
    ctranslate2.py    CTranslate2's Transformer
    onnx.py           ONNX graphs
    parity.py         the check that the export translates as the translator does

An export is written to a temporary folder beside its destination, and moved there once it is complete and checked.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.errors import InputError, nearest, reason
from regard.export.parity import Parity, compare, made_up
from regard.translation.translator_folder import TranslatorContents, read_translator


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A format of exports.

    Attributes:
        name: its name in messages.
        module: the module that writes and reads it, imported when it is used.
        usage: Python that loads an export; {out!r} is its folder.
    """

    name: str
    module: str
    usage: str

    @property
    def write(self) -> Callable[[TranslatorContents, Path], None]:
        """Return the function that writes an export into an empty folder."""
        return import_module(self.module).write

    @property
    def open(self) -> Callable[[Path], Any]:
        """Return the class that loads an export, for the check."""
        return import_module(self.module).Opened


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "huggingface": Format(
            name="Hugging Face",
            module="regard.export.huggingface",
            usage="AutoModelForSeq2SeqLM.from_pretrained({out!r}), AutoTokenizer.from_pretrained({out!r})",
        ),
        "ctranslate2": Format(
            name="CTranslate2",
            module="regard.export.ctranslate2",
            usage='ctranslate2.Translator({out!r}, compute_type="int8")',
        ),
        "onnx": Format(
            name="ONNX",
            module="regard.export.onnx",
            usage="onnxruntime.InferenceSession({out!r} + '/encoder.onnx')  # and decoder.onnx; see config.json",
        ),
    }
)


def export(folder: Path, to: str, out: Path, lines: Sequence[str] | None = None) -> Parity:
    """Export a translator to a new folder, if the export translates as the translator does.

    Args:
        to: one of `FORMATS`.
        lines: lines for the check; None = lines made up from the vocabulary.

    Raises:
        InputError: an unknown format or one that cannot express the model, a folder that exists or cannot be made, or
            an export that translates differently; then no file is left.
    """
    chosen = format_named(to)
    if out.exists():
        raise InputError(f"{out} exists already; name a folder that does not, or remove it first.")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}; make it first or name another.")
    contents = read_translator(folder)
    try:
        with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as beside:
            written = Path(beside) / "export"
            written.mkdir()
            chosen.write(contents, written)
            parity = compare(
                contents, chosen.open(written), made_up(contents.source_vocabulary) if lines is None else lines
            )
            refuse_difference(parity, chosen)
            written.rename(out)
    except OSError as error:
        if error.strerror is None:  # not the disk's: a library uses this class for errors of its own
            raise
        raise InputError(f"cannot write {out}: {reason(error)}; name another folder.") from error
    return parity


def format_named(to: str) -> Format:
    """Return the format of a name.

    Raises:
        InputError: no format has this name.
    """
    if to not in FORMATS:
        close = nearest(to, list(FORMATS), n=1)[0]
        raise InputError(f"cannot export to {to!r}; nearest: {close}; there are {', '.join(FORMATS)}.")
    return FORMATS[to]


def refuse_difference(parity: Parity, chosen: Format) -> None:
    """Raise InputError if an export does not translate as the translator does."""
    if not parity.holds:
        raise InputError(
            f"the {chosen.name} export does not translate as the translator does, so it was not kept: {parity}, and "
            f"{parity.gap:.1e} nats where they part; the worst line is {parity.worst[:60]!r}."
        )
