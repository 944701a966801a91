"""The library that is loaded: one that the processor can run, built from the sources beside it, and undamaged."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from refusals import refusal

from regard.errors import InputError
from regard.kernels import library
from regard.kernels.build import FOLDER, MANIFEST, levels
from regard.kernels.library import c_function, description, load, loaded_library, processor_level

LOWEST = f"kernels-{next(iter(levels()))}.so"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder with a copy of the kernels, from which they are loaded."""
    copied = tmp_path / "kernels"
    shutil.copytree(FOLDER, copied)
    monkeypatch.setattr(library, "FOLDER", copied)
    for cached in (c_function, loaded_library, processor_level):
        cached.cache_clear()
    yield copied
    for cached in (c_function, loaded_library, processor_level):
        cached.cache_clear()


def refused(folder: Path, why: str) -> None:
    """Fail unless the library is refused with this reason, which --version shows too."""
    message = (
        f"the compiled kernels in {folder} cannot be used: {why}; build them again with python -m regard.kernels.build."
    )
    assert refusal(InputError, c_function, "regard_attention") == message
    assert description() == f"kernels: none: {message}"


def test_the_level_is_the_highest_one_that_the_processor_has():
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if "avx2" not in flags:
        assert processor_level() in levels()
    else:
        with_avx512 = "x86-64-v4-vnni" if "avx512_vnni" in flags else "x86-64-v4"
        assert processor_level() == (with_avx512 if "avx512vl" in flags else "x86-64-v3")
    assert description() == f"kernels: {processor_level()}"


@pytest.mark.parametrize("keep", [0, 1, 4096, -1])
def test_a_library_that_was_cut_off_is_never_loaded(folder, keep):
    path = folder / LOWEST
    path.write_bytes(path.read_bytes()[:keep])
    refused(folder, f"{LOWEST} has changed since it was built")


def test_libraries_of_other_sources_are_never_loaded(folder):
    (folder / "lanes.h").write_text("/* another file */")
    refused(folder, "they were built from other C sources than those beside them")


def test_a_library_that_is_missing_is_refused(folder):
    (folder / LOWEST).unlink()
    refused(folder, f"{LOWEST}: no such file or directory")


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"sources": 1, "libraries": []}', "\udcff"])
def test_a_damaged_manifest_is_refused(folder, manifest):
    (folder / MANIFEST).write_bytes(manifest.encode(errors="surrogateescape"))
    refused(folder, "built.json is damaged")


def test_a_library_that_the_system_cannot_load_is_refused(folder):
    (folder / LOWEST).write_bytes(b"no library")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["libraries"][LOWEST] = library.checksum(folder / LOWEST)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert refusal(InputError, load, LOWEST).endswith("build them again with python -m regard.kernels.build.")


def test_without_built_kernels_there_is_no_function_and_the_version_says_what_is_slower(folder):
    (folder / MANIFEST).unlink()
    assert c_function("regard_attention") is None
    assert description() == (
        "kernels: none (no C compiler when installed); attention with statistics takes up to 20 times as long on a "
        "CPU, and decoding up to 9 times; with a compiler, python -m regard.kernels.build builds them"
    )


def test_a_processor_below_the_lowest_level_runs_none(folder, monkeypatch):
    class Old:
        """A fake library that says that the processor is below the lowest level."""

        regard_processor_level = staticmethod(lambda: 0)

    monkeypatch.setattr(library, "levels", lambda: {"x86-64-v2": (), "x86-64-v3": ()})
    monkeypatch.setattr(library, "load", lambda name: Old())
    assert loaded_library() is None
    assert description().startswith("kernels: none (the processor is below x86-64-v2); ")


def test_at_run_time_nothing_is_compiled_nothing_is_written_and_triton_is_not_needed(tmp_path):
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch; from regard import Ask, attend; from regard.attention.statistics.choose import find_engine\n"
        "x = torch.ones(1, 1, 3, 4); seen = attend(x, x, x, ask=Ask())\n"
        "print(find_engine(seen.pattern.call).__name__, seen.pattern.received().sum().item())"
    )
    home = tmp_path / "home"
    home.mkdir()
    places = {"HOME": home, "XDG_CACHE_HOME": home / "cache", "TMPDIR": home, "PATH": "", "CC": "/bin/false"}
    environment = os.environ | {name: str(place) for name, place in places.items()}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.stdout.strip() == "regard.attention.statistics.cpu.engine 3.0", run.stderr
    assert [path for path in home.rglob("*") if "matplotlib" not in str(path)] == []
