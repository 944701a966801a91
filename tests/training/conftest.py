"""A corpus and settings small enough to train in a second, and folders of trainings that run once."""

import os
import shutil
from dataclasses import replace
from hashlib import sha256

import pytest
from forked_programs import forking_process

from regard.text.sample import sample
from regard.training.settings.settings_file import as_toml
from regard.training.settings.settled_config import (
    SettledConfig,
    SettledData,
    SettledEvaluation,
    SettledTraining,
    SettledVocabulary,
)
from regard.training.settings.train_config import Data, Evaluation, Model, TrainConfig, Training, VocabularySettings
from regard.training.train import train

SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "dropout": 0.1}


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """Replace os.fsync, which takes most of the time of a small training, by a function that does nothing."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture(scope="session")
def forking():
    """A process from which tests fork programs."""
    with forking_process() as found:
        yield found


@pytest.fixture(scope="session")
def number_names():
    """Two texts of 60 lines: names of numbers in English and in Korean."""
    pairs = sample("en", "ko", {"train": 60}, seed=3, below=1000)["train"]
    return ["".join(f"{pair[side]}\n" for pair in pairs) for side in (0, 1)]


@pytest.fixture
def texts(tmp_path, number_names):
    for name, lines in zip(("a.en", "a.ko"), number_names, strict=True):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    return tmp_path / "a.en", tmp_path / "a.ko"


@pytest.fixture
def quick():
    """Return a function: quick(max_steps=9) returns settings for 9 steps of a very small model."""

    def settings(kind="transformer", changes=None, evaluation=None, data=None, vocabulary=None, **training):
        usual = {"max_steps": 8, "batch_tokens": 150, "learning_rate": 0.01, "warmup_steps": 2}
        return TrainConfig(
            data=Data(**(data or {})),
            vocabulary=VocabularySettings(**{"n_tokens": 40, **(vocabulary or {})}),
            model=Model(
                kind=kind,
                preset="tiny",
                changes={**(SMALL if kind == "transformer" else {"d_model": 16}), **(changes or {})},
            ),
            training=Training(**{**usual, **training}),
            evaluation=Evaluation(**{"every_steps": 3, "log_steps": 2, "pairs": 3, "average": 2, **(evaluation or {})}),
        )

    return settings


@pytest.fixture
def onwards(quick):
    """Return a function: onwards(folder) returns settings for one step that starts from the translator in `folder`."""

    def settings(folder, vocabulary=None, **training):
        config = quick(**{"max_steps": 1, "learning_rate": None, "warmup_steps": 0, "schedule": "constant", **training})
        return replace(config, model=Model(start_from=str(folder)), vocabulary=VocabularySettings(**(vocabulary or {})))

    return settings


@pytest.fixture(scope="session")
def trainings(tmp_path_factory):
    return tmp_path_factory.mktemp("trainings")


@pytest.fixture
def trained(trainings, texts, tmp_path):
    """trained(config, "out") returns tmp_path / "out", a copy of the folder of a training that runs once a session."""

    def copy(config, name="out"):
        folder = trainings / sha256(as_toml(config).encode()).hexdigest()
        if not folder.exists():
            train(*texts, folder, config)
        return shutil.copytree(folder, tmp_path / name)

    return copy


@pytest.fixture
def settled():
    """Return a function: settled(seed=3) returns complete settings with this seed; `model` is a section [model]."""

    def settings(model=None, patience=5, **training):
        usual = {
            "batch_tokens": 100,
            "learning_rate": 0.1,
            "schedule": "constant",
            "warmup_steps": 1,
            "max_steps": 100,
            "precision": "float32",
        }
        return SettledConfig(
            data=SettledData(dev_pairs=3, max_tokens=99),
            vocabulary=SettledVocabulary(joint=False, placeholders=False),
            model=model or Model(preset="tiny"),
            training=SettledTraining(**{**usual, **training}),
            evaluation=SettledEvaluation(every_steps=10, patience=patience),
        )

    return settings
