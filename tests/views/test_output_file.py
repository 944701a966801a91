"""Tests of the messages if a file that the user names cannot be written."""

import os
from pathlib import Path

import pytest
from refusals import refusal

from regard import InputError
from regard.views.output_file import check_writable, write_output

ANOTHER = "; name another file."


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    path = write_output(tmp_path / "a", "old")
    monkeypatch.setattr("pathlib.Path.replace", full)
    assert refusal(InputError, write_output, path, "new") == f"cannot write {path}: no space left on device{ANOTHER}"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_folder_that_is_not_there_and_a_folder_instead_of_a_file(tmp_path):
    path = tmp_path / "none" / "a.html"
    absent = f"cannot write {path}: there is no folder {path.parent}; make it first or name another file."
    assert refusal(InputError, check_writable, path) == absent
    assert refusal(InputError, write_output, path, "new") == f"cannot write {path}: no such file or directory{ANOTHER}"
    folder = f"cannot write {tmp_path}: "
    assert refusal(InputError, check_writable, tmp_path) == f"{folder}it is a folder; name a file in it."
    assert refusal(InputError, write_output, tmp_path, "new") == f"{folder}is a directory{ANOTHER}"


@pytest.mark.parametrize("exists", [False, True])
def test_a_file_in_a_folder_that_may_not_be_written_is_refused_before_the_work(tmp_path, monkeypatch, exists):
    path = tmp_path / "a"
    path.write_text("") if exists else None
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root, as CI runs, may write anywhere
    assert refusal(InputError, check_writable, path) == f"cannot write {path}: writing there is not permitted{ANOTHER}"
    assert check_writable(Path("/dev/null")) == Path("/dev/null")


def test_a_file_that_may_not_be_written(tmp_path, monkeypatch):
    path = write_output(tmp_path / "a", "old")
    monkeypatch.setattr(os, "access", lambda one, mode: one != path)
    assert refusal(InputError, check_writable, path) == f"cannot write {path}: writing there is not permitted{ANOTHER}"
