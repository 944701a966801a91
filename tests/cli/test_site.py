"""`regard site`: what it prints, what it refuses."""

import re
from pathlib import Path

import pytest
from cli_runner import output, refused

from regard.site import Site
from regard.site.check import Difference


def test_the_difference_the_size_and_the_next_command_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def write(*arguments: object) -> Site:
        asked.append(arguments)
        return Site("MiniLM", 95_500_000, Difference(1.7e-6, 1.5e-6))

    monkeypatch.setattr("regard.site.write_site", write)
    printed = output("site", "public", "--model", "mine", "--runtime", "packed.tgz").splitlines()
    assert asked == [(Path("public"), "mine", Path("packed.tgz"))]
    assert printed == [
        "checked MiniLM in ONNX Runtime: at most 1.7e-06 in a weight, 1.5e-06 in the other numbers",
        "wrote   public (96 MB)",
        "",
        "now     python -m http.server --bind 127.0.0.1 --directory public",
    ]


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    assert refused("site", tmp_path) == f"{tmp_path} is not empty; name a new folder, or remove what is in it first."
    absent = tmp_path / "absent.tgz"
    assert re.fullmatch(
        rf"cannot read ort-wasm-simd-threaded\.wasm from {absent}: no such file or directory; give the file that npm "
        r"pack onnxruntime-web@[\d.]+ writes\.",
        refused("site", tmp_path / "new", "--runtime", absent),
    )
    assert not (tmp_path / "new").exists()
