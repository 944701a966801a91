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

from regard.errors import InputError, nearest, needs, reason
from regard.training.settings.config import Model, Section, TrainConfig, check
from regard.translation.translator_folder import holds_translator, model_kinds, read_description

SECTIONS: dict[str, type[Section]] = get_type_hints(TrainConfig)
MEASURED = {"n_source_tokens", "n_target_tokens"}
"""What a model's config takes from the vocabularies, so that nobody sets it."""

Tables = dict[str, dict[str, Any]]


def read_config(
    file: Path | None = None, changes: Iterable[str] = (), given: Mapping[str, Mapping[str, Any]] | None = None
) -> TrainConfig:
    """The settings of a TOML file (or the defaults), changed by texts like `training.seed=3`.

    Args:
        file: None = only defaults.
        changes: later ones win, and all win over the file.
        given: more values, by section and name, that win over all; None is left out.

    Raises:
        InputError: the file cannot be read, or a name or value is not a setting's.
    """
    tables = {} if file is None else read_tables(file)
    for change in changes:
        section, name, value = parsed(change)
        tables.setdefault(section, {})[name] = value
    for section, values in (given or {}).items():
        tables.setdefault(section, {}).update({name: value for name, value in values.items() if value is not None})
    return config_of(tables)


def read_tables(file: Path) -> Tables:
    """The tables of a TOML file."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read {file}: {reason(error)}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not TOML: {error}.") from error
    for name, table in tables.items():
        if name in SECTIONS and not isinstance(table, dict):
            raise InputError(f"{file}: {name} is a table of settings; write [{name}] on a line of its own.")
    return tables


def parsed(change: str) -> tuple[str, str, Any]:
    """`section.name=value` in its parts; a value that is no TOML is a text, so that quotes may be left out.

    >>> parsed("training.seed=3"), parsed("model.kind=recurrent")
    (('training', 'seed', 3), ('model', 'kind', 'recurrent'))
    """
    path, equals, text = change.partition("=")
    section, dot, name = path.strip().partition(".")
    if not (equals and dot and section and name):
        raise InputError(f"--set {change}: write section.name=value, e.g. --set training.seed=3.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    return section, name, value


def config_of(tables: Tables) -> TrainConfig:
    """The settings that tables hold; what they leave out has its default."""
    for name in tables:
        if name not in SECTIONS:
            close = nearest(name, list(SECTIONS), n=1)[0]
            raise InputError(f"there is no section of settings {name}; nearest: {close}.")
    return TrainConfig(**{name: section_of(name, table) for name, table in tables.items()})  # type: ignore[arg-type]


def section_of(name: str, table: Mapping[str, Any]) -> Section:
    """One section from its table."""
    if name == "model":
        return model_of(table)
    for key in table:
        refuse_unknown(name, key, own_names(name))
    return SECTIONS[name](**table)


def model_of(table: Mapping[str, Any]) -> Model:
    """The section whose names are those of a model's config as well; only there is it checked what fits together.

    Where no kind is said, it is that of the translator to begin with, as long as its folder is there.
    """
    own = {key: value for key, value in table.items() if key in own_names("model")}
    model = Model(**own)
    if "kind" not in own and model.start_from is not None and holds_translator(Path(model.start_from)):
        model = replace(model, kind=read_description(Path(model.start_from))["kind"])
    hints = get_type_hints(model_kinds()[model.kind].config, include_extras=True)
    valid = [*own_names("model"), *(name for name in hints if name not in MEASURED)]
    changes = {key: value for key, value in table.items() if key not in own}
    for key, value in changes.items():
        refuse_unknown("model", key, valid)
        check(value, hints[key], f"model.{key}")
    return replace(model, changes=changes)


def own_names(section: str) -> list[str]:
    """The settings of a section."""
    return [setting.name for setting in fields(SECTIONS[section]) if setting.name != "changes"]  # type: ignore[arg-type]


def refuse_unknown(section: str, key: str, valid: list[str]) -> None:
    """Refuse a name that is none of the valid ones, with the same one of another section, or those nearest to it.

    Raises:
        InputError: it is not.
    """
    if key not in valid:
        elsewhere = [f"{other}.{key}" for other in SECTIONS if key in own_names(other)]
        close = elsewhere or [f"{section}.{name}" for name in nearest(key, valid, n=1)]
        raise InputError(f"there is no setting {section}.{key}; nearest: {close[0]}.")


def as_toml(config: TrainConfig) -> str:
    """The settings as a TOML file; what is None is left out."""
    tables = asdict(config)
    tables["model"] |= tables["model"].pop("changes")
    known = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    return str(needs("tomli_w", "translation").dumps(known))
