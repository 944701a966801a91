"""Tensors in files: written whole, or refused in words."""

import errno

import pytest
import torch
from refusals import refusal
from safetensors.torch import load_file

from regard import InputError
from regard.tensor_file import write_tensors


def test_what_is_written_is_read(tmp_path, normal):
    tensors = {"turned": normal(3, 5).T, "learned": normal(7).requires_grad_()}
    write_tensors(tmp_path / "a.safetensors", tensors)
    read = load_file(tmp_path / "a.safetensors")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_disk_that_takes_no_more(tmp_path):
    resource = pytest.importorskip("resource", reason="has limits")
    path, usual = tmp_path / "a.safetensors", resource.getrlimit(resource.RLIMIT_FSIZE)
    write_tensors(path, {"a": torch.zeros(2)})
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
    try:
        with pytest.raises(InputError) as refusal:
            write_tensors(path, {"a": torch.zeros(2000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert str(refusal.value) == (
        f"cannot write {path} (Error while serializing: I/O error: File too large (os error {errno.EFBIG})); "
        "make room on its disk, or name another folder."
    )
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_folder_that_is_not_there(tmp_path):
    assert refusal(InputError, write_tensors, tmp_path / "none" / "a", {}) == (
        f"cannot write {tmp_path}/none/a: there is no folder {tmp_path}/none; make it first."
    )
    assert refusal(InputError, write_tensors, tmp_path, {}) == (
        f"cannot write {tmp_path}: it is a folder; name a file in it."
    )
