"""The complete settings that a training runs with: those of TrainConfig, with a value in place of each derived None.

Each class here repeats the fields of a section of TrainConfig whose value is derived, without None in their types. A
few settings may still be None, where None is a meaning: no files of dev pairs, no preset, no translator to start from,
no limit in minutes, vocabularies whose sizes depend on their texts, and `shard`, which Accelerate's config then
decides.
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
    """[data] with no setting left to derive."""

    dev_pairs: Count
    max_tokens: Length


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledVocabulary(VocabularySettings):
    """[vocabulary] with no setting left to derive."""

    joint: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledTraining(Training):
    """[training] with no setting left to derive."""

    batch_tokens: BatchTokens
    learning_rate: Positive
    schedule: ScheduleName
    warmup_steps: CountOrZero
    max_steps: Count
    precision: Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledEvaluation(Evaluation):
    """[evaluation] with no setting left to derive."""

    every_steps: Count
    patience: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig(TrainConfig):
    """Settings whose [data] and [vocabulary] are complete, which is enough to write the encoded corpus.

    [training] and [evaluation] may have None: their defaults depend on the number of batches in the encoded corpus.
    """

    data: SettledData
    vocabulary: SettledVocabulary


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledConfig(CorpusConfig):
    """The complete settings of a training."""

    training: SettledTraining
    evaluation: SettledEvaluation


def settled_section(kind: type[SettledSection], section: Section, **derived: Any) -> SettledSection:
    """Return a section as an instance of the class `kind`; a setting that is None gets its value in `derived`.

    Raises:
        InputError: a setting is None that `kind` requires and `derived` does not have.
    """
    values = {setting.name: getattr(section, setting.name) for setting in fields(section)}  # type: ignore[arg-type]
    return kind(**{**values, **{name: value for name, value in derived.items() if values[name] is None}})


def complete(config: TrainConfig) -> SettledConfig:
    """Return complete settings, such as those read from config.toml of a training's folder, as a SettledConfig.

    Raises:
        InputError: a setting that must have a value is None.
    """
    return SettledConfig(
        data=settled_section(SettledData, config.data),
        vocabulary=settled_section(SettledVocabulary, config.vocabulary),
        model=config.model,
        training=settled_section(SettledTraining, config.training),
        evaluation=settled_section(SettledEvaluation, config.evaluation),
    )
