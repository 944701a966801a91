"""Fine-tuning: training that starts from the vocabularies, the model and the parameters of a trained translator.

A translator trained on general texts adapts to the texts of one domain with few sentence pairs, or is trained further
with other settings.

Source: Luong & Manning 2015, "Stanford Neural Machine Translation Systems for Spoken Language Domains".
"""

from dataclasses import asdict, replace
from typing import cast

from regard.errors import InputError
from regard.text.placeholders import Placeholders
from regard.training.settings.settings_file import VOCABULARY_SIZES
from regard.training.settings.train_config import Kind, TrainConfig
from regard.translation.translator_folder import TranslatorContents, kind_of

CHANGEABLE = {"dropout", "attention_dropout"}
"""The model settings that may differ from the translator's when it is fine-tuned: parameters do not depend on them."""

PARAMETERS = "start.safetensors"
"""The file in the data folder with a copy of the translator's parameters, with which training starts.

With this copy, training can be resumed even if the folder of the translator is deleted."""


def with_start(config: TrainConfig, start: TranslatorContents) -> TrainConfig:
    """Return the settings for fine-tuning: the model and its vocabularies have the settings of the translator `start`.

    Raises:
        InputError: the settings ask for a vocabulary or a model that differs from the translator's.
    """
    model, vocabulary = config.model, config.vocabulary
    start_config = asdict(start.model.config)  # type: ignore[call-overload]
    kind, joint = cast(Kind, kind_of(start.model)), start.source_vocabulary is start.target_vocabulary
    placeholders = Placeholders.of(start.source_vocabulary, start.target_vocabulary) is not None
    default = TrainConfig()
    settings = {
        "vocabulary.n_tokens": (vocabulary.n_tokens, default.vocabulary.n_tokens, len(start.source_vocabulary)),
        "vocabulary.file": (vocabulary.file, None, "vocabularies of its own"),
        "vocabulary.joint": (vocabulary.joint, default.vocabulary.joint, joint),
        "vocabulary.placeholders": (vocabulary.placeholders, default.vocabulary.placeholders, placeholders),
        "vocabulary.coverage": (vocabulary.coverage, default.vocabulary.coverage, "its own"),
        "vocabulary.byte_fallback": (vocabulary.byte_fallback, None, "its own"),
        "model.kind": (model.kind, default.model.kind, kind),
        "model.preset": (model.preset, default.model.preset, "a size of its own"),
    }
    changed = {name: value for name, value in model.changes.items() if name not in CHANGEABLE}
    settings |= {f"model.{name}": (value, None, start_config.get(name)) for name, value in changed.items()}
    for name, (value, default_value, value_at_start) in settings.items():
        if value not in (default_value, value_at_start):
            raise InputError(
                f"{name} = {value}: training begins with {model.start_from}, which has {value_at_start}; leave it out, "
                "or train a new translator."
            )
    changes = {name: value for name, value in {**start_config, **model.changes}.items() if name not in VOCABULARY_SIZES}
    vocabulary = replace(vocabulary, joint=joint, placeholders=placeholders)
    return replace(config, model=replace(model, kind=kind, changes=changes), vocabulary=vocabulary)
