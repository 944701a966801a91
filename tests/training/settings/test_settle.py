"""Recipes: settings that follow from the size of the corpus and the device, and never override what the user set."""

from dataclasses import fields
from itertools import pairwise
from math import isinf
from typing import get_args

import pytest
import torch
from refusals import refusal

from regard import InputError
from regard.training.settings.settle import (
    DEFAULT_MAX_TOKENS,
    RECIPES,
    SAFE_RATE,
    chosen_recipe,
    default_precision,
    longest_sentence,
    settle,
    settle_corpus,
)
from regard.training.settings.survey import Survey
from regard.training.settings.train_config import Evaluation, Kind, Model, TrainConfig, Training, VocabularySettings

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def settled(config=TrainConfig(), recipe=RECIPES["cpu"][1], n_batches=100, n_pairs=29_000, shared_letters=0.9):  # noqa: B008 (frozen)
    corpus_config = settle_corpus(config, recipe, Survey(n_pairs, shared_letters))
    return settle(corpus_config, recipe, CPU, lambda batch_tokens: n_batches)


@pytest.mark.parametrize("device", RECIPES)
def test_there_is_a_recipe_for_every_number_of_pairs(device):
    bounds = [recipe.up_to_pairs for recipe in RECIPES[device]]
    assert bounds == sorted(set(bounds))
    assert isinf(bounds[-1])


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_corpus_gets_the_first_recipe_that_it_is_small_enough_for(device):
    recipes = RECIPES["cpu" if device is CPU else "gpu"]
    assert chosen_recipe(1, device) is recipes[0]
    for recipe, larger in pairwise(recipes):
        assert chosen_recipe(int(recipe.up_to_pairs), device) is recipe
        assert chosen_recipe(int(recipe.up_to_pairs) + 1, device) is larger
    assert chosen_recipe(10**12, device) is recipes[-1]


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("recipe", [recipe for recipes in RECIPES.values() for recipe in recipes])
def test_every_recipe_gives_settings_that_are_valid_and_complete(recipe, kind):
    config = settled(TrainConfig(model=Model(kind=kind)), recipe)
    assert config.model.preset == recipe.defaults[kind].preset
    for section in (config.data, config.training, config.evaluation, config.vocabulary):
        unset = {setting.name for setting in fields(section) if getattr(section, setting.name) is None}
        meaning = {"dev_source", "dev_target", "weights", "synthetic", "file", "n_tokens", "byte_fallback"}
        meaning |= {"max_minutes", "shard"}
        assert unset <= meaning  # None has a meaning there
    assert config.training.warmup_steps < config.training.max_steps
    assert config.evaluation.every_steps * config.evaluation.patience < config.training.max_steps


def test_settings_of_the_user_stay():
    said = TrainConfig(
        model=Model(preset="tiny", changes={"dropout": 0.4, "share": "none"}),
        training=Training(learning_rate=7e-4, schedule="constant", batch_tokens=123, max_steps=77, warmup_steps=5),
        evaluation=Evaluation(patience=3, every_steps=11),
        vocabulary=VocabularySettings(joint=False),
    )
    config = settled(said)
    assert config.model == said.model
    for section in ("vocabulary", "training", "evaluation"):
        for setting in fields(getattr(said, section)):
            value = getattr(getattr(said, section), setting.name)
            assert value in (None, getattr(getattr(config, section), setting.name)), setting.name


@pytest.mark.parametrize(
    ("model", "rate"),
    [
        (Model(), 5e-3),
        (Model(preset="tiny"), 5e-3),
        (Model(changes={"dropout": 0.2}), 5e-3),
        (Model(preset="base"), SAFE_RATE),
        (Model(changes={"d_model": 512}), SAFE_RATE),
        (Model(kind="recurrent"), 5e-3),
        (Model(kind="recurrent", preset="base"), SAFE_RATE),
    ],
    ids=str,
)
def test_a_model_of_another_size_has_a_lower_learning_rate(model, rate):
    assert settled(TrainConfig(model=model)).training.learning_rate == rate


def test_a_learning_rate_below_the_safe_one_stays():
    slow = RECIPES["cpu"][2]
    assert slow.defaults["transformer"].learning_rate == 1e-3 < SAFE_RATE
    assert settled(TrainConfig(model=Model(preset="tiny")), slow).training.learning_rate == 1e-3


@pytest.mark.parametrize(("shared_letters", "joint", "share"), [(0.9, True, "all"), (0.1, False, "target")])
def test_languages_with_the_same_letters_share_a_vocabulary(shared_letters, joint, share):
    config = settled(shared_letters=shared_letters)
    assert config.vocabulary.joint is joint
    assert config.model.changes["share"] == share


@pytest.mark.parametrize(("n_pairs", "dev_pairs"), [(1, 1), (20, 1), (21, 2), (29_000, 1_000), (10**7, 1_000)])
def test_one_pair_in_twenty_is_held_out(n_pairs, dev_pairs):
    assert settled(n_pairs=n_pairs).data.dev_pairs == dev_pairs


@pytest.mark.parametrize(
    ("batches", "accumulate", "steps"),
    [
        (1, 1, 2_000),  # the least
        (144, 1, 32 * 144),
        (144, 2, 32 * 72),
        (500, 4, 32 * 125),
        (10**6, 1, 40_000),  # the most
    ],
)
def test_steps_follow_from_passes_over_the_corpus(batches, accumulate, steps):
    recipe = RECIPES["cpu"][1]  # 32 epochs, and an evaluation after each
    config = settled(TrainConfig(training=Training(accumulate=accumulate)), recipe, batches)
    assert config.training.max_steps == steps
    assert config.training.warmup_steps == min(recipe.warmup_steps, -(-steps // 10))
    assert config.evaluation.every_steps == -(-steps // 32)


def test_a_recipe_without_a_number_of_evaluations_has_one_after_every_epoch():
    config = settled(TrainConfig(model=Model(kind="recurrent")), RECIPES["cpu"][1], 144)
    assert (config.training.max_steps, config.evaluation.every_steps) == (30 * 144, 144)


def test_a_recipe_with_a_number_of_evaluations_has_that_many():
    recipe = RECIPES["cpu"][0]
    config = settled(recipe=recipe)
    assert config.training.max_steps == config.evaluation.every_steps * recipe.evaluations


@pytest.mark.parametrize(
    ("said", "room", "longest"),
    [
        (None, 1024, DEFAULT_MAX_TOKENS),
        (None, DEFAULT_MAX_TOKENS + 1, DEFAULT_MAX_TOKENS),
        (None, 40, 39),
        (39, 40, 39),
    ],
)
def test_a_sentence_and_its_end_fit_the_model(said, room, longest):
    assert longest_sentence(said, room) == longest


def test_sentences_that_do_not_fit_the_model():
    assert refusal(InputError, longest_sentence, 40, 40) == (
        "data.max_tokens = 40 does not fit model.max_tokens = 40: the model needs room for a sentence's end as well; "
        "give data.max_tokens of at most 39, or leave it out, or give model.max_tokens of at least 41."
    )


def test_the_precision_is_that_of_the_device_itself(monkeypatch):
    chosen = []

    class Device:
        def __init__(self, device):
            self.device = device

        def __enter__(self):
            chosen.append(self.device)

        def __exit__(self, *error):
            chosen.append(None)

    monkeypatch.setattr(torch.cuda, "device", Device)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: chosen == [torch.device("cuda:1")])
    assert default_precision(torch.device("cuda:1")) == "bfloat16"
    assert default_precision(torch.device("cuda:0")) == default_precision(CPU) == "float32"
