"""Checkpoints: folders of safetensors and JSON that are there whole or not at all.

A checkpoint is written to a folder of another name beside, every file and then the folder forced to the disk, and the
folder is given its own name last: whoever is killed, at whatever moment, leaves the earlier checkpoint or the new one.
`manifest.json` lists every file with its size and SHA-256, so that what a failing disk or a half-finished copy did
is seen and said, and the checkpoint before is taken.

    DIR/checkpoints/step-400/model.safetensors  optimiser.safetensors  state.json  manifest.json
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor

from regard.atomic_files import sync_folder, write_whole
from regard.errors import InputError, needs
from regard.tensor_file import write_tensors
from regard.training.store.files import facts, remove_folder

FORMAT = "regard checkpoint"
VERSION = 1
PREFIX = "step-"


class DamagedError(InputError):
    """A checkpoint that is not what was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A checkpoint that was read, checked file by file."""

    folder: Path
    tensors: Mapping[str, dict[str, Tensor]]
    """By the file's name without its ending: model, optimiser."""

    state: Any
    """What state.json holds."""


def save_checkpoint(
    folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Any, beside: Sequence[Path] = ()
) -> Path:
    """Write the checkpoint of a step, whole or not at all; one that is there already for this step is replaced.

    Args:
        folder: where the checkpoints lie.
        step: what names it.
        tensors: by file, then by name.
        state: plain values, for JSON.
        beside: files next to `folder` that it needs as they are; they are checked with its own when it is read.
    """
    place = folder / f"{PREFIX}{step}"
    writing = folder / f".{place.name}.writing"
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir(parents=True)
    for name, named in tensors.items():
        write_tensors(writing / f"{name}.safetensors", named)
    write_whole(writing / "state.json", json.dumps(state, indent=1))
    files = {path.name: facts(path) for path in sorted(writing.iterdir())}
    others = {str(PurePosixPath(path.relative_to(folder.parent))): facts(path) for path in beside}
    manifest = {"format": FORMAT, "version": VERSION, "files": files, "beside": others}
    write_whole(writing / "manifest.json", json.dumps(manifest, indent=1))
    sync_folder(writing)
    remove_folder(place)
    writing.replace(place)
    sync_folder(folder)
    return place


def latest_checkpoint(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """The latest checkpoint that is whole; None where there has never been one.

    Args:
        folder: where the checkpoints lie.
        say: told of every checkpoint that is passed over, and why.

    Raises:
        DamagedError: there are checkpoints, and none is whole.
    """
    reasons = []
    for step in sorted(saved_steps(folder), reverse=True):
        try:
            checkpoint = read_checkpoint(folder / f"{PREFIX}{step}")
        except DamagedError as error:
            reasons.append(str(error))
        else:
            for reason in reasons:
                say(f"{reason} Going on from step {step:,}.")
            return checkpoint
    if reasons:
        raise DamagedError(f"{' '.join(reasons)} There is no other checkpoint; train into another folder with --out.")
    return None


def saved_steps(folder: Path) -> list[int]:
    """The steps that have a checkpoint, smallest first."""
    names = [path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*")]
    return sorted(int(name) for name in names if name.isdecimal())


def keep_latest(folder: Path, n: int, step: int) -> None:
    """Remove all checkpoints but the latest n up to a step, and what a killed run left half-written.

    Those of later steps were damaged, so that the training went on from before them.
    """
    saved = saved_steps(folder)
    kept = [there for there in saved if there <= step][-n:]
    for there in saved:
        if there not in kept:
            remove_folder(folder / f"{PREFIX}{there}")
    for left in folder.glob(".*.writing"):
        shutil.rmtree(left, ignore_errors=True)


def read_checkpoint(place: Path) -> Checkpoint:
    """A checkpoint from its folder.

    Raises:
        DamagedError: a file is missing, shorter, longer or other than was written, or one beside it is.
    """
    manifest = read_manifest(place)
    for name, written in manifest["files"].items():
        refuse_damage(place, place / name, written)
    for name, written in manifest["beside"].items():
        refuse_another(place, name, written)
    from_file = needs("safetensors.torch", "translation").load_file
    return Checkpoint(
        folder=place,
        tensors={path.stem: from_file(path) for path in sorted(place.glob("*.safetensors"))},
        state=json.loads((place / "state.json").read_bytes()),
    )


def read_manifest(place: Path) -> dict[str, Any]:
    """What a checkpoint says it consists of.

    Raises:
        DamagedError: it does not say, or is of a version that we cannot read.
    """
    try:
        manifest = json.loads((place / "manifest.json").read_bytes())
        kind, version = manifest["format"], manifest["version"]
    except OSError as error:
        raise DamagedError(f"{place} is not whole: its manifest.json is missing or cannot be read.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{place} is damaged: its manifest.json is not what regard writes.") from error
    if (kind, version) != (FORMAT, VERSION):
        raise DamagedError(f"{place} is a {kind} of version {version}, and this regard reads version {VERSION}.")
    return dict(manifest)


def needed_beside(folder: Path) -> set[Path]:
    """The files next to a folder of checkpoints that any of them needs."""
    names: set[str] = set()
    for step in saved_steps(folder):
        names |= read_manifest(folder / f"{PREFIX}{step}")["beside"].keys()
    return {folder.parent / name for name in names}


def refuse_damage(place: Path, path: Path, written: Mapping[str, Any]) -> None:
    """Refuse a file of a checkpoint that is not the one whose size and checksum were written down.

    Raises:
        DamagedError: it is not.
    """
    if not path.is_file():
        raise DamagedError(f"{place} is not whole: {path.name} is missing.")
    if path.stat().st_size != written["size"]:
        raise DamagedError(
            f"{place} is damaged: {path.name} has {path.stat().st_size:,} bytes, and {written['size']:,} were written."
        )
    if facts(path) != written:
        raise DamagedError(f"{place} is damaged: {path.name} is not what was written (its SHA-256 differs).")


def refuse_another(place: Path, name: str, written: Mapping[str, Any]) -> None:
    """Refuse a file next to the checkpoints that is not the one that a checkpoint was saved with.

    Raises:
        DamagedError: it is not.
    """
    path = place.parents[1] / name
    if not path.is_file():
        raise DamagedError(f"{place} is not whole: {name} is missing.")
    if facts(path) != written:
        raise DamagedError(f"{place} belongs to another {name} than the one that is there (its SHA-256 differs).")
