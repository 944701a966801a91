"""The folder of a training: its lock, the checksums of its texts, and its settings.

A running training holds `training.lock`. `training.json` marks the folder of a training, and has the sizes and
checksums of the texts; a folder that has other files and no `training.json` is refused. `config.toml` has all
settings, derived settings included. A training is resumed with the same settings, except those of `MAY_CHANGE`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from regard.atomic_files import write_atomically
from regard.errors import InputError, reason
from regard.training.settings.settings_file import as_toml, read_config
from regard.training.settings.settled_config import SettledConfig, complete
from regard.training.settings.train_config import Section, TrainConfig
from regard.training.store.checksums import checksum

FORMAT = "regard training"
VERSION = 1
ABOUT, CONFIG, LOCK = "training.json", "config.toml", "training.lock"

MAY_CHANGE = {
    "training.max_steps",
    "training.max_minutes",
    "training.shard",
    "evaluation.patience",
    "evaluation.log_steps",
    "evaluation.save_minutes",
}
"""The settings that may change when training is resumed: when it ends, and how often it logs and saves."""

CHECKED_BY_CONTENT = {"data.dev_source", "data.dev_target"}
"""Settings that name files; the files may have moved, since their checksums are compared."""


def claim(folder: Path, texts: Mapping[str, Path], training: ExitStack | None = None) -> None:
    """Create the folder of a training on some texts, or check that an existing folder belongs to these texts.

    Args:
        folder: the folder, which is created if it does not exist.
        texts: the files by role: source, target, and maybe dev source and dev target.
        training: the stack that holds the folder's lock until it closes; None = another process of this training holds
            the lock.

    Raises:
        InputError: a text cannot be read, or the folder belongs to another training, to other texts or to no training.
    """
    checksums = {name: text_checksum(path) for name, path in texts.items()}
    about = folder / ABOUT
    with usable(folder):
        if about.exists():
            earlier_checksums = read_about(about)
            hold_lock(folder, training)
            for incomplete in folder.rglob(".*.writing"):  # of a run that was killed
                if incomplete.is_file():
                    incomplete.unlink()
            if (folder / CONFIG).exists():
                refuse_other_texts(folder, earlier_checksums, checksums, texts)
                return
        else:
            make_folder(folder)
            hold_lock(folder, training)
        content = json.dumps({"format": FORMAT, "version": VERSION, "texts": checksums}, indent=1)
        write_atomically(about, content)


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block into an InputError that names the folder."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot train in {folder}: {reason(error)}; name another folder with --out.") from error


def hold_lock(folder: Path, training: ExitStack | None) -> None:
    """Hold the folder's lock until the stack closes.

    Raises:
        InputError: another training holds the lock.
    """
    if training is None:
        return
    try:
        training.enter_context(FileLock(folder / LOCK, timeout=0))
    except Timeout as error:
        raise InputError(
            f"another training is going on in {folder}; wait for it, or train into another folder with --out."
        ) from error


def make_folder(folder: Path) -> None:
    """Create the folder of a new training.

    Raises:
        InputError: the folder has files already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = (path.name for path in folder.iterdir())
    others = sorted(name for name in names if name != LOCK and not name.endswith(".writing"))
    if others:
        shown = ", ".join(others[:3] + ["…"] * (len(others) > 3))
        raise InputError(
            f"{folder} is not empty and is not a training's folder: it has {shown}; name a new folder with --out."
        )


def text_checksum(path: Path) -> dict[str, Any]:
    """Return the size and checksum of a text.

    Raises:
        InputError: the text cannot be read.
    """
    try:
        return checksum(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error


def read_about(path: Path) -> dict[str, Any]:
    """Return the checksums of the texts that training.json has.

    Raises:
        InputError: the file is damaged, or of a version that this regard cannot read.
    """
    try:
        about = json.loads(path.read_bytes())
        kind, version, texts = about["format"], about["version"], about["texts"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged, or regard did not write it; name a new folder with --out.") from error
    if (kind, version) != (FORMAT, VERSION):
        raise InputError(f"{path} is a {kind} of version {version}, and this regard reads version {VERSION}.")
    return dict(texts)


def refuse_other_texts(
    folder: Path, before: Mapping[str, Any], now: Mapping[str, Any], texts: Mapping[str, Path]
) -> None:
    """Raise InputError if the checksums of the texts differ from those that training began with."""
    for name in (*texts, *(before.keys() - now.keys())):
        if before.get(name) == now.get(name):
            continue
        if name in before and name in now:
            words = f"the {name} text {texts[name]} is not the one that training began with"
        else:
            words = f"there was {'a' if name in before else 'no'} {name} text when training began"
        raise InputError(f"cannot go on in {folder}: {words}; give the same files, or name a new folder with --out.")


def stored_config(folder: Path) -> SettledConfig | None:
    """Return the settings of a training that has begun; None = the folder has none.

    Raises:
        InputError: the settings cannot be read, or one is missing.
    """
    path = folder / CONFIG
    with usable(folder):
        return complete(read_config(path)) if (folder / ABOUT).exists() and path.exists() else None


def write_config(folder: Path, config: SettledConfig) -> None:
    """Write the settings of a training to its folder."""
    write_atomically(folder / CONFIG, as_toml(config))


def resumed_config(folder: Path, stored: SettledConfig, requested: TrainConfig) -> SettledConfig:
    """Return the settings of a training that is resumed: the stored ones, with those changes that are allowed.

    A setting that the user left at its default is not a change.

    Raises:
        InputError: a setting differs from the stored one and may not change.
    """
    default = TrainConfig()
    sections: dict[str, Any] = {}
    for section in fields(TrainConfig):
        of_each = (getattr(config, section.name) for config in (stored, requested, default))
        sections[section.name] = resumed_section(folder, section.name, *of_each)
    resumed = SettledConfig(**sections)
    if resumed.training.schedule == "cosine" and resumed.training.max_steps != stored.training.max_steps:
        raise InputError(
            f"cannot go on in {folder} with another training.max_steps than {stored.training.max_steps}: "
            "the cosine schedule ends there; name a new folder with --out."
        )
    return resumed


def resumed_section(folder: Path, name: str, stored: Section, requested: Section, default: Section) -> Section:
    """Return a section of the settings of a training that is resumed."""
    changes = {}
    for setting in fields(stored):  # type: ignore[arg-type]
        key, path = setting.name, f"{name}.{setting.name}"
        old, new, unset = (getattr(section, key) for section in (stored, requested, default))
        if new in (unset, old) or path in CHECKED_BY_CONTENT:
            continue
        if key == "changes":
            refuse_model_changes(folder, name, old, new)
            continue
        if path not in MAY_CHANGE:
            raise changed_setting(folder, path, new, old)
        changes[key] = new
    return replace(stored, **changes)  # type: ignore[type-var]


def refuse_model_changes(folder: Path, section: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise InputError if a setting of the model differs from the stored one."""
    for name, value in new.items():
        if old.get(name) != value:
            raise changed_setting(folder, f"{section}.{name}", value, old.get(name, "the preset's"))


def changed_setting(folder: Path, path: str, new: Any, old: Any) -> InputError:
    """Return the error for a setting that differs from the one that training began with."""
    return InputError(
        f"cannot go on in {folder} with {path} = {new}: training began with {old}; "
        "leave it out, or name a new folder with --out."
    )
