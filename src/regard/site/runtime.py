"""ONNX Runtime for browsers: one file of WebAssembly from npm's package onnxruntime-web.

The wheels of regard contain the file, compressed; `make front` puts it into a source tree. Elsewhere the user gives the
npm package. Only the version with which the web worker's script was built is accepted: the checksum must match.
"""

import hashlib
import tarfile
import zlib
from importlib.resources import files
from pathlib import Path

from regard.errors import InputError, reason

VERSION = "1.30.0"
"""The version of onnxruntime-web, as in front/package.json."""

FILE = "ort-wasm-simd-threaded.wasm"
"""The file in the folder `dist` of npm's package onnxruntime-web."""

SHA256 = "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2"

INCLUDED = "built/onnxruntime.wasm.deflate"
"""The path, in views/page, of the compressed file that comes with regard."""

MOST_BYTES = 2**26
"""The most bytes that are read from a given archive, which may unpack to any size; ONNX Runtime has fewer."""


def compressed_runtime(given: Path | None = None) -> bytes:
    """Return ONNX Runtime for browsers, compressed in zlib's format.

    `given` is the file that `npm pack` writes, or the folder of the package; None = the file that comes with regard.
    """
    if given is None:
        included = files("regard.views.page").joinpath(INCLUDED)
        if not included.is_file():
            raise InputError(
                "this installation of regard has no ONNX Runtime for browsers; run "
                f"npm pack onnxruntime-web@{VERSION} and add --runtime onnxruntime-web-{VERSION}.tgz."
            )
        compressed = included.read_bytes()
        check_version(zlib.decompress(compressed), INCLUDED)
        return compressed
    content = read_given(given)
    check_version(content, str(given))
    return zlib.compress(content, level=9)


def read_given(given: Path) -> bytes:
    """Return the contents of `FILE` in the folder or archive of npm's package onnxruntime-web."""
    try:
        if given.is_dir():
            path = next((path for path in (given / FILE, given / "dist" / FILE) if path.is_file()), None)
            if path is None:
                raise InputError(f"{given} has no {FILE}; give the folder of npm's package onnxruntime-web.")
            with path.open("rb") as file:
                return file.read(MOST_BYTES)
        with tarfile.open(given) as archive:
            member = archive.extractfile(f"package/dist/{FILE}")
            if member is None:
                raise KeyError(f"{FILE} is no file in it")
            return member.read(MOST_BYTES)
    except (OSError, EOFError, tarfile.TarError, zlib.error, KeyError) as error:
        raise InputError(
            f"cannot read {FILE} from {given}: {reason(error)}; give the file that "
            f"npm pack onnxruntime-web@{VERSION} writes."
        ) from error


def check_version(content: bytes, source: str) -> None:
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise InputError(
            f"{source} has another {FILE} than that of onnxruntime-web {VERSION}, with which the page was built; "
            f"run npm pack onnxruntime-web@{VERSION} and give the file that it writes."
        )
