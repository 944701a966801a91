"""A training's folder: whose it is, and which settings it has.

`training.lock` is held for as long as a training goes on. `training.json` says that the folder is a training's, with
the sizes and checksums of the texts; a folder without it that has anything but the lock is somebody else's.
`config.toml` has every setting once they are derived, and those stay: what is said anew must be the same, but for the
few that change only when training ends, and how often it speaks and saves.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from regard.atomic_files import write_whole
from regard.errors import InputError, reason
from regard.training.settings.config import Section, TrainConfig
from regard.training.settings.toml_file import as_toml, read_config
from regard.training.store.files import facts

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
"""The settings that may be changed when a training goes on."""

CHECKED_BY_CONTENT = {"data.dev_source", "data.dev_target"}
"""Settings that name files, which may lie elsewhere now."""


def claim(folder: Path, texts: Mapping[str, Path], training: ExitStack | None = None) -> None:
    """Take a new folder for a training on some texts, or make sure that it is theirs.

    Args:
        folder: made where there is none.
        texts: by what they are: source, target, and maybe dev source and dev target.
        training: for as long as it is open, nobody else can claim the folder; None for a process of that training.

    Raises:
        InputError: a text cannot be read, the folder is somebody else's, or it is of other texts.
    """
    found = {name: facts_of_text(path) for name, path in texts.items()}
    about = folder / ABOUT
    with usable(folder):
        if about.exists():
            said = read_about(about)
            keep_others_out(folder, training)
            for left in folder.rglob(".*.writing"):  # by a run that was killed
                if left.is_file():
                    left.unlink()
            if (folder / CONFIG).exists():
                refuse_other_texts(folder, said, found, texts)
                return
        else:
            make_folder(folder)
            keep_others_out(folder, training)
        content = json.dumps({"format": FORMAT, "version": VERSION, "texts": found}, indent=1)
        write_whole(about, content)


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Whatever keeps a folder from being read or written is said in words.

    Raises:
        InputError: something does.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot train in {folder}: {reason(error)}; name another folder with --out.") from error


def keep_others_out(folder: Path, training: ExitStack | None) -> None:
    """Hold the folder's lock until a training ends, however it ends.

    Raises:
        InputError: another training holds it.
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
    """Make the folder of a new training.

    Raises:
        InputError: there is something in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = (path.name for path in folder.iterdir())
    others = sorted(name for name in names if name != LOCK and not name.endswith(".writing"))
    if others:
        some = ", ".join(others[:3] + ["…"] * (len(others) > 3))
        raise InputError(
            f"{folder} is not empty and is not a training's folder: it has {some}; name a new folder with --out."
        )


def facts_of_text(path: Path) -> dict[str, Any]:
    """Size and checksum of a text."""
    try:
        return facts(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error


def read_about(path: Path) -> dict[str, Any]:
    """What a training's folder says that it is."""
    try:
        about = json.loads(path.read_bytes())
        kind, version, texts = about["format"], about["version"], about["texts"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged, or regard did not write it; name a new folder with --out.") from error
    if (kind, version) != (FORMAT, VERSION):
        raise InputError(f"{path} is a {kind} of version {version}, and this regard reads version {VERSION}.")
    return dict(texts)


def refuse_other_texts(
    folder: Path, before: Mapping[str, Any], found: Mapping[str, Any], texts: Mapping[str, Path]
) -> None:
    """Refuse to go on with other texts than training began with."""
    for name in (*texts, *(before.keys() - found.keys())):
        if before.get(name) == found.get(name):
            continue
        if name in before and name in found:
            words = f"the {name} text {texts[name]} is not the one that training began with"
        else:
            words = f"there was {'a' if name in before else 'no'} {name} text when training began"
        raise InputError(f"cannot go on in {folder}: {words}; give the same files, or name a new folder with --out.")


def stored_config(folder: Path) -> TrainConfig | None:
    """The settings of a training that has begun; None = it has not, or the folder is somebody else's.

    Raises:
        InputError: they cannot be read.
    """
    path = folder / CONFIG
    with usable(folder):
        return read_config(path) if (folder / ABOUT).exists() and path.exists() else None


def write_config(folder: Path, config: TrainConfig) -> None:
    """Write the settings of a training down."""
    write_whole(folder / CONFIG, as_toml(config))


def settle(folder: Path, stored: TrainConfig, said: TrainConfig) -> TrainConfig:
    """The settings of a training that goes on: those stored, and what may be changed of those said.

    What is said as it is by default is not taken for said.

    Raises:
        InputError: something else is said than what training began with.
    """
    default = TrainConfig()
    sections: dict[str, Any] = {}
    for section in fields(TrainConfig):
        before, now, usual = (getattr(config, section.name) for config in (stored, said, default))
        sections[section.name] = settle_section(folder, section.name, before, now, usual)
    settled = TrainConfig(**sections)
    if settled.training.schedule == "cosine" and settled.training.max_steps != stored.training.max_steps:
        raise InputError(
            f"cannot go on in {folder} with another training.max_steps than {stored.training.max_steps}: "
            "the cosine schedule ends there; name a new folder with --out."
        )
    return settled


def settle_section(folder: Path, name: str, before: Section, now: Section, usual: Section) -> Section:
    """One section of the settings of a training that goes on."""
    changed = {}
    for setting in fields(before):  # type: ignore[arg-type]
        key, path = setting.name, f"{name}.{setting.name}"
        was, said, default = (getattr(section, key) for section in (before, now, usual))
        if said in (default, was) or path in CHECKED_BY_CONTENT:
            continue
        if key == "changes":
            refuse_other_changes(folder, name, was, said)
            continue
        if path not in MAY_CHANGE:
            raise other_setting(folder, path, said, was)
        changed[key] = said
    return replace(before, **changed)  # type: ignore[type-var]


def refuse_other_changes(folder: Path, section: str, was: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Refuse to make the model other than it was."""
    for name, value in said.items():
        if was.get(name) != value:
            raise other_setting(folder, f"{section}.{name}", value, was.get(name, "the preset's"))


def other_setting(folder: Path, path: str, said: Any, was: Any) -> InputError:
    """The refusal of a setting that training did not begin with."""
    return InputError(
        f"cannot go on in {folder} with {path} = {said}: training began with {was}; "
        "leave it out, or name a new folder with --out."
    )
