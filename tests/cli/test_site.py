"""`regard site`: what it prints, what it refuses."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runner import output, refused

from regard.site import Site
from regard.site.check import Difference
from regard.site.exported import Exported
from regard.site.folder import FIRST_TEXT
from regard.tracing.trace import Trace


def test_the_difference_the_size_and_the_next_command_are_printed(
    monkeypatch: pytest.MonkeyPatch, handmade: Callable[..., Trace]
) -> None:
    asked = []
    difference = Difference(1.7e-6, 1.5e-6)
    first, report = handmade("a b"), f"at most {difference}"
    model = Exported(kind="encoder", first=first, files={}, max_tokens=7, difference=difference, report=report)

    def write(*arguments: object, **settings: object) -> Site:
        asked.append((arguments, settings))
        return Site((model, model), 95_500_000)

    monkeypatch.setattr("regard.site.write_site", write)
    options = ("--model", "mine", "--runtime", "packed.tgz", "--translator", "en-ko", "--text", "It rains.")
    printed = output("site", "public", *options, "--no-course").splitlines()
    output("site", "public")
    chosen = {"translator": Path("en-ko"), "text": "It rains.", "course": False, "int8": False}
    assert asked == [
        ((Path("public"), "mine", Path("packed.tgz")), chosen),
        ((Path("public"), None, None), {"translator": None, "text": FIRST_TEXT, "course": True, "int8": False}),
    ]
    assert printed == [
        *["checked handmade in ONNX Runtime: at most 1.7e-06 in a weight, 1.5e-06 in the other numbers"] * 2,
        "wrote   public (96 MB)",
        "",
        "now     python -m http.server --bind 127.0.0.1 --directory public",
    ]


def test_a_folder_in_use_and_a_missing_runtime_are_refused(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    assert refused("site", tmp_path) == f"{tmp_path} is not empty; name a new folder, or remove what is in it first."
    absent = tmp_path / "absent.tgz"
    assert re.fullmatch(
        rf"cannot read ort-wasm-simd-threaded\.wasm from {absent}: no such file or directory; give the file that npm "
        r"pack onnxruntime-web@[\d.]+ writes\.",
        refused("site", tmp_path / "new", "--runtime", absent),
    )
    assert not (tmp_path / "new").exists()


def test_int8_is_for_a_model(tmp_path: Path) -> None:
    assert refused("site", tmp_path / "new", "--translator", "en-ko", "--int8") == (
        "int8 is for a model; a translator stays in float32: leave int8 out, or give a model too."
    )
