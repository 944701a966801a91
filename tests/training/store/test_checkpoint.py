"""Checkpoints: complete or absent after any kill; damage is found and reported, and the checkpoint is skipped."""

import json
import os
import subprocess
import sys

import pytest
import torch
from forked_programs import DIE_AT
from refusals import refusal
from torch.testing import assert_close

from regard.training.store.checkpoint import DamagedError, files_needed, keep_latest, latest_checkpoint, save_checkpoint

KILLED_AT_EVERY_CALL = """
import sys
from pathlib import Path
import torch
from regard.training.store.checkpoint import keep_latest, save_checkpoint

def save(folder, step):
    save_checkpoint(folder, step, {"model": {"w": torch.full((3, 5), float(step))}}, {"n": step})
    keep_latest(folder, 1, step)

def killed(folder, nth):
    die_at(nth)
    save(folder, 2)
    os._exit(0)

for nth in range(1, 100):
    folder = Path(sys.argv[1]) / str(nth) / "checkpoints"
    save(folder, 1)
    child = os.fork() or killed(folder, nth)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 9:
        sys.exit(status)
"""


def tensors(value):
    return {"model": {"w": torch.full((3, 5), float(value))}, "optimiser": {"m": torch.full((2,), value + 0.5)}}


@pytest.fixture
def three(tmp_path):
    """A folder with the checkpoints of three steps."""
    folder = tmp_path / "checkpoints"
    for step in (1, 5, 20):
        save_checkpoint(folder, step, tensors(step), {"n": step})
    return folder


def silent(text):
    raise AssertionError(text)


def test_a_checkpoint_is_read_as_it_was_written_and_replaced_by_one_of_the_same_step(three):
    found = latest_checkpoint(three, silent)
    assert found.state == {"n": 20}
    assert found.folder == three / "step-20"
    assert_close(found.tensors, tensors(20), rtol=0, atol=0)
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "manifest.json", "model.safetensors", "optimiser.safetensors", "state.json",
    ]  # fmt: skip
    save_checkpoint(three, 20, tensors(21), {"n": 21})
    assert latest_checkpoint(three, silent).state == {"n": 21}


def test_a_folder_without_checkpoints(tmp_path):
    assert latest_checkpoint(tmp_path / "none", silent) is None


def test_only_the_latest_checkpoints_are_kept(three):
    (three / ".step-30.writing").mkdir()
    keep_latest(three, 2, 20)
    assert sorted(path.name for path in three.iterdir()) == ["step-20", "step-5"]


def test_a_skipped_damaged_checkpoint_does_not_count_as_kept(three):
    (three / "step-20" / "manifest.json").write_text("{")
    assert latest_checkpoint(three, lambda text: None).state == {"n": 5}
    save_checkpoint(three, 9, tensors(9), {"n": 9})
    keep_latest(three, 2, 9)
    assert sorted(path.name for path in three.iterdir()) == ["step-5", "step-9"]
    assert files_needed(three) == set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked for every moment")
def test_killed_at_every_moment_of_saving(tmp_path):
    """After a kill at any call that changes the disk, either the old or the new checkpoint is complete."""
    subprocess.run([sys.executable, "-c", DIE_AT + KILLED_AT_EVERY_CALL, str(tmp_path)], check=True)
    moments = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    found = [latest_checkpoint(path / "checkpoints", silent).state["n"] for path in moments]
    assert len(found) > 10
    assert found == sorted(found)
    assert {1, 2} == set(found)
    assert found[-1] == 2
    assert [path.name for path in (moments[-1] / "checkpoints").iterdir()] == ["step-2"]


def spoil(path):
    path.write_bytes(path.read_bytes()[:-3] + b"abc")


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def name_too_long(path):
    about = json.loads(path.read_text())
    about["files"]["a" * 5_000] = about["files"].pop("state.json")
    path.write_text(json.dumps(about))


def of_version_3(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 3}))


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("model.safetensors", cut, "is damaged: model.safetensors has 219 bytes, and 220 were written."),
        ("model.safetensors", spoil, "is damaged: model.safetensors is not what was written (its SHA-256 differs)."),
        ("optimiser.safetensors", os.unlink, "is incomplete: optimiser.safetensors is missing."),
        ("state.json", spoil, "is damaged: state.json is not what was written (its SHA-256 differs)."),
        ("manifest.json", os.unlink, "is incomplete: its manifest.json is missing or cannot be read."),
        ("manifest.json", cut, "is damaged: its manifest.json is not what regard writes."),
        ("manifest.json", name_too_long, "is damaged: its manifest.json is not what regard writes."),
        (
            "manifest.json",
            of_version_3,
            "is a regard checkpoint of version 3; this version of regard reads version 2.",
        ),
    ],
)
def test_the_checkpoint_before_a_damaged_one_is_taken_with_the_reason(three, name, harm, words):
    harm(three / "step-20" / name)
    said = []
    assert latest_checkpoint(three, said.append).state == {"n": 5}
    assert said == [f"{three / 'step-20'} {words} Going on from step 5."]


def test_all_checkpoints_are_damaged(tmp_path):
    folder = tmp_path / "checkpoints"
    save_checkpoint(folder, 3, tensors(3), {})
    (folder / "step-3" / "state.json").unlink()
    assert refusal(DamagedError, latest_checkpoint, folder, silent) == (
        f"{folder / 'step-3'} is incomplete: state.json is missing. There is no other checkpoint; "
        "train into another folder with --out."
    )


def test_files_beside_are_checked_too(tmp_path):
    folder, beside = tmp_path / "checkpoints", tmp_path / "snapshots" / "step-3.safetensors"
    beside.parent.mkdir()
    beside.write_bytes(b"abcdef")
    save_checkpoint(folder, 1, tensors(1), {"n": 1})
    save_checkpoint(folder, 3, tensors(3), {"n": 3}, [beside])
    assert files_needed(folder) == {beside}
    said = []
    assert latest_checkpoint(folder, silent).state == {"n": 3}
    spoil(beside)
    assert latest_checkpoint(folder, said.append).state == {"n": 1}
    assert said == [
        f"snapshots/step-3.safetensors has changed since {folder / 'step-3'} was saved (its SHA-256 differs). "
        "Going on from step 1."
    ]
    beside.unlink()
    latest_checkpoint(folder, said.append)
    assert said[1:] == [
        f"{folder / 'step-3'} is incomplete: snapshots/step-3.safetensors is missing. Going on from step 1."
    ]
