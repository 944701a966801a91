"""Training that begins with a translator that is there: with its vocabularies, its model and its parameters.

So a translator of all kinds of texts learns those of one domain from few pairs, or goes on with other settings.

Source: Luong & Manning 2015, "Stanford Neural Machine Translation Systems for Spoken Language Domains".
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from regard.errors import InputError
from regard.tensor_file import write_tensors
from regard.training.settings.config import Kind, TrainConfig
from regard.training.settings.toml_file import MEASURED
from regard.translation.translator_folder import TranslatorContents, kind_of, read_translator, unique_tensors

FREE = {"dropout", "attention_dropout"}
"""What may be other than in the translator: all else would make its parameters mean something else."""

START = "start.safetensors"
"""A copy of the parameters, so that the translator's own folder may change or go away."""


def start_of(config: TrainConfig) -> TranslatorContents | None:
    """The translator that a training begins with; None = a new one.

    Raises:
        InputError: the folder that was given holds none.
    """
    return None if config.model.start_from is None else read_translator(Path(config.model.start_from))


def copy_parameters(start: TranslatorContents, folder: Path) -> None:
    """Keep the parameters of the translator that a training begins with."""
    write_tensors(folder / START, unique_tensors(start.model))


def with_start(config: TrainConfig, start: TranslatorContents) -> TrainConfig:
    """The settings with what follows from the translator that training begins with.

    Raises:
        InputError: something else is asked for.
    """
    model, vocabulary = config.model, config.vocabulary
    has = asdict(start.model.config)  # type: ignore[call-overload]
    kind, joint = cast(Kind, kind_of(start.model)), start.source_vocabulary is start.target_vocabulary
    usual = TrainConfig()
    said = {
        "vocabulary.n_tokens": (vocabulary.n_tokens, usual.vocabulary.n_tokens, len(start.source_vocabulary)),
        "vocabulary.joint": (vocabulary.joint, usual.vocabulary.joint, joint),
        "vocabulary.coverage": (vocabulary.coverage, usual.vocabulary.coverage, "its own"),
        "model.kind": (model.kind, usual.model.kind, kind),
        "model.preset": (model.preset, usual.model.preset, "a size of its own"),
    }
    said |= {f"model.{name}": (value, None, has.get(name)) for name, value in model.changes.items() if name not in FREE}
    for name, (value, default, own) in said.items():
        if value not in (default, own):
            raise InputError(
                f"{name} = {value}: training begins with {model.start_from}, which has {own}; leave it out, or train a "
                "new translator."
            )
    changes = {name: value for name, value in {**has, **model.changes}.items() if name not in MEASURED}
    return replace(
        config, model=replace(model, kind=kind, changes=changes), vocabulary=replace(vocabulary, joint=joint)
    )
