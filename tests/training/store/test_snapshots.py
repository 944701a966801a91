"""Tests of the mean of the parameters in several snapshot files."""

import torch
from refusals import refusal
from torch.testing import assert_close

from regard import InputError
from regard.training.store.snapshots import keep_only, mean, mean_parameters, write_snapshot


def test_the_mean_of_files(tmp_path, normal):
    parameters = [{"w": normal(3, 5), "b": normal(7)} for _ in range(3)]
    names = [write_snapshot(tmp_path, step, named) for step, named in enumerate(parameters)]
    found = mean_parameters(tmp_path, names)
    expected = {key: torch.stack([named[key].double() for named in parameters]).mean(0).float() for key in ("w", "b")}
    assert_close(found, expected, rtol=0, atol=1e-7)
    assert_close(mean_parameters(tmp_path, names[1:2]), parameters[1], rtol=0, atol=0)


def test_a_mean_does_not_drift():
    """The sum is in float64: in float32, small numbers added to a million would be lost."""
    tensors = [torch.tensor([2.0**24]), *[torch.ones(1)] * 7]
    assert mean(tensors) == torch.tensor([(2**24 + 7) / 8])


def test_snapshots_that_no_checkpoint_needs_are_removed(tmp_path):
    names = [write_snapshot(tmp_path, step, {"w": torch.zeros(2)}) for step in (1, 2, 3)]
    keep_only(tmp_path, {tmp_path / names[1]})
    assert [path.name for path in tmp_path.iterdir()] == ["step-2.safetensors"]


def test_snapshots_of_other_parameters_are_refused(tmp_path):
    names = [write_snapshot(tmp_path, step, {"w": torch.zeros(step)}) for step in (1, 2)]
    assert refusal(InputError, mean_parameters, tmp_path, names) == (
        f"{tmp_path}/step-2.safetensors has other parameters than step-1.safetensors beside it; delete the latest "
        "checkpoint, and training resumes from the one before it."
    )
    (tmp_path / names[1]).write_bytes(b"\x00" * 30)
    assert refusal(InputError, mean_parameters, tmp_path, names) == (
        f"{tmp_path}/step-2.safetensors is damaged, or is not a safetensors file; copy it again."
    )
