"""The settings that a training runs with: the user's settings with nothing left to derive.

Each section narrows a section of TrainConfig: a setting that recipes derive is never None here. None keeps a meaning of
its own in few settings: no file of dev pairs, no preset, no translator to start from, no limit in minutes, vocabularies
whose sizes follow from their texts, and shard, which Accelerate's config decides.
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
    """The pairs to learn from and the dev pairs, settled."""

    dev_pairs: Count
    max_tokens: Length


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledVocabulary(VocabularySettings):
    """The vocabularies, settled."""

    joint: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledTraining(Training):
    """The optimisation, settled."""

    batch_tokens: BatchTokens
    learning_rate: Positive
    schedule: ScheduleName
    warmup_steps: CountOrZero
    max_steps: Count
    precision: Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledEvaluation(Evaluation):
    """The evaluations, settled."""

    every_steps: Count
    patience: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig(TrainConfig):
    """Settings of which all that the corpus on disk depends on is settled; the rest may need the corpus itself."""

    data: SettledData
    vocabulary: SettledVocabulary


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledConfig(CorpusConfig):
    """The settings that a training runs with."""

    training: SettledTraining
    evaluation: SettledEvaluation


def settled_section(kind: type[SettledSection], section: Section, **derived: Any) -> SettledSection:
    """Return a section as its settled kind, with derived values in place of None.

    Raises:
        InputError: a setting is still None that must not be.
    """
    values = {setting.name: getattr(section, setting.name) for setting in fields(section)}  # type: ignore[arg-type]
    return kind(**{**values, **{name: value for name, value in derived.items() if values[name] is None}})


def complete(config: TrainConfig) -> SettledConfig:
    """Return settings that have nothing left to derive, such as a training's folder keeps, as a SettledConfig.

    Raises:
        InputError: a setting is missing.
    """
    return SettledConfig(
        data=settled_section(SettledData, config.data),
        vocabulary=settled_section(SettledVocabulary, config.vocabulary),
        model=config.model,
        training=settled_section(SettledTraining, config.training),
        evaluation=settled_section(SettledEvaluation, config.evaluation),
    )
