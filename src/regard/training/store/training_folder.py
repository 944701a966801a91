"""The folder of a training: its lock file, the checksums of its texts, and its settings.

training.lock     locked while a training runs in the folder, so that no second one can start there
training.json     marks the folder as a training's, and has the sizes and checksums of the texts
config.toml       all settings, including the derived ones
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from filelock import FileLock, Timeout

from regard.atomic_files import write_atomically
from regard.errors import InputError, missing_file, reason
from regard.json_file import read_json
from regard.training.data.corpora import TextFiles
from regard.training.settings.settings_file import as_toml, read_config
from regard.training.settings.settled_config import SettledConfig, checked_complete
from regard.training.settings.train_config import Section, TrainConfig
from regard.training.store.checksums import checksum

FORMAT, VERSION = "regard training", 1

ABOUT, CONFIG, LOCK = "training.json", "config.toml", "training.lock"

CHANGEABLE_SETTINGS = {
    "training.max_steps",
    "training.max_minutes",
    "training.shard",
    "evaluation.patience",
    "evaluation.log_steps",
    "evaluation.save_minutes",
}
"""The settings that may change when training is resumed: they do not affect what a step computes."""

CHECKED_BY_CONTENT = {"data.dev_source", "data.dev_target"}
"""The settings with paths of text files. When training is resumed, the paths may differ, but not the checksums."""


def claim(folder: Path, texts: TextFiles, folder_lock: ExitStack | None = None) -> None:
    """Create and lock the folder of a training; an existing folder must be empty, or of a training on the same texts.

    Args:
        folder_lock: the stack that releases the lock when it closes; None = do not lock: another process of the same
            training has the lock.
    """
    checksums = {}
    for name, path in texts.items():
        try:
            checksums[name] = checksum(path)
        except FileNotFoundError as error:
            raise InputError(f"{missing_file(path)}.") from error
        except OSError as error:
            raise InputError(f"cannot read {path}: {reason(error)}.") from error
    about = folder / ABOUT
    with os_errors_as_input_errors(folder):
        if about.exists():
            earlier_checksums = read_about(about)
            lock_folder(folder, folder_lock)
            for incomplete in list(folder.rglob(".*.writing")):  # left by a run that was killed
                if incomplete.is_dir():
                    rmtree(incomplete)
                else:
                    incomplete.unlink(missing_ok=True)
            if (folder / CONFIG).exists():
                refuse_other_texts(folder, earlier_checksums, checksums, texts)
                return
        else:
            make_folder(folder)
            lock_folder(folder, folder_lock)
        content = json.dumps({"format": FORMAT, "version": VERSION, "texts": checksums}, indent=1)
        write_atomically(about, content)


@contextmanager
def removed_if_refused(folder: Path, is_new: bool) -> Iterator[None]:
    """If the with-block raises InputError, remove what a new training has written in its folder.

    If settings are stored in the folder, nothing is removed. `claim` must have been called before on the folder.

    Args:
        is_new: whether this training created the folder, so that the folder is removed too.
    """
    try:
        yield
    except InputError:
        if not (folder / CONFIG).exists():
            for path in (folder / "data", *folder.glob(".data*.writing")):
                rmtree(path, ignore_errors=True)
            for name in (ABOUT, LOCK):
                (folder / name).unlink(missing_ok=True)
            # rmdir fails if the folder has other files, or if another machine that shares the folder has removed it
            with suppress(OSError):
                if is_new:
                    folder.rmdir()
        raise


@contextmanager
def os_errors_as_input_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot train in {folder}: {reason(error)}; name another folder with --out.") from error


def lock_folder(folder: Path, folder_lock: ExitStack | None) -> None:
    if folder_lock is None:
        return
    try:
        folder_lock.enter_context(FileLock(folder / LOCK, timeout=0))
    except Timeout as error:
        raise InputError(
            f"another training runs in {folder}; wait for it, or train into another folder with --out."
        ) from error


def make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = (path.name for path in folder.iterdir())
    others = sorted(name for name in names if name != LOCK and not name.endswith(".writing"))
    if others:
        examples = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise InputError(
            f"{folder} is not empty and is not a training's folder: it has {examples}; name a new folder with --out."
        )


def read_about(path: Path) -> dict[str, Any]:
    try:
        about = read_json(path)
        kind, version, texts = about["format"], about["version"], about["texts"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged, or regard did not write it; name a new folder with --out.") from error
    if (kind, version) != (FORMAT, VERSION):
        raise InputError(f"{path} is a {kind} of version {version}; this version of regard reads version {VERSION}.")
    if not isinstance(texts, dict):
        raise InputError(f"{path} is damaged: texts must be an object; name a new folder with --out.")
    return texts


def refuse_other_texts(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any], texts: TextFiles) -> None:
    for name in (*texts, *sorted(before.keys() - now.keys())):
        if before.get(name) == now.get(name):
            continue
        if name in before and name in now:
            change = f"the {name} text {texts[name]} is not the one that training began with"
        else:
            change = f"there was {'a' if name in before else 'no'} {name} text when training began"
        raise InputError(f"cannot resume in {folder}: {change}; give the same files, or name a new folder with --out.")


def stored_config(folder: Path) -> SettledConfig | None:
    """Return the settings in the folder's config.toml; None = no training has stored its settings there yet."""
    path = folder / CONFIG
    with os_errors_as_input_errors(folder):
        return checked_complete(read_config(path)) if (folder / ABOUT).exists() and path.exists() else None


def write_config(folder: Path, config: SettledConfig) -> None:
    write_atomically(folder / CONFIG, as_toml(config))


def resumed_config(folder: Path, stored: SettledConfig, requested: TrainConfig) -> SettledConfig:
    """Return the settings with which a training is resumed: `stored`, with some settings replaced by `requested`.

    If `requested` is not complete, a setting that equals its default counts as not given, so the stored value stays.
    """
    default = stored if isinstance(requested, SettledConfig) else TrainConfig()
    sections: dict[str, Any] = {}
    for section in fields(TrainConfig):
        name = section.name
        sections[name] = resumed_section(
            folder,
            name,
            stored=getattr(stored, name),
            requested=getattr(requested, name),
            default=getattr(default, name),
        )
    resumed = SettledConfig(**sections)
    if resumed.training.schedule == "cosine" and resumed.training.max_steps != stored.training.max_steps:
        raise InputError(
            f"cannot resume in {folder} with another training.max_steps than {stored.training.max_steps}: "
            "the cosine schedule ends there; name a new folder with --out, which may start from this translator: "
            f"--from {folder}."
        )
    return resumed


def resumed_section(folder: Path, name: str, stored: Section, requested: Section, default: Section) -> Section:
    changes = {}
    for setting in fields(stored):  # type: ignore[arg-type]
        key, path = setting.name, f"{name}.{setting.name}"
        old, new, default_value = (getattr(section, key) for section in (stored, requested, default))
        if new in (default_value, old) or path in CHECKED_BY_CONTENT:
            continue
        if key == "changes":  # fields such as d_model: none may change
            for changed, value in new.items():
                if old.get(changed) != value:
                    raise changed_setting_error(folder, f"{name}.{changed}", value, old.get(changed, "the preset's"))
            continue
        if path not in CHANGEABLE_SETTINGS:
            raise changed_setting_error(folder, path, new, old)
        changes[key] = new
    return replace(stored, **changes)  # type: ignore[type-var]


def changed_setting_error(folder: Path, path: str, new: Any, old: Any) -> InputError:
    new, old = (list(value) if isinstance(value, tuple) else value for value in (new, old))
    return InputError(
        f"cannot resume in {folder} with {path} = {new}: training began with {old}; "
        "leave it out, or name a new folder with --out."
    )
