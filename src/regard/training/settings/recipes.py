"""What the settings that nobody made become: a table of recipes, by the size of the corpus and the device.

A recipe is for corpora up to its number of pairs. Small corpora want small models, much dropout and many passes;
large ones the opposite. A CPU gets the sizes that it can train within hours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Any

import torch

from regard.errors import InputError
from regard.training.data.survey import Survey
from regard.training.schedule import ScheduleName
from regard.training.settings.config import Kind, Precision, TrainConfig

LONGEST = 256
"""Pieces of the longest sentence that is learned from, if the model has room for as many."""

ALIKE = 0.5
"""The share of letters in common from which on two languages have one vocabulary."""

CAUTIOUS = 2e-3
"""A peak of the learning rate that suits recurrent and larger models too."""

STARTED = 0.2
"""The share of the usual peak that suits parameters which are trained already."""


@dataclass(frozen=True, slots=True)
class Usual:
    """The model of a kind, and how high and how long it climbs."""

    preset: str
    """Its size."""

    learning_rate: float
    """The peak; whoever chose another size or began with a translator has `CAUTIOUS` at most."""

    epochs: int
    """Passes over the corpus at most; the last step follows."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """What is other than in the preset."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What the settings are that nobody made."""

    up_to_pairs: int | float
    """The largest corpus it is for."""

    usual: Mapping[Kind, Usual]
    """The model of each kind."""

    batch_tokens: int
    warmup_steps: int
    schedule: ScheduleName

    least_steps: int
    """Steps that even the smallest corpus is given."""

    most_steps: int
    """Steps that even the largest corpus is content with."""

    evaluations: int | None
    """How often a training is judged, if it runs to its last step; None = after every pass."""

    patience: int
    """Evaluations without a better one after which it stops."""


RECIPES: Mapping[str, tuple[Recipe, ...]] = {
    "cpu": (
        Recipe(
            up_to_pairs=15_000,
            usual={
                "transformer": Usual("tiny", 2e-3, 60, {"n_layers": 3, "dropout": 0.1}),
                "recurrent": Usual("tiny", 2e-3, 60),
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
            usual={
                "transformer": Usual("tiny", 5e-3, 32),
                "recurrent": Usual("small", 5e-3, 30, {"dropout": 0.4}),
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
            usual={
                "transformer": Usual("small", 1e-3, 20),
                "recurrent": Usual("small", 1e-3, 20),
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
            usual={
                "transformer": Usual("tiny", 2e-3, 90, {"n_layers": 3, "dropout": 0.1}),
                "recurrent": Usual("tiny", 2e-3, 90),
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
            usual={
                "transformer": Usual("small", 1e-3, 80, {"dropout": 0.3}),
                "recurrent": Usual("small", 1e-3, 80),
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
            usual={
                "transformer": Usual("small", 1e-3, 60),
                "recurrent": Usual("small", 1e-3, 60),
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
            usual={
                "transformer": Usual("base", 1e-3, 40, {"norm": "pre"}),
                "recurrent": Usual("base", 1e-3, 40),
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
    """The recipe for a corpus of so many pairs on a device."""
    return next(r for r in RECIPES["cpu" if device.type == "cpu" else "gpu"] if n_pairs <= r.up_to_pairs)


def derived(config: TrainConfig, recipe: Recipe, survey: Survey, device: torch.device) -> TrainConfig:
    """The settings with those that nobody made taken from a recipe; the steps are for `with_steps`."""
    model, training, vocabulary = config.model, config.training, config.vocabulary
    usual = recipe.usual[model.kind]
    vocabulary = replace(vocabulary, joint=first(vocabulary.joint, survey.in_common >= ALIKE))
    changes = {} if model.preset else dict(usual.changes)
    if model.kind == "transformer":
        changes["share"] = "all" if vocabulary.joint else "target"
    as_usual = model.preset in (None, usual.preset) and "d_model" not in model.changes
    rate = usual.learning_rate if as_usual else min(usual.learning_rate, CAUTIOUS)
    preset = first(model.preset, usual.preset)
    if model.start_from is not None:
        rate, preset = STARTED * rate, None
    return replace(
        config,
        vocabulary=vocabulary,
        model=replace(model, preset=preset, changes={**changes, **model.changes}),
        training=replace(
            training,
            batch_tokens=first(training.batch_tokens, recipe.batch_tokens),
            learning_rate=first(training.learning_rate, rate),
            schedule=first(training.schedule, recipe.schedule),
            precision=first(training.precision, default_precision(device)),
        ),
        evaluation=replace(config.evaluation, patience=first(config.evaluation.patience, recipe.patience)),
    )


def with_longest(config: TrainConfig, room: int) -> TrainConfig:
    """The settings with the longest sentence that is learned from, for a model that has room for so many tokens.

    Raises:
        InputError: it has not for the sentences that are asked for.
    """
    longest = first(config.data.max_tokens, min(LONGEST, room - 1))  # EOS, and BOS on the other side, take a place
    if longest >= room:
        raise InputError(
            f"data.max_tokens = {longest} does not fit model.max_tokens = {room}: the model needs room for a "
            f"sentence's end as well; give data.max_tokens of at most {room - 1}, or leave it out, or give "
            f"model.max_tokens of at least {longest + 1}."
        )
    return replace(config, data=replace(config.data, max_tokens=longest))


def with_steps(config: TrainConfig, recipe: Recipe, batches_per_epoch: int) -> TrainConfig:
    """The settings with the last step, the climb and the steps between evaluations, for a corpus of so many batches.

    The climb is a tenth of a training that is too short for the recipe's.
    """
    steps_per_epoch, epochs = (
        ceil(batches_per_epoch / config.training.accumulate),
        recipe.usual[config.model.kind].epochs,
    )
    steps = min(max(epochs * steps_per_epoch, recipe.least_steps), recipe.most_steps)
    last = first(config.training.max_steps, steps)
    warmup = first(config.training.warmup_steps, min(recipe.warmup_steps, ceil(last / 10)))
    every = first(config.evaluation.every_steps, max(ceil(last / first(recipe.evaluations, epochs)), 1))
    return replace(
        config,
        training=replace(config.training, max_steps=last, warmup_steps=warmup),
        evaluation=replace(config.evaluation, every_steps=every),
    )


def default_precision(device: torch.device) -> Precision:
    """bfloat16 on a GPU that multiplies in it, float32 elsewhere."""
    if device.type != "cuda":
        return "float32"
    with torch.cuda.device(device):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"


def first(said: Any, otherwise: Any) -> Any:
    """What was said, if anything was."""
    return otherwise if said is None else said
