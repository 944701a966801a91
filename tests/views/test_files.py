"""Files are written whole or not at all."""

import os

import pytest

from regard import InputError
from regard.views.files import writable, write_whole


def test_text_and_bytes(tmp_path):
    assert write_whole(tmp_path / "a", "뱀\n").read_bytes() == "뱀\n".encode()
    assert write_whole(tmp_path / "a", b"\x00\xff").read_bytes() == b"\x00\xff"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write_whole(tmp_path / "a", "old")
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *args: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(InputError) as refusal:
        write_whole(path, "new")
    assert str(refusal.value) == f"cannot write {path}: no space left on device; name another file."
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_an_existing_file_keeps_its_permissions_and_a_new_one_gets_the_usual_ones(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    assert write_whole(path, "new").stat().st_mode & 0o777 == 0o640
    usual = tmp_path / "usual"
    usual.touch()
    assert write_whole(tmp_path / "b", "new").stat().st_mode == usual.stat().st_mode


def test_no_folder(tmp_path):
    path = tmp_path / "none" / "a.html"
    with pytest.raises(InputError) as refusal:
        writable(path)
    assert str(refusal.value) == (
        f"cannot write {path}: there is no folder {path.parent}; make it first or name another file."
    )
    with pytest.raises(InputError) as refusal:
        write_whole(path, "new")
    assert str(refusal.value) == f"cannot write {path}: no such file or directory; name another file."


def test_a_folder(tmp_path):
    with pytest.raises(InputError) as refusal:
        writable(tmp_path)
    assert str(refusal.value) == f"cannot write {tmp_path}: it is a folder; name a file in it."
    with pytest.raises(InputError) as refusal:
        write_whole(tmp_path, "new")
    assert str(refusal.value) == f"cannot write {tmp_path}: it is a folder; name another file."


def test_no_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root, as CI runs, may write anywhere
    with pytest.raises(InputError) as refusal:
        writable(tmp_path / "a")
    assert str(refusal.value) == f"cannot write {tmp_path / 'a'}: writing there is not permitted; name another file."
