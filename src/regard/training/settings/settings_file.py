"""Settings as a user writes them: a TOML file, and `training.seed=3` on the command line.

[model]
kind = "transformer"
d_model = 128          # any name of the model's own config may stand beside kind and preset

[training]
seed = 3
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from regard.errors import InputError, import_extra, nearest, reason
from regard.training.settings.train_config import Model, Section, TrainConfig, check
from regard.translation.translator_folder import holds_translator, model_kinds, read_description

SECTIONS: dict[str, type[Section]] = get_type_hints(TrainConfig)
VOCABULARY_SIZES = {"n_source_tokens", "n_target_tokens"}
"""Fields of a model's config that follow from the vocabularies, and so are no settings."""

Tables = dict[str, dict[str, Any]]


def read_config(
    file: Path | None = None, changes: Iterable[str] = (), options: Mapping[str, Mapping[str, Any]] | None = None
) -> TrainConfig:
    """Return the settings of a TOML file (or the defaults), changed by texts like `training.seed=3`.

    Args:
        file: None = the defaults.
        changes: changes override the file, and later changes override earlier ones.
        options: values by section and name, which override the file and the changes; a value of None has no effect.

    Raises:
        InputError: the file cannot be read, or a name or a value is not valid.
    """
    tables = {} if file is None else read_tables(file)
    for change in changes:
        section, name, value = parse_change(change)
        tables.setdefault(section, {})[name] = value
    for section, values in (options or {}).items():
        tables.setdefault(section, {}).update({name: value for name, value in values.items() if value is not None})
    return config_from_tables(tables)


def read_tables(file: Path) -> Tables:
    """Return the tables of a TOML file.

    Raises:
        InputError: the file cannot be read, or is not TOML.
    """
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read {file}: {reason(error)}.") from error
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, and deeply nested brackets
        raise InputError(f"{file} is not TOML: {error}.") from error
    for name, table in tables.items():
        if name in SECTIONS and not isinstance(table, dict):
            raise InputError(f"{file}: {name} is a table of settings; write [{name}] on a line of its own.")
    return tables


def parse_change(change: str) -> tuple[str, str, Any]:
    """Split `section.name=value`; a value that is not TOML is a text, so that quotes may be left out.

    >>> parse_change("training.seed=3"), parse_change("model.kind=recurrent")
    (('training', 'seed', 3), ('model', 'kind', 'recurrent'))
    """
    path, equals, text = change.partition("=")
    section, dot, name = path.strip().partition(".")
    if not (equals and dot and section and name):
        raise InputError(f"--set {change}: write section.name=value, e.g. --set training.seed=3.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, a number of thousands of digits, or deeply nested brackets
        value = text.strip()
    return section, name, value


def config_from_tables(tables: Tables) -> TrainConfig:
    """Return the settings of TOML tables; a setting that is not in them has its default."""
    for name in tables:
        if name not in SECTIONS:
            close = nearest(name, list(SECTIONS), n=1)[0]
            raise InputError(f"there is no section of settings {name}; nearest: {close}.")
    return TrainConfig(**{name: section_from_table(name, table) for name, table in tables.items()})  # type: ignore[arg-type]


def section_from_table(name: str, table: Mapping[str, Any]) -> Section:
    """Return a section of the settings from its table."""
    if name == "model":
        return model_from_table(table)
    for key in table:
        refuse_unknown(name, key, own_names(name))
    return SECTIONS[name](**table)


def model_from_table(table: Mapping[str, Any]) -> Model:
    """Return the section of the model, whose table may also have fields of the model's config.

    Without a kind it is the kind of the translator to start from, if that folder exists. The model's config checks
    later whether its fields go together.
    """
    own = {key: value for key, value in table.items() if key in own_names("model")}
    model = Model(**own)
    if "kind" not in own and model.start_from is not None and holds_translator(Path(model.start_from)):
        model = replace(model, kind=read_description(Path(model.start_from))["kind"])
    hints = get_type_hints(model_kinds()[model.kind].config, include_extras=True)
    valid = [*own_names("model"), *(name for name in hints if name not in VOCABULARY_SIZES)]
    changes = {key: value for key, value in table.items() if key not in own}
    for key, value in changes.items():
        refuse_unknown("model", key, valid)
        check(value, hints[key], f"model.{key}")
    return replace(model, changes=changes)


def own_names(section: str) -> list[str]:
    """Return the names of a section's settings."""
    return [setting.name for setting in fields(SECTIONS[section]) if setting.name != "changes"]  # type: ignore[arg-type]


def refuse_unknown(section: str, key: str, valid: list[str]) -> None:
    """Raise InputError unless a name is valid; the message has the nearest valid name, or the section that has it."""
    if key not in valid:
        same = [f"{other}.{key}" for other in SECTIONS if key in own_names(other)]
        close = same or [f"{section}.{name}" for name in nearest(key, valid, n=1)]
        raise InputError(f"there is no setting {section}.{key}; nearest: {close[0]}.")


def as_toml(config: TrainConfig) -> str:
    """Return the settings as TOML; settings that are None are left out."""
    tables = asdict(config)
    tables["model"] |= tables["model"].pop("changes")
    tables = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    return str(import_extra("tomli_w", "translation").dumps(tables))
