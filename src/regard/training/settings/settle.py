"""Deriving the settings that the user left at None, from recipes (default settings) by corpus size and device.

Small corpora get small models, much dropout and many epochs; large corpora get the opposite. A CPU gets models that it
can train within hours. `settle_corpus` derives the settings needed to encode the corpus; then `settle` derives all
other settings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Any, TypeVar

import torch

from regard.errors import InputError
from regard.training.learning_rate import ScheduleName
from regard.training.settings.settled_config import (
    CorpusConfig,
    SettledConfig,
    SettledData,
    SettledEvaluation,
    SettledTraining,
    SettledVocabulary,
    settled_section,
)
from regard.training.settings.survey import Survey
from regard.training.settings.train_config import Kind, Model, Precision, TrainConfig
from regard.translation.translator_folder import model_kinds

DEFAULT_MAX_TOKENS = 256
"""The default of data.max_tokens, the most subword pieces of a sentence; lower if the model reads fewer tokens."""

LEAST_SHARED_LETTERS = 0.5
"""By default two languages share a vocabulary if the overlap of their letter frequencies (0 to 1) is at least this."""

PAIRS_PER_DEV_PAIR, MOST_DEV_PAIRS = 20, 1_000
"""By default data.dev_pairs is the number of pairs in the corpus divided by 20, but at most 1,000."""

SAFE_RATE = 2e-3
"""The highest default peak learning rate for a model whose size is not the default one.

A higher rate, 5e-3, was tried only with the model sizes for which `RECIPES` has this rate.
"""

WARM_START_FACTOR = 0.2
"""The factor by which the default peak learning rate is multiplied if training starts from a trained translator."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """The default settings of a `Recipe` for one kind of model, transformer or recurrent.

    Attributes:
        preset: the name of the model's size, e.g. "small".
        learning_rate: the peak learning rate for a model of this preset; `peak_rate` has the rule for other sizes.
        epochs: the number of passes over the corpus; max_steps follows from it, within the recipe's limits.
        changes: the values that differ from the preset, by field name of the model's config.
    """

    preset: str
    learning_rate: float
    epochs: int
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """The default settings for corpora of up to a certain number of sentence pairs.

    Attributes:
        least_steps, most_steps: the limits of max_steps, however small or large the corpus.
        evaluations: the number of evaluations in the whole training; None = as many as `ModelDefaults.epochs`.
        patience: the number of evaluations in a row without improvement after which training ends.
    """

    up_to_pairs: int | float
    defaults: Mapping[Kind, ModelDefaults]
    batch_tokens: int
    warmup_steps: int
    schedule: ScheduleName
    least_steps: int
    most_steps: int
    evaluations: int | None
    patience: int


RECIPES: Mapping[str, tuple[Recipe, ...]] = {
    "cpu": (
        Recipe(
            up_to_pairs=15_000, batch_tokens=2_000, warmup_steps=400, schedule="cosine",
            least_steps=1_000, most_steps=6_000, evaluations=20, patience=8,
            defaults={
                "transformer": ModelDefaults("tiny", 2e-3, 60, {"n_layers": 3, "dropout": 0.1}),
                "recurrent": ModelDefaults("tiny", 2e-3, 60),
            },
        ),
        Recipe(
            up_to_pairs=200_000, batch_tokens=4_000, warmup_steps=2_000, schedule="cosine",
            least_steps=2_000, most_steps=40_000, evaluations=None, patience=12,
            defaults={
                "transformer": ModelDefaults("tiny", 5e-3, 32),
                "recurrent": ModelDefaults("small", 5e-3, 30, {"dropout": 0.4}),
            },
        ),
        Recipe(
            up_to_pairs=inf, batch_tokens=8_000, warmup_steps=4_000, schedule="inverse-square-root",
            least_steps=40_000, most_steps=300_000, evaluations=100, patience=10,
            defaults={
                "transformer": ModelDefaults("small", 1e-3, 20),
                "recurrent": ModelDefaults("small", 1e-3, 20),
            },
        ),
    ),
    "gpu": (
        Recipe(
            up_to_pairs=15_000, batch_tokens=4_000, warmup_steps=400, schedule="cosine",
            least_steps=1_000, most_steps=6_000, evaluations=20, patience=8,
            defaults={
                "transformer": ModelDefaults("tiny", 2e-3, 90, {"n_layers": 3, "dropout": 0.1}),
                "recurrent": ModelDefaults("tiny", 2e-3, 90),
            },
        ),
        Recipe(
            up_to_pairs=100_000, batch_tokens=8_000, warmup_steps=2_000, schedule="inverse-square-root",
            least_steps=4_000, most_steps=40_000, evaluations=60, patience=10,
            defaults={
                "transformer": ModelDefaults("small", 1e-3, 80, {"dropout": 0.3}),
                "recurrent": ModelDefaults("small", 1e-3, 80),
            },
        ),
        Recipe(
            up_to_pairs=1_000_000, batch_tokens=16_000, warmup_steps=4_000, schedule="inverse-square-root",
            least_steps=20_000, most_steps=100_000, evaluations=80, patience=10,
            defaults={
                "transformer": ModelDefaults("small", 1e-3, 60),
                "recurrent": ModelDefaults("small", 1e-3, 60),
            },
        ),
        Recipe(
            up_to_pairs=inf, batch_tokens=32_000, warmup_steps=4_000, schedule="inverse-square-root",
            least_steps=50_000, most_steps=300_000, evaluations=100, patience=10,
            defaults={
                "transformer": ModelDefaults("base", 1e-3, 40, {"norm": "pre"}),
                "recurrent": ModelDefaults("base", 1e-3, 40),
            },
        ),
    ),
}  # fmt: skip
"""The default settings for a CPU and for all other devices ("gpu"), sorted by corpus size, the smallest first."""


def chosen_recipe(n_pairs: int, device: torch.device) -> Recipe:
    recipes = RECIPES["cpu" if device.type == "cpu" else "gpu"]
    return next(recipe for recipe in recipes if n_pairs <= recipe.up_to_pairs)


def settle_corpus(config: TrainConfig, recipe: Recipe, survey: Survey) -> CorpusConfig:
    """Return the settings with [data], [vocabulary] and [model] filled in: encoding the corpus needs these sections."""
    languages_share_letters = survey.shared_letters >= LEAST_SHARED_LETTERS
    joint = value_or_default(config.vocabulary.joint, languages_share_letters)
    use_placeholders = not (joint or languages_share_letters)
    vocabulary = settled_section(SettledVocabulary, config.vocabulary, joint=joint, placeholders=use_placeholders)
    if joint and vocabulary.placeholders:  # only if the user asked for placeholders
        raise InputError(
            "vocabulary.placeholders = true needs a vocabulary for each language; give vocabulary.joint = false, or "
            "leave it out."
        )
    model = settled_model(config.model, recipe, vocabulary.joint)
    data = settled_section(
        SettledData,
        config.data,
        dev_pairs=min(ceil(survey.n_pairs / PAIRS_PER_DEV_PAIR), MOST_DEV_PAIRS),
        max_tokens=longest_sentence(config.data.max_tokens, model_config(model).max_tokens),
    )
    return CorpusConfig(
        data=data, vocabulary=vocabulary, model=model, training=config.training, evaluation=config.evaluation
    )


def settle(
    config: CorpusConfig, recipe: Recipe, device: torch.device, count_batches: Callable[[int], int]
) -> SettledConfig:
    """Return `config` with the sections [training] and [evaluation] filled in: they depend on the encoded corpus.

    The default of warmup_steps is that of the recipe, but at most a tenth of max_steps.

    Args:
        count_batches: a function from batch_tokens to the number of batches in an epoch.
    """
    training, defaults = config.training, recipe.defaults[config.model.kind]
    batch_tokens = value_or_default(training.batch_tokens, recipe.batch_tokens)
    steps_per_epoch = ceil(count_batches(batch_tokens) / training.accumulate)
    default_steps = min(max(defaults.epochs * steps_per_epoch, recipe.least_steps), recipe.most_steps)
    max_steps = value_or_default(training.max_steps, default_steps)
    n_evaluations = value_or_default(recipe.evaluations, defaults.epochs)
    return SettledConfig(
        data=config.data,
        vocabulary=config.vocabulary,
        model=config.model,
        training=settled_section(
            SettledTraining,
            training,
            batch_tokens=batch_tokens,
            learning_rate=peak_rate(config.model, defaults),
            schedule=recipe.schedule,
            warmup_steps=min(recipe.warmup_steps, ceil(max_steps / 10)),
            max_steps=max_steps,
            precision=default_precision(device),
        ),
        evaluation=settled_section(
            SettledEvaluation,
            config.evaluation,
            every_steps=max(ceil(max_steps / n_evaluations), 1),
            patience=recipe.patience,
        ),
    )


def settled_model(model: Model, recipe: Recipe, joint: bool) -> Model:
    """Return the settings of [model]; those that the user did not give are taken from the recipe.

    By default a Transformer's output layer shares its matrix with the target's embeddings. If the vocabulary is joint,
    the source's embeddings share this matrix too.
    """
    defaults = recipe.defaults[model.kind]
    changes = {} if model.preset else dict(defaults.changes)  # the recipe's changes are meant for its own preset
    if model.kind == "transformer":
        changes["share"] = "all" if joint else "target"
    # fine-tuning needs no preset: `model.changes` has every field of the config of the given translator
    preset = None if model.start_from is not None else value_or_default(model.preset, defaults.preset)
    return replace(model, preset=preset, changes={**changes, **model.changes})


def model_config(model: Model, n_source_tokens: int = 1, n_target_tokens: int = 1) -> Any:
    """Return the TransformerConfig or RecurrentConfig that the settings of [model] describe.

    Args:
        n_source_tokens, n_target_tokens: the sizes of the vocabularies; 1 stands for a size that is not known yet.
    """
    changes = {**model.changes, "n_source_tokens": n_source_tokens, "n_target_tokens": n_target_tokens}
    config_class = model_kinds()[model.kind].config_class
    try:
        return config_class(**changes) if model.preset is None else config_class.preset(model.preset, **changes)
    except ValueError as error:
        raise InputError(f"the settings of [model] are not valid: {error}") from error


def longest_sentence(max_tokens: int | None, model_max_tokens: int) -> int:
    """Return data.max_tokens, the longest training sentence in pieces: the user's number, or the model's default."""
    largest = model_max_tokens - 1  # the model also reads EOS after a source, and BOS before a target
    longest = value_or_default(max_tokens, min(DEFAULT_MAX_TOKENS, largest))
    if longest > largest:
        raise InputError(
            f"data.max_tokens = {longest} does not fit model.max_tokens = {model_max_tokens}: the model needs room for "
            f"a sentence's end as well; give data.max_tokens of at most {largest}, or leave it out, or give "
            f"model.max_tokens of at least {longest + 1}."
        )
    return longest


def peak_rate(model: Model, defaults: ModelDefaults) -> float:
    has_preset_size = model.preset == defaults.preset and "d_model" not in model.changes
    rate = defaults.learning_rate if has_preset_size else min(defaults.learning_rate, SAFE_RATE)
    return rate if model.start_from is None else WARM_START_FACTOR * rate


def default_precision(device: torch.device) -> Precision:
    if device.type != "cuda":
        return "float32"
    with torch.cuda.device(device):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"


def value_or_default(value: Value | None, default: Value) -> Value:
    return default if value is None else value
