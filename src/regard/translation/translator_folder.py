"""Write a translator into a folder and read it back: the model, its vocabularies, and a description of both.

    translator.json      the description: format, version, kind of model, the model's config
    model.safetensors    the parameters; parameters that modules share are stored once
    vocabulary.spm       the vocabulary of both languages; or source.spm and target.spm

Every file is written under another name and then renamed, translator.json last, so that a reader never sees a part of a
translator. Nothing in the folder is code: no pickle is written or read.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.atomic_files import write_atomically
from regard.errors import InputError, first_paragraph, nearest, reason
from regard.tensor_file import read_tensors, tensor_shapes_in, write_tensors
from regard.text.vocabulary import Vocabulary
from regard.translation.model_protocol import TranslatingModel
from regard.typed_fields import check_fields

FORMAT = "regard translator"
VERSION = 3
LARGEST_TABLE = 2**24
"""The most numbers that a table of positions may have beyond those of all parameters: 64 MiB."""

DESCRIPTION_FILE, PARAMETERS_FILE, JOINT_VOCABULARY, SOURCE_VOCABULARY, TARGET_VOCABULARY = (
    "translator.json",
    "model.safetensors",
    "vocabulary.spm",
    "source.spm",
    "target.spm",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelKind:
    """The classes of a kind of model: its config and the model itself."""

    config: Any
    model: Any


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


def model_kinds() -> dict[str, ModelKind]:
    """Return the classes of each kind of model, by the name of the kind in the description."""
    from regard.recurrent.config import RecurrentConfig
    from regard.recurrent.model import Recurrent
    from regard.transformer.config import TransformerConfig
    from regard.transformer.model import Transformer

    return {
        "transformer": ModelKind(config=TransformerConfig, model=Transformer),
        "recurrent": ModelKind(config=RecurrentConfig, model=Recurrent),
    }


def write_translator(
    folder: Path,
    model: TranslatingModel,
    source_vocabulary: Vocabulary,
    target_vocabulary: Vocabulary,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Write a translator into a folder, which is created if it does not exist; a translator in it is replaced.

    Args:
        model: a `Transformer` or a `Recurrent`.
        target_vocabulary: the same object as the source's if the languages share a vocabulary.
        extra: values to store with the translator, as JSON.

    Raises:
        TypeError: the model is neither of the two.
        InputError: the folder cannot be written.
    """
    kind = kind_of(model)
    joint = source_vocabulary is target_vocabulary
    vocabularies = (
        {JOINT_VOCABULARY: source_vocabulary}
        if joint
        else {SOURCE_VOCABULARY: source_vocabulary, TARGET_VOCABULARY: target_vocabulary}
    )
    about = {
        "format": FORMAT,
        "version": VERSION,
        "regard": package_version(),
        "kind": kind,
        "joint": joint,
        "config": asdict(model.config),  # type: ignore[call-overload]
        "extra": dict(extra or {}),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, vocabulary in vocabularies.items():
            vocabulary.save(folder / name)
        write_tensors(folder / PARAMETERS_FILE, unique_tensors(model))
        write_atomically(folder / DESCRIPTION_FILE, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(f"cannot write a translator into {folder}: {reason(error)}; name another folder.") from error
    return folder


def read_translator(folder: Path, device: torch.device | str = "cpu") -> TranslatorContents:
    """Read a translator from its folder.

    Raises:
        InputError: the folder holds no translator, or a damaged one, or one that another version of regard wrote.
    """
    about = read_description(folder)
    kind = model_kinds()[about["kind"]]
    config = config_from(folder, kind.config, about["config"])
    model = read_model(kind.model, config, folder / PARAMETERS_FILE)
    names = (JOINT_VOCABULARY, JOINT_VOCABULARY) if about["joint"] else (SOURCE_VOCABULARY, TARGET_VOCABULARY)
    loaded = {name: read_vocabulary(folder / name) for name in dict.fromkeys(names)}
    source, target = (loaded[name] for name in names)
    for name, vocabulary, size in zip(names, (source, target), vocabulary_sizes(config), strict=True):
        if len(vocabulary) != size:
            raise InputError(
                f"{folder} does not fit together: {name} has {len(vocabulary):,} tokens and the model was built for "
                f"{size:,}; copy the whole folder again, or train into a new one."
            )
    return TranslatorContents(
        model=model.to(device).eval(), source_vocabulary=source, target_vocabulary=target, extra=about["extra"]
    )


# Writing


def unique_tensors(model: TranslatingModel) -> dict[str, Tensor]:
    """Return the tensors of a model, each once, by the first of its names.

    Raises:
        TypeError: the model is not an nn.Module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"a translator's model is an nn.Module; got a {type(model).__name__}.")
    seen: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        seen.setdefault(id(tensor), name)
    state = model.state_dict()
    return {name: state[name] for name in seen.values()}


def kind_of(model: object) -> str:
    """Return the name of a model's kind.

    Raises:
        TypeError: the model is neither a Transformer nor a Recurrent.
    """
    for name, kind in model_kinds().items():
        if type(model) is kind.model:
            return name
    raise TypeError(f"a folder holds a Transformer or a Recurrent; got a {type(model).__name__}.")


def package_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import version

    return version("regard")


# Reading


def holds_translator(folder: Path) -> bool:
    """Return whether a folder has the description of a translator."""
    return (folder / DESCRIPTION_FILE).is_file()


def read_description(folder: Path) -> dict[str, Any]:
    """Read the description of the translator in a folder.

    Raises:
        InputError: the folder holds no translator, or one that cannot be read.
    """
    path = folder / DESCRIPTION_FILE
    try:
        about = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing_translator_error(folder) from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; make it readable, or copy the folder again.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it is not JSON; copy the folder again, or train once more.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{path} was not written by regard; give the folder that regard train wrote with --out.")
    if about.get("version") != VERSION:
        raise InputError(
            f"{path} is of version {about.get('version')!r:.40} and this regard reads version {VERSION}; use the "
            "regard that wrote it, or train the translator again."
        )
    names = list(model_kinds())
    if about.get("kind") not in names:
        close = nearest(str(about.get("kind")), names, n=1)[0]
        raise InputError(f"{path} names the unknown kind {about.get('kind')!r:.40}; nearest: {close}.")
    expected = {"joint": bool, "config": dict, "extra": dict}
    for name, type_ in expected.items():
        if not isinstance(about.get(name), type_):
            raise InputError(f"{path} is damaged: {name} must be a {type_.__name__}; copy the folder again.")
    return about


def missing_translator_error(folder: Path) -> InputError:
    """Return the error for a folder that holds no translator."""
    if folder.is_dir():
        return InputError(
            f"{folder} has no translator: there is no {DESCRIPTION_FILE} in it; give the folder that regard train "
            "wrote with --out (it is a translator from the first evaluation on)."
        )
    what = "is a file" if folder.exists() else "does not exist"
    return InputError(f"{folder} {what}; give the folder that regard train wrote with --out.")


def config_from(folder: Path, kind: Any, values: dict[str, Any]) -> Any:
    """Build a model's config from the values of a description.

    Raises:
        InputError: a name is not a field of the config, or a value is not allowed.
    """
    path, names = folder / DESCRIPTION_FILE, [field.name for field in fields(kind)]
    for name in values:
        if name not in names:
            raise InputError(
                f"{path} has the unknown config {name!r}; nearest: {nearest(name, names, n=1)[0]}. "
                "If a newer regard wrote it, install that with pip install -U regard."
            )
    try:
        check_fields(kind, values)
        return kind(**values)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{path} has an invalid config: {error}") from error


def vocabulary_sizes(config: Any) -> tuple[int, int]:
    """Return the sizes of source and target vocabulary that a model was built for."""
    return config.n_source_tokens, config.n_target_tokens


def read_model(kind: Any, config: Any, path: Path) -> Any:
    """Build a model and load the parameters of a file into it.

    The shapes in the file are compared with those of a model without memory first, so that a description of another
    model, or of an impossibly large one, costs neither time nor memory.

    Raises:
        InputError: the file is missing or damaged, or holds the parameters of another model.
    """
    if not path.is_file():
        raise InputError(f"{path.parent} is incomplete: {path.name} is missing; copy the folder again.")
    found = tensor_shapes_in(path)
    check_size(path, config, found)
    try:
        with torch.device("meta"):
            shapes = tensor_shapes(kind(config))
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"{path.parent / DESCRIPTION_FILE} describes a model that cannot be built: {first_paragraph(error)}."
        ) from error
    check_parameters(path, found, shapes)
    with torch.random.fork_rng(devices=[]):  # the first parameters are drawn only to be replaced
        model = kind(config)
    load_parameters(model, path)
    return model


def load_parameters(model: nn.Module, path: Path) -> None:
    """Load the parameters of a file into a model.

    Raises:
        InputError: the file is missing or damaged, or holds the parameters of another model.
    """
    tensors, _ = read_tensors(path)
    check_parameters(path, {name: tuple(t.shape) for name, t in tensors.items()}, tensor_shapes(model))
    model.load_state_dict(tensors, strict=False)


def check_size(path: Path, config: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError if building the model of a config would take much more memory or time than its parameters.

    Raises:
        InputError: the config has more layers than the file has tensors, or a table of positions larger than the model.
    """
    for name in ("n_layers", "n_decoder_layers"):
        if (getattr(config, name, None) or 0) > len(shapes):
            raise InputError(
                f"{path} does not fit {DESCRIPTION_FILE} beside it: {name}={getattr(config, name)}, and the file has "
                f"{len(shapes)} tensors; copy the whole folder again."
            )
    if getattr(config, "positions", None) == "sinusoidal":
        n_numbers = config.max_tokens * config.d_model
        if n_numbers > LARGEST_TABLE + sum(map(math.prod, shapes.values())):
            raise InputError(
                f"{path.parent / DESCRIPTION_FILE} has max_tokens={config.max_tokens}, whose table of positions would "
                f"have {n_numbers:,} numbers, more than the model itself; copy the whole folder again."
            )


def tensor_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a model, by name."""
    return {name: tuple(tensor.shape) for name, tensor in unique_tensors(model).items()}


def check_parameters(path: Path, found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError if the parameters of a file are not the parameters that a model has.

    Raises:
        InputError: a parameter is missing, unknown, or of another shape; the message has its name.
    """
    again = f"does not fit {DESCRIPTION_FILE} beside it; copy the whole folder again"
    for name in expected.keys() - found.keys():
        raise InputError(f"{path} {again}: the parameter {name} is missing.")
    for name in found.keys() - expected.keys():
        raise InputError(f"{path} {again}: the model has no parameter {name}.")
    for name, shape in expected.items():
        if found[name] != shape:
            raise InputError(f"{path} {again}: {name} has the shape {found[name]} and the model takes {shape}.")


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary of a folder.

    Raises:
        InputError: the file is missing or damaged.
    """
    if not path.is_file():
        raise InputError(f"{path.parent} is incomplete: {path.name} is missing; copy the folder again.")
    return Vocabulary.load(path)
