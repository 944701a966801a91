"""Tests that reading a damaged JSON file raises only OSError or ValueError."""

import pytest
from refusals import refusal

from regard.json_file import read_json


def test_a_file_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a": [1, "é"]}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"a": [1, "é"]}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
def test_a_file_that_is_not_json_is_a_value_error(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"a":' * 200_000])
def test_brackets_that_are_nested_too_deeply_are_refused(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    assert refusal(ValueError, read_json, tmp_path / "a.json") == "its brackets are nested too deeply"


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "a.json")


def test_a_lone_surrogate_is_refused_and_a_pair_is_a_character(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": "\\ud83d\\ude00"}')
    assert read_json(path) == {"a": "😀"}
    path.write_text('{"a": "\\ud83d"}')
    assert refusal(ValueError, read_json, path) == "a string in it has a lone surrogate"
