"""Tests of the messages if a file that the user names cannot be written."""

import os
from pathlib import Path

import pytest

from regard import InputError
from regard.views.output_file import check_writable, write_output


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write_output(tmp_path / "a", "old")
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *args: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(InputError) as refusal:
        write_output(path, "new")
    assert str(refusal.value) == f"cannot write {path}: no space left on device; name another file."
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_no_folder(tmp_path):
    path = tmp_path / "none" / "a.html"
    with pytest.raises(InputError) as refusal:
        check_writable(path)
    assert str(refusal.value) == (
        f"cannot write {path}: there is no folder {path.parent}; make it first or name another file."
    )
    with pytest.raises(InputError) as refusal:
        write_output(path, "new")
    assert str(refusal.value) == f"cannot write {path}: no such file or directory; name another file."


def test_a_folder(tmp_path):
    with pytest.raises(InputError) as refusal:
        check_writable(tmp_path)
    assert str(refusal.value) == f"cannot write {tmp_path}: it is a folder; name a file in it."
    with pytest.raises(InputError) as refusal:
        write_output(tmp_path, "new")
    assert str(refusal.value) == f"cannot write {tmp_path}: is a directory; name another file."


def test_a_file_that_may_be_written_in_a_folder_that_may_not_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root, as CI runs, may write anywhere
    with pytest.raises(InputError) as refusal:
        check_writable(tmp_path / "a")
    assert str(refusal.value) == (f"cannot write {tmp_path / 'a'}: writing there is not permitted; name another file.")
    assert check_writable(Path("/dev/null")) == Path("/dev/null")


def test_no_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root, as CI runs, may write anywhere
    with pytest.raises(InputError) as refusal:
        check_writable(tmp_path / "a")
    assert str(refusal.value) == f"cannot write {tmp_path / 'a'}: writing there is not permitted; name another file."
