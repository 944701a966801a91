"""Files are written whole or not at all."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from regard.atomic_files import atomic_replace, write_atomically


def test_text_is_written_as_utf_8_and_bytes_as_they_are(tmp_path):
    for content, stored in (("뱀\n", "뱀\n".encode()), (b"\x00\xff", b"\x00\xff")):
        write_atomically(tmp_path / "a", content)
        assert (tmp_path / "a").read_bytes() == stored
        assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with atomic_replace(path) as beside:
        beside.write_text("ne")
        assert path.read_text() == "old"
        assert beside.parent == path.parent
        beside.write_text("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False])
def test_an_error_while_writing_leaves_the_old_file_or_none(tmp_path, there):
    path = tmp_path / "a"
    if there:
        path.write_text("old")

    def fail():
        with atomic_replace(path) as beside:
            beside.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"] * there


def test_an_existing_file_keeps_its_permissions_and_a_new_one_gets_the_usual_ones(tmp_path):
    path, usual, new = tmp_path / "a", tmp_path / "usual", tmp_path / "new"
    path.write_text("old")
    path.chmod(0o640)
    write_atomically(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640
    usual.touch()
    with atomic_replace(new) as beside:
        beside.unlink()
        beside.touch(mode=0o600)  # as safetensors does
    assert new.stat().st_mode == usual.stat().st_mode


def test_a_folder_of_that_name_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "a", "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    for content in ("one", "two"):
        write_atomically(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "far" / "file").read_text() == content


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit((tmp_path / "pipe").read_text)
        write_atomically(tmp_path / "pipe", "new")
        assert read.result() == "new"
    assert (tmp_path / "pipe").is_fifo()


def test_a_name_of_255_bytes_is_written(tmp_path):
    write_atomically(tmp_path / ("a" * 255), "long")
    assert (tmp_path / ("a" * 255)).read_text() == "long"


def test_several_threads_may_write_the_same_file(tmp_path):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: write_atomically(tmp_path / "a", str(n)), range(200)))
    assert (tmp_path / "a").read_text() in map(str, range(200))
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
