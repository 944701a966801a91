"""Training that starts from a translator (fine-tuning): from its vocabularies, its model and its parameters.

A translator of general texts learns the texts of one domain from few pairs, or continues with other settings.

Source: Luong & Manning 2015, "Stanford Neural Machine Translation Systems for Spoken Language Domains".
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from regard.errors import InputError
from regard.tensor_file import write_tensors
from regard.training.settings.settings_file import VOCABULARY_SIZES
from regard.training.settings.train_config import Kind, Model, TrainConfig
from regard.translation.translator_folder import TranslatorContents, kind_of, read_translator, unique_tensors

CHANGEABLE = {"dropout", "attention_dropout"}
"""Settings of the model that may differ from the translator's; any other would change the meaning of its parameters."""

PARAMETERS = "start.safetensors"
"""The file with a copy of the translator's parameters, so that its own folder may change or be deleted."""


def read_start(model: Model) -> TranslatorContents | None:
    """Read the translator that training starts from; None = training starts from random parameters.

    Raises:
        InputError: the folder does not hold a translator.
    """
    return None if model.start_from is None else read_translator(Path(model.start_from))


def copy_parameters(start: TranslatorContents, folder: Path) -> None:
    """Write the translator's parameters into a folder."""
    write_tensors(folder / PARAMETERS, unique_tensors(start.model))


def with_start(config: TrainConfig, start: TranslatorContents) -> TrainConfig:
    """Return the settings with everything that follows from the translator that training starts from.

    Raises:
        InputError: a setting contradicts the translator.
    """
    model, vocabulary = config.model, config.vocabulary
    own_config = asdict(start.model.config)  # type: ignore[call-overload]
    kind, joint = cast(Kind, kind_of(start.model)), start.source_vocabulary is start.target_vocabulary
    default = TrainConfig()
    settings = {
        "vocabulary.n_tokens": (vocabulary.n_tokens, default.vocabulary.n_tokens, len(start.source_vocabulary)),
        "vocabulary.joint": (vocabulary.joint, default.vocabulary.joint, joint),
        "vocabulary.coverage": (vocabulary.coverage, default.vocabulary.coverage, "its own"),
        "model.kind": (model.kind, default.model.kind, kind),
        "model.preset": (model.preset, default.model.preset, "a size of its own"),
    }
    changed = {name: value for name, value in model.changes.items() if name not in CHANGEABLE}
    settings |= {f"model.{name}": (value, None, own_config.get(name)) for name, value in changed.items()}
    for name, (value, default_value, own) in settings.items():
        if value not in (default_value, own):
            raise InputError(
                f"{name} = {value}: training begins with {model.start_from}, which has {own}; leave it out, or train a "
                "new translator."
            )
    changes = {name: value for name, value in {**own_config, **model.changes}.items() if name not in VOCABULARY_SIZES}
    return replace(
        config, model=replace(model, kind=kind, changes=changes), vocabulary=replace(vocabulary, joint=joint)
    )
