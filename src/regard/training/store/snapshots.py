"""Snapshots: files with the model's parameters at the latest evaluations, and the mean of such files.

Late in training the mean of several snapshots is a better model than each of them: the steps move around a minimum of
the loss, and the mean is closer to it.

Source: Vaswani et al. 2017, section 6.1 (checkpoint averaging); Izmailov et al. 2018.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import InputError
from regard.tensor_file import open_tensor_file, tensor_shapes_in, write_tensors

RESUME_EARLIER = "delete the latest checkpoint, and training resumes from the one before it."
"""The advice with which every message about a damaged snapshot file ends."""


def write_snapshot(folder: Path, step: int, parameters: Mapping[str, Tensor]) -> str:
    path = folder / f"step-{step}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(path, parameters)
    return path.name


def mean_parameters(folder: Path, names: Sequence[str]) -> dict[str, Tensor]:
    """Return the mean of the parameters in the named files. Only one parameter of each file is in memory at a time."""
    shapes = [tensor_shapes_in(folder / name) for name in names]
    for name, shapes_in_file in zip(names, shapes, strict=True):
        if shapes_in_file != shapes[0]:
            raise InputError(f"{folder / name} has other parameters than {names[0]} beside it; {RESUME_EARLIER}")
    with ExitStack() as stack:
        files = [stack.enter_context(open_tensor_file(folder / name)) for name in names]
        return {name: mean([file.get_tensor(name) for file in files]) for name in shapes[0]}


def mean(tensors: Sequence[Tensor]) -> Tensor:
    """Return the mean, summed in float64, in the data type of the first tensor."""
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(tensors[0].dtype)


def keep_only(folder: Path, needed: Collection[Path]) -> None:
    for path in folder.glob("*.safetensors"):
        if path not in needed:
            path.unlink()
