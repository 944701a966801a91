"""Tests of building the C kernels: for every processor level, with failing compilers, completely or not at all."""

import json
import shutil
import time
from pathlib import Path

import psutil
import pytest
from refusals import refusal

from regard.kernels import build as builder
from regard.kernels.build import FOLDER, LEVELS, MANIFEST, BuildError, build, checksum, levels, main, sources_checksum

MISSING = "no C compiler (cc, gcc or clang) was found"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a copy of the C files."""
    made = tmp_path / "kernels"
    made.mkdir()
    for file in (*FOLDER.glob("*.c"), *FOLDER.glob("*.h")):
        shutil.copy(file, made)
    return made


@pytest.fixture
def one_level(monkeypatch: pytest.MonkeyPatch) -> str:
    """Limit the build to one processor level, so that a test compiles once; return the level's name."""
    monkeypatch.setattr(builder, "levels", lambda: {"any": ()})
    return "any"


def compiler(folder: Path, script: str) -> str:
    """Write a shell script that replaces the C compiler; return its path."""
    path = folder / "pretended-cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_every_level_is_built_and_stands_in_the_manifest_with_its_checksum(folder):
    before = set(folder.iterdir())
    names = build(folder, "-O0")  # compiles in a third of the time
    assert names == [f"kernels-{level}.so" for level in levels()]
    assert {path.name for path in set(folder.iterdir()) - before} == {*names, MANIFEST}
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest == {
        "sources": sources_checksum(folder),
        "libraries": {name: checksum(folder / name) for name in names},
    }


def test_the_checksum_of_the_sources_depends_on_contents_and_names(folder):
    first = sources_checksum(folder)
    (folder / "lanes.h").write_bytes((folder / "lanes.h").read_bytes() + b"\n")
    second = sources_checksum(folder)
    (folder / "lanes.h").rename(folder / "lanes2.h")  # also the next after lanes.h in alphabetical order
    assert len({first, second, sources_checksum(folder)}) == 3


def test_if_every_compiler_fails_the_message_names_it_and_an_earlier_build_is_removed(folder, tmp_path, monkeypatch):
    (folder / MANIFEST).write_text("{}")
    command = compiler(tmp_path, "echo attention.c:1: error: no such thing; exit 3")
    monkeypatch.setenv("CC", f"{command} -pipe")
    monkeypatch.setenv("PATH", "")
    assert refusal(BuildError, build, folder) == f"{command} failed with status 3: attention.c:1: error: no such thing"
    assert not (folder / MANIFEST).exists()
    assert not list(folder.glob("building-*"))


def test_a_compiler_that_hangs_is_stopped_with_the_processes_it_started(folder, tmp_path, monkeypatch, one_level):
    noted = tmp_path / "child"
    monkeypatch.setenv(
        "CC", compiler(tmp_path, f"/bin/sleep 600 & echo $! > {noted}.$$; /bin/mv {noted}.$$ {noted}; wait")
    )
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(builder, "COMPILE_SECONDS", 2)
    with pytest.raises(BuildError, match="was stopped after 2 seconds"):
        build(folder)
    child, deadline = int(noted.read_text()), time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_a_compiler_one_line_says_what_is_slower(folder, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert main(folder) == 1
    assert capsys.readouterr().err == (
        f"regard: the C kernels were not built: {MISSING}. Without them attention with statistics takes up to 20 times "
        "as long on a CPU, and decoding up to 9 times.\n"
    )


def test_a_folder_that_cannot_be_written_gives_a_message_of_one_line(folder, capsys):
    assert main(folder / "missing") == 1
    assert capsys.readouterr().err.startswith("regard: the C kernels were not built: [Errno 2]")


def test_only_the_given_flags_are_used_and_a_failing_compiler_is_passed_over(folder, tmp_path, monkeypatch, one_level):
    said = tmp_path / "said"
    monkeypatch.setenv("CC", compiler(tmp_path, f'echo "$@" >> {said}; exit 1'))
    monkeypatch.setenv("CFLAGS", "-march=native")
    assert build(folder, "-O0", "-DNAME=a b") == [f"kernels-{one_level}.so"]
    assert "-O0 -DNAME=a b" in said.read_text()
    assert "native" not in said.read_text()


def test_processor_c_asks_for_every_instruction_set_of_a_level():
    text = (FOLDER / "processor.c").read_text()
    tests = text.split("return")
    lower: tuple[str, ...] = ()
    for below, names in enumerate(LEVELS["x86_64"].values()):
        assert tests[below + 1].split(";")[0].strip() == str(below)
        assert [name for name in names if name not in lower] == [
            part.split('"')[1] for part in tests[below].split("__builtin_cpu_supports(")[1:]
        ]
        lower = names
    assert tests[below + 2].split(";")[0].strip() == str(below + 1)
