"""Reading the settings that a user writes: a TOML file, and changes such as `training.seed=3` on the command line.

[model]
kind = "transformer"
d_model = 128          # besides kind and preset, any field of TransformerConfig or RecurrentConfig

[training]
seed = 3
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from regard.errors import InputError, import_extra, nearest, reason, refuse_missing
from regard.training.settings.settled_config import SettledConfig, checked_complete
from regard.training.settings.train_config import Model, Section, TrainConfig, check_value
from regard.translation.translator_folder import holds_translator, model_kinds, read_description

SECTIONS: dict[str, type[Section]] = get_type_hints(TrainConfig)

VOCABULARY_SIZES = {"n_source_tokens", "n_target_tokens"}
"""The fields of a model's config that the user cannot set, because they are the sizes of the vocabularies."""

Tables = dict[str, dict[str, Any]]
"""Settings as in a TOML file, by section and name: `tables["training"]["seed"]` is the value of training.seed."""


def read_config(
    file: Path | None = None,
    changes: Iterable[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    stored: SettledConfig | None = None,
) -> TrainConfig:
    """Read the settings from a TOML file, and override some of them.

    Args:
        file: None = all settings have their defaults.
        changes: texts such as `training.seed=3`, which override the file; later ones override earlier ones.
        options: for each section, values by name, which override `file` and `changes`; a value that is None changes
            nothing.
        stored: the settings of the training that is resumed, which are used where the other arguments have none; the
            result is then a `SettledConfig`. None = a new training.
    """
    tables = {} if file is None else read_tables(file)
    for change in changes:
        section, name, value = parse_change(change)
        tables.setdefault(section, {})[name] = value
    for section, values in (options or {}).items():
        tables.setdefault(section, {}).update({name: value for name, value in values.items() if value is not None})
    if stored is None:
        return config_from_tables(tables)
    stored_tables = tables_of(stored)
    kind = tables.get("model", {}).get("kind", stored.model.kind)
    if kind != stored.model.kind:
        del stored_tables["model"]  # the fields of one kind of model are not those of another
    for section, values in stored_tables.items():
        tables[section] = values | tables.get(section, {})
    return checked_complete(config_from_tables(tables))


def read_tables(file: Path) -> Tables:
    """Read a TOML file and return its tables by name; the names and values in them are not checked yet."""
    try:
        refuse_missing(file)
        tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read {file}: {reason(error)}.") from error
    except InputError:
        raise
    # tomllib also raises ValueError for a number with thousands of digits, and RecursionError for too many brackets
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not TOML: {error}.") from error
    for name, table in tables.items():
        if name in SECTIONS and not isinstance(table, dict):
            raise InputError(f"{file}: {name} is a table of settings; write [{name}] on a line of its own.")
    return tables


def parse_change(change: str) -> tuple[str, str, Any]:
    """Split `section.name=value` into section, name and value.

    The value is parsed as TOML. If it is not valid TOML, such as a word without quotes, it is taken as a string.

    >>> parse_change("training.seed=3"), parse_change("model.kind=recurrent")
    (('training', 'seed', 3), ('model', 'kind', 'recurrent'))
    """
    path, equals, text = change.partition("=")
    section, dot, name = path.strip().partition(".")
    if not (equals and dot and section and name):
        raise InputError(f"--set {change}: write section.name=value, e.g. --set training.seed=3.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or too many digits or brackets
        value = text.strip()
    return section, name, value


def config_from_tables(tables: Tables) -> TrainConfig:
    sections = dict[str, Any]()
    for name, table in tables.items():
        if name not in SECTIONS:
            closest = nearest(name, list(SECTIONS), n=1)[0]
            raise InputError(f"there is no section of settings {name}; nearest: {closest}.")
        if name == "model":
            sections[name] = model_from_table(table)
            continue
        for key in table:
            refuse_unknown(name, key, setting_names(name))
        # lists of TOML become tuples, the type of the settings
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
        sections[name] = SECTIONS[name](**values)
    return TrainConfig(**sections)


def model_from_table(table: Mapping[str, Any]) -> Model:
    """Return the settings of the table [model], which may also contain fields of TransformerConfig or RecurrentConfig.

    The type and range of each value are checked here; whether the values fit together is checked when the model's
    config is created.
    """
    settings = {key: value for key, value in table.items() if key in setting_names("model")}
    model = Model(**settings)
    if model.start_from is not None and holds_translator(Path(model.start_from)):
        kind = read_description(Path(model.start_from))["kind"]
        if "kind" in settings and model.kind != kind:
            raise differs_from_start("model.kind", model.kind, model.start_from, kind)
        model = replace(model, kind=kind)
    field_types = get_type_hints(model_kinds()[model.kind].config_class, include_extras=True)
    valid = [*setting_names("model"), *(name for name in field_types if name not in VOCABULARY_SIZES)]
    changes = {key: value for key, value in table.items() if key not in settings}
    for key, value in changes.items():
        refuse_unknown("model", key, valid)
        check_value(value, field_types[key], f"model.{key}")
    return replace(model, changes=changes)


def differs_from_start(name: str, value: Any, start_from: str | None, value_at_start: Any) -> InputError:
    """Return the error that a setting has another value than in the translator with which the training begins."""
    return InputError(
        f"{name} = {value}: training begins with {start_from}, which has {value_at_start}; leave it out, or train a "
        "new translator."
    )


def setting_names(section: str) -> list[str]:
    """Return the names of a section's settings except `changes`, a field of `Model` that is no key of the TOML file."""
    return [setting.name for setting in fields(SECTIONS[section]) if setting.name != "changes"]  # type: ignore[arg-type]


def refuse_unknown(section: str, key: str, valid: list[str]) -> None:
    """Raise InputError unless `key` is one of the `valid` names of settings of a section."""
    if key not in valid:
        in_other_sections = [f"{other}.{key}" for other in SECTIONS if key in setting_names(other)]
        closest = in_other_sections or [f"{section}.{name}" for name in nearest(key, valid, n=1)]
        raise InputError(f"there is no setting {section}.{key}; nearest: {closest[0]}.")


def as_toml(config: TrainConfig) -> str:
    """Return the settings as the text of a TOML file; settings that are None are left out."""
    return str(import_extra("tomli_w", "translation").dumps(tables_of(config)))


def tables_of(config: TrainConfig) -> Tables:
    """Return the settings as the tables of a TOML file; settings that are None are left out."""
    tables = asdict(config)
    changes = tables["model"].pop("changes")
    tables["model"] |= changes
    return {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
