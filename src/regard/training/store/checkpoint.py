"""Checkpoints: folders of safetensors and JSON that exist completely or not at all.

A checkpoint is written to a folder of another name; every file and then the folder is forced to the disk, and the
folder is renamed last. A process that is killed at any moment leaves the earlier checkpoint or the new one.
`manifest.json` lists every file with its size and SHA-256, so that the damage of a failing disk or a half-finished copy
is found and reported, and training resumes from the checkpoint before.

    DIR/checkpoints/step-400/model.safetensors  optimiser.safetensors  state.json  manifest.json
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor

from regard.atomic_files import sync_folder, write_atomically
from regard.errors import InputError, first_paragraph
from regard.tensor_file import read_tensors, write_tensors
from regard.training.store.checksums import checksum, remove_folder, replace_folder, restore_folders

FORMAT = "regard checkpoint"
VERSION = 2
PREFIX, SUFFIX = "step-", ".safetensors"


class DamagedError(InputError):
    """A checkpoint is incomplete, or differs from what was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A checkpoint, read and checked file by file."""

    folder: Path
    tensors: Mapping[str, dict[str, Tensor]]
    """The tensors by file name without its suffix: model, optimiser."""

    state: Any
    """The content of state.json."""


def save_checkpoint(
    folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Any, needed_files: Sequence[Path] = ()
) -> Path:
    """Write the checkpoint of a step, completely or not at all, in place of an earlier checkpoint of this step.

    Args:
        folder: the folder of all checkpoints.
        step: the step, which names the checkpoint.
        tensors: the tensors by file, then by name.
        state: plain values for JSON.
        needed_files: files next to `folder` that the checkpoint needs unchanged; they are checked when it is read.
    """
    place = folder / f"{PREFIX}{step}"
    writing = folder / f".{place.name}.writing"
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir(parents=True)
    for name, named in tensors.items():
        write_tensors(writing / f"{name}.safetensors", named)
    write_atomically(writing / "state.json", json.dumps(state, indent=1))
    files = {path.name: checksum(path) for path in sorted(writing.iterdir())}
    files_beside = {str(PurePosixPath(path.relative_to(folder.parent))): checksum(path) for path in needed_files}
    manifest = {"format": FORMAT, "version": VERSION, "files": files, "beside": files_beside}
    write_atomically(writing / "manifest.json", json.dumps(manifest, indent=1))
    sync_folder(writing)
    replace_folder(place, writing)
    sync_folder(folder)
    return place


def latest_checkpoint(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """Read the latest checkpoint that is not damaged; None = there are no checkpoints.

    Args:
        folder: the folder of all checkpoints.
        say: called with the reason why a checkpoint was skipped.

    Raises:
        DamagedError: all checkpoints are damaged.
    """
    restore_folders(folder)
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
    """Return the steps that have a checkpoint, smallest first."""
    names = [path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*")]
    return sorted(int(name) for name in names if name.isdecimal())


def keep_latest(folder: Path, n: int, step: int) -> None:
    """Remove all checkpoints except the latest n up to a step, and incomplete ones of killed runs.

    Checkpoints of later steps are damaged: training resumed from one before them.
    """
    saved = saved_steps(folder)
    kept = [saved_step for saved_step in saved if saved_step <= step][-n:]
    for saved_step in saved:
        if saved_step not in kept:
            remove_folder(folder / f"{PREFIX}{saved_step}")
    for incomplete in folder.glob(".*.writing"):
        shutil.rmtree(incomplete, ignore_errors=True)


def read_checkpoint(place: Path) -> Checkpoint:
    """Read a checkpoint from its folder.

    Raises:
        DamagedError: a file is missing or differs from what was written.
    """
    manifest = read_manifest(place)
    for name, written in manifest["files"].items():
        refuse_damage(place, place / name, written)
    for name, written in manifest["beside"].items():
        refuse_change(place, name, written)
    try:
        return Checkpoint(
            folder=place,
            tensors={
                Path(name).stem: read_tensors(place / name)[0] for name in manifest["files"] if name.endswith(SUFFIX)
            },
            state=json.loads((place / "state.json").read_bytes()),
        )
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{place} is damaged: {first_paragraph(error)}.") from error


def read_manifest(place: Path) -> dict[str, Any]:
    """Read the manifest of a checkpoint.

    Raises:
        DamagedError: the manifest is missing or damaged, or of a version that this regard cannot read.
    """
    try:
        manifest = json.loads((place / "manifest.json").read_bytes())
        kind, version = manifest["format"], manifest["version"]
        whole = are_checksums(manifest["files"]) and are_checksums(manifest["beside"])
    except OSError as error:
        raise DamagedError(f"{place} is not whole: its manifest.json is missing or cannot be read.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{place} is damaged: its manifest.json is not what regard writes.") from error
    if (kind, version) != (FORMAT, VERSION):
        raise DamagedError(
            f"{place} is a {kind!s:.40} of version {version!r:.40}, and this regard reads version {VERSION}."
        )
    if not whole:
        raise DamagedError(f"{place} is damaged: its manifest.json is not what regard writes.")
    return dict(manifest)


def are_checksums(files: object) -> bool:
    """Return whether an object is a table of files with their checksums, each file within the folder."""
    return isinstance(files, dict) and all(
        isinstance(written, dict)
        and type(written.get("size")) is int
        and isinstance(written.get("sha256"), str)
        and ".." not in PurePosixPath(name).parts
        and not PurePosixPath(name).is_absolute()
        for name, written in files.items()
    )


def files_needed(folder: Path) -> set[Path]:
    """Return the files next to a folder of checkpoints that any of them needs."""
    names: set[str] = set()
    for step in saved_steps(folder):
        with suppress(DamagedError):  # a damaged checkpoint is never read again
            names |= read_manifest(folder / f"{PREFIX}{step}")["beside"].keys()
    return {folder.parent / name for name in names}


def refuse_damage(place: Path, path: Path, written: Mapping[str, Any]) -> None:
    """Raise DamagedError unless a file of a checkpoint has the size and the checksum of the manifest."""
    if not path.is_file():
        raise DamagedError(f"{place} is not whole: {path.name} is missing.")
    if path.stat().st_size != written["size"]:
        raise DamagedError(
            f"{place} is damaged: {path.name} has {path.stat().st_size:,} bytes, and {written['size']:,} were written."
        )
    if checksum(path) != written:
        raise DamagedError(f"{place} is damaged: {path.name} is not what was written (its SHA-256 differs).")


def refuse_change(place: Path, name: str, written: Mapping[str, Any]) -> None:
    """Raise DamagedError if a file next to the checkpoints is not the file that a checkpoint was saved with."""
    path = place.parents[1] / name
    if not path.is_file():
        raise DamagedError(f"{place} is not whole: {name} is missing.")
    if checksum(path) != written:
        raise DamagedError(f"{place} belongs to another {name} than the one that is there (its SHA-256 differs).")
