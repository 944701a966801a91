"""Checkpoints: folders of safetensors and JSON, each of which exists completely or not at all.

A checkpoint is written to a folder with a temporary name. Every file and then the folder is synced to the disk, and the
folder is renamed last: a process that is killed at any moment leaves the earlier checkpoint or the new one.
`manifest.json` lists every file with its size and SHA-256. It also lists files outside the checkpoints that are needed
to resume, such as the vocabularies, under the key "beside".

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
from regard.json_file import read_json
from regard.tensor_file import read_tensors, write_tensors
from regard.training.store.checksums import checksum

FORMAT, VERSION = "regard checkpoint", 2

PREFIX, SUFFIX = "step-", ".safetensors"

LONGEST_NAME = 255
"""The most bytes of a path in manifest.json: every path that regard writes is shorter."""


class DamagedError(InputError):
    """A checkpoint lacks a file, or a file differs from what was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """The contents of a checkpoint, whose files have been verified by their checksums.

    Attributes:
        tensors: the tensors of each file ("model", "optimiser"), by name.
        state: the training state, as JSON values.
    """

    folder: Path
    tensors: Mapping[str, dict[str, Tensor]]
    state: Any


def save_checkpoint(
    folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Any, needed_files: Sequence[Path] = ()
) -> Path:
    """Write the checkpoint of a step, completely or not at all.

    An earlier checkpoint of this step is removed: it is damaged, or else training would have resumed from it.

    Args:
        folder: the folder of all checkpoints, in the folder of the training.
        tensors: the tensors of each file ("model", "optimiser"), by name.
        state: the training state, as JSON values.
        needed_files: files outside `folder`, in the folder of the training, without which the checkpoint is useless;
            `read_checkpoint` raises DamagedError if one of them has changed.
    """
    checkpoint = folder / f"{PREFIX}{step}"
    temporary_folder = folder / f".{checkpoint.name}.writing"
    shutil.rmtree(temporary_folder, ignore_errors=True)
    temporary_folder.mkdir(parents=True)
    for name, tensors_of_file in tensors.items():
        write_tensors(temporary_folder / f"{name}.safetensors", tensors_of_file)
    write_atomically(temporary_folder / "state.json", json.dumps(state, indent=1))
    files = {path.name: checksum(path) for path in sorted(temporary_folder.iterdir())}
    files_outside = {str(PurePosixPath(path.relative_to(folder.parent))): checksum(path) for path in needed_files}
    manifest = {"format": FORMAT, "version": VERSION, "files": files, "beside": files_outside}
    write_atomically(temporary_folder / "manifest.json", json.dumps(manifest, indent=1))
    sync_folder(temporary_folder)
    remove_folder(checkpoint)
    temporary_folder.replace(checkpoint)
    sync_folder(folder)
    return checkpoint


def latest_checkpoint(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """Read the latest checkpoint in `folder` that is not damaged, or return None if there are no checkpoints.

    Args:
        say: shows a message to the user about a damaged checkpoint that was skipped.

    Raises:
        DamagedError: there are checkpoints, but all of them are damaged.
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
    names = [path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*")]
    return sorted(int(name) for name in names if name.isdecimal())


def keep_latest(folder: Path, n: int, step: int) -> None:
    """Remove all checkpoints except the latest n up to the current `step`, and incomplete folders of killed runs.

    Checkpoints of later steps are removed, too: they are damaged, or else training would have resumed from them.
    """
    saved = saved_steps(folder)
    latest = [saved_step for saved_step in saved if saved_step <= step][-n:]
    for saved_step in saved:
        if saved_step not in latest:
            remove_folder(folder / f"{PREFIX}{saved_step}")
    for incomplete in folder.glob(".*.writing"):
        shutil.rmtree(incomplete, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Rename the folder of a checkpoint, then remove it: a half-removed folder is never read as a checkpoint."""
    if folder.exists():
        removed = folder.with_name(f".{folder.name}.going.writing")  # if a kill leaves it, `keep_latest` removes it
        shutil.rmtree(removed, ignore_errors=True)
        folder.replace(removed)
        shutil.rmtree(removed)


def read_checkpoint(folder: Path) -> Checkpoint:
    manifest = read_manifest(folder)
    for name, written in manifest["files"].items():
        found = checksum_of(folder, folder / name, name)
        if found["size"] != written["size"]:
            raise DamagedError(
                f"{folder} is damaged: {name} has {found['size']:,} bytes, and {written['size']:,} were written."
            )
        if found != written:
            raise DamagedError(f"{folder} is damaged: {name} is not what was written (its SHA-256 differs).")
    for name, written in manifest["beside"].items():
        training_folder = folder.parents[1]
        if checksum_of(folder, training_folder / name, name) != written:
            raise DamagedError(f"{name} has changed since {folder} was saved (its SHA-256 differs).")
    try:
        return Checkpoint(
            folder=folder,
            tensors={
                Path(name).stem: read_tensors(folder / name)[0] for name in manifest["files"] if name.endswith(SUFFIX)
            },
            state=read_json(folder / "state.json"),
        )
    except (OSError, ValueError) as error:
        raise DamagedError(f"{folder} is damaged: {first_paragraph(error)}.") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = read_json(folder / "manifest.json")
        kind, version, files, files_outside = (manifest[name] for name in ("format", "version", "files", "beside"))
    except OSError as error:
        raise DamagedError(f"{folder} is incomplete: its manifest.json is missing or cannot be read.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{folder} is damaged: its manifest.json is not what regard writes.") from error
    if (kind, version) != (FORMAT, VERSION):
        raise DamagedError(
            f"{folder} is a {kind!s:.40} of version {version!r:.40}; this version of regard reads version {VERSION}."
        )
    if not (are_checksums(files) and are_checksums(files_outside)):
        raise DamagedError(f"{folder} is damaged: its manifest.json is not what regard writes.")
    return dict(manifest)


def are_checksums(files: object) -> bool:
    """Return whether `files`, read from manifest.json, maps relative paths without ".." to sizes and checksums."""
    return isinstance(files, dict) and all(
        isinstance(written, dict)
        and type(written.get("size")) is int
        and isinstance(written.get("sha256"), str)
        and ".." not in PurePosixPath(name).parts
        and not PurePosixPath(name).is_absolute()
        and len(name.encode()) <= LONGEST_NAME
        for name, written in files.items()
    )


def files_needed(folder: Path) -> set[Path]:
    """Return the paths of all files that a checkpoint in `folder` needs and that are outside `folder`."""
    names: set[str] = set()
    for step in saved_steps(folder):
        with suppress(DamagedError):  # damaged: never resumed from, so it needs no files
            names |= read_manifest(folder / f"{PREFIX}{step}")["beside"].keys()
    return {folder.parent / name for name in names}


def checksum_of(checkpoint: Path, path: Path, name: str) -> dict[str, Any]:
    """Return the size and checksum of a file that a checkpoint needs; raise DamagedError if the file is missing."""
    if not path.is_file():
        raise DamagedError(f"{checkpoint} is incomplete: {name} is missing.")
    return checksum(path)
