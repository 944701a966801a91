"""Settling the settings: every None becomes a value, by a table of recipes for corpus sizes and devices.

Each recipe is for corpora up to a number of pairs. Small corpora get small models, much dropout and many epochs; large
corpora get the opposite. A CPU gets sizes that it can train within hours. `settle_corpus` and then `settle` turn what
the user gave into what training does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Any, TypeVar

import torch

from regard.errors import InputError
from regard.training.data.survey import Survey
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
from regard.training.settings.train_config import Kind, Model, Precision, TrainConfig
from regard.translation.translator_folder import model_kinds

LONGEST = 256
"""The most pieces of a sentence to learn from, if the model has room for as many."""

JOINT_FROM = 0.5
"""The share of letters in common from which two languages get a joint vocabulary."""

ONE_IN, MOST_DEV_PAIRS = 20, 1_000
"""One pair in this many is held out of a corpus for evaluation, up to the most pairs."""

SAFE_RATE = 2e-3
"""The highest peak of the learning rate for a model of another size than the recipe's."""

WARM_START_SHARE = 0.2
"""The share of the usual peak for training that starts from a trained model."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """The model of a kind, the peak of its learning rate and its epochs."""

    preset: str
    """The model's size."""

    learning_rate: float
    """The peak; at most `SAFE_RATE` for another size, or for a start from a translator."""

    epochs: int
    """The most passes over the corpus; the last step follows from them."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the preset."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Settings for corpora of some sizes."""

    up_to_pairs: int | float
    """The largest corpus that the recipe is for."""

    defaults: Mapping[Kind, ModelDefaults]
    """The model of each kind."""

    batch_tokens: int
    warmup_steps: int
    schedule: ScheduleName

    least_steps: int
    """The fewest steps, however small the corpus."""

    most_steps: int
    """The most steps, however large the corpus."""

    evaluations: int | None
    """The number of evaluations up to the last step; None = one after every epoch."""

    patience: int
    """The number of evaluations without a better one after which training ends."""


RECIPES: Mapping[str, tuple[Recipe, ...]] = {
    "cpu": (
        Recipe(
            up_to_pairs=15_000,
            defaults={
                "transformer": ModelDefaults("tiny", 2e-3, 60, {"n_layers": 3, "dropout": 0.1}),
                "recurrent": ModelDefaults("tiny", 2e-3, 60),
            },
            batch_tokens=2_000,
            warmup_steps=400,
            schedule="cosine",
            least_steps=1_000,
            most_steps=6_000,
            evaluations=20,
            patience=8,
        ),
        Recipe(
            up_to_pairs=200_000,
            defaults={
                "transformer": ModelDefaults("tiny", 5e-3, 32),
                "recurrent": ModelDefaults("small", 5e-3, 30, {"dropout": 0.4}),
            },
            batch_tokens=4_000,
            warmup_steps=2_000,
            schedule="cosine",
            least_steps=2_000,
            most_steps=40_000,
            evaluations=None,
            patience=12,
        ),
        Recipe(
            up_to_pairs=inf,
            defaults={
                "transformer": ModelDefaults("small", 1e-3, 20),
                "recurrent": ModelDefaults("small", 1e-3, 20),
            },
            batch_tokens=8_000,
            warmup_steps=4_000,
            schedule="inverse-square-root",
            least_steps=40_000,
            most_steps=300_000,
            evaluations=100,
            patience=10,
        ),
    ),
    "gpu": (
        Recipe(
            up_to_pairs=15_000,
            defaults={
                "transformer": ModelDefaults("tiny", 2e-3, 90, {"n_layers": 3, "dropout": 0.1}),
                "recurrent": ModelDefaults("tiny", 2e-3, 90),
            },
            batch_tokens=4_000,
            warmup_steps=400,
            schedule="cosine",
            least_steps=1_000,
            most_steps=6_000,
            evaluations=20,
            patience=8,
        ),
        Recipe(
            up_to_pairs=100_000,
            defaults={
                "transformer": ModelDefaults("small", 1e-3, 80, {"dropout": 0.3}),
                "recurrent": ModelDefaults("small", 1e-3, 80),
            },
            batch_tokens=8_000,
            warmup_steps=2_000,
            schedule="inverse-square-root",
            least_steps=4_000,
            most_steps=40_000,
            evaluations=60,
            patience=10,
        ),
        Recipe(
            up_to_pairs=1_000_000,
            defaults={
                "transformer": ModelDefaults("small", 1e-3, 60),
                "recurrent": ModelDefaults("small", 1e-3, 60),
            },
            batch_tokens=16_000,
            warmup_steps=4_000,
            schedule="inverse-square-root",
            least_steps=20_000,
            most_steps=100_000,
            evaluations=80,
            patience=10,
        ),
        Recipe(
            up_to_pairs=inf,
            defaults={
                "transformer": ModelDefaults("base", 1e-3, 40, {"norm": "pre"}),
                "recurrent": ModelDefaults("base", 1e-3, 40),
            },
            batch_tokens=32_000,
            warmup_steps=4_000,
            schedule="inverse-square-root",
            least_steps=50_000,
            most_steps=300_000,
            evaluations=100,
            patience=10,
        ),
    ),
}  # fmt: skip


def chosen_recipe(n_pairs: int, device: torch.device) -> Recipe:
    """Return the recipe for a corpus of n pairs on a device."""
    return next(r for r in RECIPES["cpu" if device.type == "cpu" else "gpu"] if n_pairs <= r.up_to_pairs)


def settle_corpus(config: TrainConfig, recipe: Recipe, survey: Survey) -> CorpusConfig:
    """Settle the vocabularies, the model and the longest sentence: all that is needed to write the corpus.

    Raises:
        InputError: the settings of the model contradict each other, or it has no room for the longest sentence.
    """
    vocabulary = settled_section(SettledVocabulary, config.vocabulary, joint=survey.shared_letters >= JOINT_FROM)
    model = settled_model(config.model, recipe, vocabulary.joint)
    data = settled_section(
        SettledData,
        config.data,
        dev_pairs=min(ceil(survey.n_pairs / ONE_IN), MOST_DEV_PAIRS),
        max_tokens=longest_sentence(config.data.max_tokens, model_config(model).max_tokens),
    )
    return CorpusConfig(
        data=data, vocabulary=vocabulary, model=model, training=config.training, evaluation=config.evaluation
    )


def settle(
    config: CorpusConfig, recipe: Recipe, device: torch.device, count_batches: Callable[[int], int]
) -> SettledConfig:
    """Settle the optimisation and the evaluations, for a corpus that is written.

    The warm-up is at most a tenth of the training.

    Args:
        count_batches: returns the number of batches in an epoch for a number of tokens a batch.
    """
    training, defaults = config.training, recipe.defaults[config.model.kind]
    batch_tokens = otherwise(training.batch_tokens, recipe.batch_tokens)
    steps_per_epoch = ceil(count_batches(batch_tokens) / training.accumulate)
    steps = min(max(defaults.epochs * steps_per_epoch, recipe.least_steps), recipe.most_steps)
    max_steps = otherwise(training.max_steps, steps)
    n_evaluations = otherwise(recipe.evaluations, defaults.epochs)
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
    """Return the model with the recipe's preset and changes where the user gave none."""
    defaults = recipe.defaults[model.kind]
    changes = {} if model.preset else dict(defaults.changes)
    if model.kind == "transformer":
        changes["share"] = "all" if joint else "target"
    preset = None if model.start_from is not None else otherwise(model.preset, defaults.preset)
    return replace(model, preset=preset, changes={**changes, **model.changes})


def model_config(model: Model, n_source_tokens: int = 1, n_target_tokens: int = 1) -> Any:
    """Return the config of a model: its preset, the changes, and the sizes of the vocabularies.

    Args:
        n_source_tokens, n_target_tokens: 1 = not known yet.

    Raises:
        InputError: the settings contradict each other.
    """
    changes = {**model.changes, "n_source_tokens": n_source_tokens, "n_target_tokens": n_target_tokens}
    kind = model_kinds()[model.kind].config
    try:
        return kind(**changes) if model.preset is None else kind.preset(model.preset, **changes)
    except ValueError as error:
        raise InputError(f"the settings of [model] do not make one: {error}") from error


def longest_sentence(max_tokens: int | None, room: int) -> int:
    """Return the most pieces of a sentence, given the user's number or None, and the model's room in tokens.

    Raises:
        InputError: the user's number of pieces does not fit into the room.
    """
    longest = otherwise(max_tokens, min(LONGEST, room - 1))  # EOS, and BOS on the other side, take a place
    if longest >= room:
        raise InputError(
            f"data.max_tokens = {longest} does not fit model.max_tokens = {room}: the model needs room for a "
            f"sentence's end as well; give data.max_tokens of at most {room - 1}, or leave it out, or give "
            f"model.max_tokens of at least {longest + 1}."
        )
    return longest


def peak_rate(model: Model, defaults: ModelDefaults) -> float:
    """Return the peak of the learning rate: the usual one for the usual size, else a safe one."""
    as_usual = model.preset == defaults.preset and "d_model" not in model.changes
    rate = defaults.learning_rate if as_usual else min(defaults.learning_rate, SAFE_RATE)
    return rate if model.start_from is None else WARM_START_SHARE * rate


def default_precision(device: torch.device) -> Precision:
    """Return bfloat16 for a GPU that multiplies in it, float32 otherwise."""
    if device.type != "cuda":
        return "float32"
    with torch.cuda.device(device):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"


def otherwise(value: Value | None, default: Value) -> Value:
    """Return a value, or the default if it is None."""
    return default if value is None else value
