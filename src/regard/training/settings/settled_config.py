"""The complete settings with which a training runs: those of TrainConfig, with every derived setting filled in.

Each class here repeats the derived fields of a section of TrainConfig, with types that exclude None. A setting that is
not repeated may be None in complete settings, too: for example, no files of dev pairs, or no limit in minutes.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from regard.training.learning_rate import ScheduleName
from regard.training.settings.train_config import (
    BatchTokens,
    Count,
    CountOrZero,
    Data,
    Evaluation,
    Length,
    Positive,
    Precision,
    Section,
    TrainConfig,
    Training,
    VocabularySettings,
)

SettledSection = TypeVar("SettledSection", bound=Section)


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledData(Data):
    dev_pairs: Count
    max_tokens: Length


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledVocabulary(VocabularySettings):
    joint: bool
    placeholders: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledTraining(Training):
    batch_tokens: BatchTokens
    learning_rate: Positive
    schedule: ScheduleName
    warmup_steps: CountOrZero
    max_steps: Count
    precision: Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledEvaluation(Evaluation):
    every_steps: Count
    patience: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig(TrainConfig):
    """Settings that suffice to write the encoded corpus.

    The settings in [training] and [evaluation] may still be None: their defaults depend on the number of batches.
    """

    data: SettledData
    vocabulary: SettledVocabulary


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledConfig(CorpusConfig):
    training: SettledTraining
    evaluation: SettledEvaluation


def settled_section(section_class: type[SettledSection], section: Section, **derived: Any) -> SettledSection:
    """Return the settings of `section` as a `section_class`; values in `derived` replace settings that are None.

    InputError is raised if a setting that `section_class` requires is None and has no value in `derived`.
    """
    values = {setting.name: getattr(section, setting.name) for setting in fields(section)}  # type: ignore[arg-type]
    for name, value in derived.items():
        if values[name] is None:
            values[name] = value
    return section_class(**values)


def checked_complete(config: TrainConfig) -> SettledConfig:
    """Return settings, such as those read from config.toml, as a SettledConfig; raise InputError if one is missing."""
    return SettledConfig(
        data=settled_section(SettledData, config.data),
        vocabulary=settled_section(SettledVocabulary, config.vocabulary),
        model=config.model,
        training=settled_section(SettledTraining, config.training),
        evaluation=settled_section(SettledEvaluation, config.evaluation),
    )
