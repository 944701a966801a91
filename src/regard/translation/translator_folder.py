"""Writing a translator's model and vocabularies into a folder, and reading the folder.

    translator.json      the description: format, version, the model's kind and config, the alignment rule
    model.safetensors    the parameters; a parameter that several modules share is stored once
    vocabulary.spm       the vocabulary of both languages; or source.spm and target.spm

Each file is written under a temporary name and then renamed, translator.json last, so that a new folder is complete as
soon as it has a translator.json. Loading executes no code from the folder: nothing in it is a pickle.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.atomic_files import write_atomically
from regard.errors import InputError, first_paragraph, nearest, reason
from regard.json_file import read_json
from regard.tensor_file import read_tensors, tensor_shapes_in, write_tensors
from regard.text.vocabulary import Vocabulary
from regard.translation.alignment_rule import AlignmentRule, alignment_rule_from
from regard.translation.model_protocol import TranslatingModel
from regard.typed_fields import check_fields

FORMAT = "regard translator"
"""The value of "format" in translator.json, which shows that regard wrote the file."""

VERSION = 3
"""The value of "version" in translator.json; a folder with another version is not read."""

MOST_TABLE_NUMBERS = 2**24
"""A config is refused as damaged if its table of sinusoidal positions, which is not stored, has more numbers than all
stored parameters together plus this many (64 MiB in float32)."""

DESCRIPTION_FILE = "translator.json"
PARAMETERS_FILE = "model.safetensors"
"""The name of the file with the model's parameters, in a translator's folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelKind:
    """The two classes of one kind of model: the class of its config and the class of the model."""

    config_class: Any
    model_class: Any


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TranslatorContents:
    """The contents of a translator's folder.

    Attributes:
        model: the model, in evaluation mode.
        extra: values stored with the translator, such as the settings of its training.
    """

    model: TranslatingModel
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    extra: Mapping[str, Any]
    alignment_rule: AlignmentRule = field(default_factory=AlignmentRule)


def model_kinds() -> dict[str, ModelKind]:
    """Return the classes of every kind of model; a key is the name of the kind in translator.json."""
    from regard.recurrent.config import RecurrentConfig
    from regard.recurrent.model import Recurrent
    from regard.transformer.config import TransformerConfig
    from regard.transformer.model import Transformer

    return {
        "transformer": ModelKind(config_class=TransformerConfig, model_class=Transformer),
        "recurrent": ModelKind(config_class=RecurrentConfig, model_class=Recurrent),
    }


def write_translator(
    folder: Path,
    model: TranslatingModel,
    source_vocabulary: Vocabulary,
    target_vocabulary: Vocabulary,
    extra: Mapping[str, Any] | None = None,
    alignment_rule: AlignmentRule = AlignmentRule(),  # noqa: B008 (frozen)
) -> Path:
    """Write a translator into a folder, and return the folder; a translator that is already there is replaced.

    Args:
        target_vocabulary: the same object as `source_vocabulary` if the languages share a vocabulary.
        extra: values to store with the translator; JSON must be able to represent them.
    """
    kind = kind_of(model)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "regard": version("regard"),
        "kind": kind,
        "joint": source_vocabulary is target_vocabulary,
        "config": asdict(model.config),  # type: ignore[call-overload]
        "extra": dict(extra or {}),
        "alignment": asdict(alignment_rule),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_vocabularies(folder, source_vocabulary, target_vocabulary)
        write_tensors(folder / PARAMETERS_FILE, unique_tensors(model))
        write_atomically(folder / DESCRIPTION_FILE, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(f"cannot write a translator into {folder}: {reason(error)}; name another folder.") from error
    return folder


def read_translator(folder: Path, device: torch.device | str = "cpu") -> TranslatorContents:
    about = read_description(folder)
    kind = model_kinds()[about["kind"]]
    config = config_from(folder, kind.config_class, about["config"])
    model = read_model(kind.model_class, config, folder / PARAMETERS_FILE)
    names = vocabulary_files(about["joint"])
    for name in names:
        if not (folder / name).is_file():
            raise InputError(f"{folder} is incomplete: {name} is missing; copy the folder again.")
    source, target = load_vocabularies(folder, about["joint"])
    sizes = config.n_source_tokens, config.n_target_tokens
    for name, vocabulary, size in zip(names, (source, target), sizes, strict=True):
        if len(vocabulary) != size:
            raise InputError(
                f"{folder} does not fit together: {name} has {len(vocabulary):,} tokens and the model was built for "
                f"{size:,}; copy the whole folder again, or train into a new one."
            )
    return TranslatorContents(
        model=model.to(device).eval(),
        source_vocabulary=source,
        target_vocabulary=target,
        extra=about["extra"],
        alignment_rule=alignment_rule_from(folder / DESCRIPTION_FILE, config, about.get("alignment", {})),
    )


# Writing


def save_vocabularies(folder: Path, source: Vocabulary, target: Vocabulary) -> None:
    source_name, target_name = vocabulary_files(source is target)
    source.save(folder / source_name)
    if target is not source:
        target.save(folder / target_name)


def vocabulary_files(joint: bool) -> tuple[str, str]:
    """Return the file names of the source and the target vocabulary; the same name twice if they are `joint`."""
    return ("vocabulary.spm", "vocabulary.spm") if joint else ("source.spm", "target.spm")


def unique_tensors(model: object) -> dict[str, Tensor]:
    """Return a module's state dict, in which a tensor with several names occurs once, under its first name."""
    assert isinstance(model, nn.Module)
    first_names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():  # without keep_vars, all tensors are new objects
        first_names.setdefault(id(tensor), name)
    state = model.state_dict()
    return {name: state[name] for name in first_names.values()}


def kind_of(model: object) -> str:
    for name, kind in model_kinds().items():
        if type(model) is kind.model_class:
            return name
    raise TypeError(f"only a Transformer or a Recurrent can be saved as a translator; got a {type(model).__name__}.")


# Reading


def holds_translator(folder: Path) -> bool:
    """Return whether a folder has a complete translator: translator.json is its last file to be written."""
    return (folder / DESCRIPTION_FILE).is_file()


def load_vocabularies(folder: Path, joint: bool) -> tuple[Vocabulary, Vocabulary]:
    """Return the source and the target vocabulary; the same object twice if the languages share one."""
    source_name, target_name = vocabulary_files(joint)
    source = Vocabulary.load(folder / source_name)
    target = source if joint else Vocabulary.load(folder / target_name)
    return source, target


def read_description(folder: Path) -> dict[str, Any]:
    """Read translator.json, and check everything but the model's config."""
    path = folder / DESCRIPTION_FILE
    try:
        about = read_json(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing_translator_error(folder) from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; make it readable, or copy the folder again.") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: it is not JSON; copy the folder again, or train once more.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{path} was not written by regard; give the folder that regard train wrote with --out.")
    if about.get("version") != VERSION:
        raise InputError(
            f"{path} is of version {about.get('version')!r:.40} and this version of regard reads version {VERSION}; "
            "use the version that wrote it, or train the translator again."
        )
    names = list(model_kinds())
    if about.get("kind") not in names:
        closest = nearest(str(about.get("kind")), names, n=1)[0]
        raise InputError(f"{path} names the unknown kind {about.get('kind')!r:.40}; nearest: {closest}.")
    expected_types = {"joint": bool, "config": dict, "extra": dict}
    for name, expected in expected_types.items():
        if not isinstance(about.get(name), expected):
            raise InputError(f"{path} is damaged: {name} must be a {expected.__name__}; copy the folder again.")
    return about


def missing_translator_error(folder: Path) -> InputError:
    if folder.is_dir():
        return InputError(
            f"{folder} has no translator: there is no {DESCRIPTION_FILE} in it; give the folder that regard train "
            "wrote with --out (it is a translator from the first evaluation on)."
        )
    state = "is a file" if folder.exists() else "does not exist"
    return InputError(f"{folder} {state}; give the folder that regard train wrote with --out.")


def config_from(folder: Path, config_class: Any, values: dict[str, Any]) -> Any:
    """Build a config; raise InputError if a value is unknown or not allowed."""
    path = folder / DESCRIPTION_FILE
    names = [entry.name for entry in fields(config_class)]
    for name in values:
        if name not in names:
            raise InputError(
                f"{path} has the unknown config {name!r}; nearest: {nearest(name, names, n=1)[0]}. "
                "If a newer regard wrote it, install that with pip install -U regard."
            )
    try:
        check_fields(config_class, values)
        return config_class(**values)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{path} has an invalid config: {error}") from error


def read_model(model_class: Any, config: Any, path: Path) -> Any:
    """Build a model and load its parameters.

    A damaged config could describe a model of any size, so the shapes in the file are first compared with those of a
    model on PyTorch's meta device, which allocates no memory.
    """
    if not path.is_file():
        raise InputError(f"{path.parent} is incomplete: {path.name} is missing; copy the folder again.")
    shapes_in_file = tensor_shapes_in(path)
    check_size(path, config, shapes_in_file)
    try:
        with torch.device("meta"):
            shapes_of_model = tensor_shapes(model_class(config))
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"{path.parent / DESCRIPTION_FILE} describes a model that cannot be built: {first_paragraph(error)}."
        ) from error
    check_parameters(path, shapes_in_file, shapes_of_model)
    # The random initial parameters are replaced: drawing them must not change the caller's random numbers
    with torch.random.fork_rng(devices=[]):
        model = model_class(config)
    load_parameters(model, path)
    return model


def load_parameters(model: nn.Module, path: Path) -> None:
    tensors, _ = read_tensors(path)
    # again, for callers that have not called `read_model`
    check_parameters(path, {name: tuple(t.shape) for name, t in tensors.items()}, tensor_shapes(model))
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise InputError(
                f"{path} is damaged: {name} has numbers of the type {tensor.dtype}, and a parameter is a "
                "floating-point number; copy the folder again."
            )
    model.load_state_dict(tensors, strict=False)  # shared parameters are stored under one of their names only


def check_size(path: Path, config: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError if the config describes a model far larger than the file of its parameters; build no model.

    The config may not have more layers than the file has tensors, and its table of sinusoidal positions may not be too
    large (see `MOST_TABLE_NUMBERS`).
    """
    for name in ("n_layers", "n_decoder_layers"):
        if (getattr(config, name, None) or 0) > len(shapes):
            raise InputError(
                f"{path} does not fit {DESCRIPTION_FILE} beside it: {name}={getattr(config, name)}, and the file has "
                f"{len(shapes)} tensors; copy the whole folder again."
            )
    if getattr(config, "positions", None) == "sinusoidal":
        n_numbers = config.max_tokens * config.d_model
        if n_numbers > MOST_TABLE_NUMBERS + sum(map(math.prod, shapes.values())):
            raise InputError(
                f"{path.parent / DESCRIPTION_FILE} has max_tokens={config.max_tokens}, whose table of positions would "
                f"have {n_numbers:,} numbers, more than the model itself; copy the whole folder again."
            )


def tensor_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in unique_tensors(model).items()}


def check_parameters(path: Path, found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> None:
    mismatch = f"does not fit {DESCRIPTION_FILE} beside it; copy the whole folder again"
    for name in expected.keys() - found.keys():
        raise InputError(f"{path} {mismatch}: the parameter {name} is missing.")
    for name in found.keys() - expected.keys():
        raise InputError(f"{path} {mismatch}: the model has no parameter {name}.")
    for name, shape in expected.items():
        if found[name] != shape:
            raise InputError(f"{path} {mismatch}: {name} has the shape {found[name]} and the model takes {shape}.")
