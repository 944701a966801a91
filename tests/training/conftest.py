"""A corpus and settings small enough to train in a second."""

import pytest

from regard.text.sample import sample
from regard.training.settings.config import Data, Evaluation, Model, TrainConfig, Training, VocabularySettings

SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "dropout": 0.1}


@pytest.fixture
def texts(tmp_path):
    """Sixty numbers in English and Korean."""
    pairs = sample("en", "ko", {"train": 60}, seed=3, below=1000)["train"]
    for side, name in enumerate(("a.en", "a.ko")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return tmp_path / "a.en", tmp_path / "a.ko"


@pytest.fixture
def quick():
    """quick(max_steps=9) are settings for so many steps of a very small model."""

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
