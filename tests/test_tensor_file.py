"""Tensors in files: written whole, or refused in words."""

import torch
from refusals import refusal
from safetensors.torch import load_file

from regard import InputError
from regard.tensor_file import write_tensors


def test_written_tensors_are_read_equal(tmp_path, normal):
    tensors = {"turned": normal(3, 5).T, "learned": normal(7).requires_grad_()}
    write_tensors(tmp_path / "a.safetensors", tensors)
    read = load_file(tmp_path / "a.safetensors")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_missing_folder_and_a_folder_as_file_are_refused(tmp_path):
    assert refusal(InputError, write_tensors, tmp_path / "none" / "a", {}) == (
        f"cannot write {tmp_path}/none/a: there is no folder {tmp_path}/none; make it first."
    )
    assert refusal(InputError, write_tensors, tmp_path, {}) == (
        f"cannot write {tmp_path}: it is a folder; name a file in it."
    )
