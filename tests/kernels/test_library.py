"""C compiled for this machine: once, into the user's cache, and without a compiler not at all."""

import ctypes
from pathlib import Path

import pytest

from regard.kernels.library import HEADERS, cache_folder, compiled, library

SOURCE = """
#include "lanes.h"
void largest(float *numbers) { numbers[0] = largest_of(load(numbers)); }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A C file beside which the headers lie, as ours do."""
    for header in HEADERS:
        (tmp_path / header.name).write_bytes(header.read_bytes())
    path = tmp_path / "largest.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "regard"


def test_it_is_compiled_into_the_users_cache_once(source, cache):
    assert cache_folder() == cache
    made = library([source], cache)
    before = made.stat().st_mtime_ns
    assert library([source], cache) == made
    assert made.stat().st_mtime_ns == before
    assert [path.name for path in cache.iterdir()] == [made.name]
    assert made.name.startswith("largest-")


def test_another_source_is_another_file(source, cache):
    made = library([source], cache)
    source.write_text(SOURCE + "/* and more */")
    assert library([source], cache) != made


def test_its_function_is_called_with_arguments_of_its_types(source):
    numbers = (ctypes.c_float * 16)(*[1.0, -6.0, 8.0, 2.0] * 4)
    largest = compiled([source], "largest", ctypes.c_void_p)
    assert largest(numbers) is None
    assert list(numbers)[:2] == [8.0, -6.0]


def test_without_a_compiler_there_is_none_and_a_failing_one_is_no_error(source, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert compiled([source], "largest") is None
    broken = tmp_path / "cc"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert compiled([source], "largest") is None


def test_where_there_is_no_home_it_is_compiled_anew(source, monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert compiled([source], "largest") is not None


def test_where_the_cache_cannot_be_written_it_is_compiled_anew(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiled([source], "largest") is not None
