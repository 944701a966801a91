"""Settings: the messages of refused values, reading and writing TOML."""

from typing import get_args

import pytest
from refusals import refusal

from regard import InputError
from regard.training.learning_rate import ScheduleName
from regard.training.settings.settings_file import as_toml, parse_change, read_config
from regard.training.settings.train_config import (
    Evaluation,
    Model,
    Precision,
    TrainConfig,
    Training,
    VocabularySettings,
)


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (Training, {"seed": "x"}, 'training.seed = "x": it must be a whole number.'),
        (Training, {"seed": True}, "training.seed = true: it must be a whole number."),
        (Training, {"seed": 1.0}, "training.seed = 1.0: it must be a whole number."),
        (
            Training,
            {"seed": -1},
            "training.seed = -1: it must be a whole number between 0 and 9,223,372,036,854,775,806.",
        ),
        (
            Training,
            {"seed": 2**63 - 1},
            "training.seed = 9223372036854775807: it must be a whole number between 0 and 9,223,372,036,854,775,806.",
        ),
        (Training, {"batch_tokens": 7}, "training.batch_tokens = 7: it must be a whole number at least 8."),
        (Training, {"learning_rate": 0}, "training.learning_rate = 0: it must be a number above 0."),
        (Training, {"learning_rate": float("nan")}, "training.learning_rate = nan: it must be a number above 0."),
        (Training, {"learning_rate": float("inf")}, "training.learning_rate = inf: it must be a number above 0."),
        (Training, {"learning_rate": "fast"}, 'training.learning_rate = "fast": it must be a number.'),
        (Training, {"label_smoothing": 1}, "training.label_smoothing = 1: it must be a number between 0 and 0.99."),
        (
            Training,
            {"schedule": "linear"},
            'training.schedule = "linear": it must be "inverse-square-root" or "cosine" or "constant".',
        ),
        (Model, {"kind": "rnn"}, 'model.kind = "rnn": it must be "transformer" or "recurrent".'),
        (Model, {"preset": 3}, "model.preset = 3: it must be a text."),
        (VocabularySettings, {"joint": 1}, "vocabulary.joint = 1: it must be true or false."),
        (Evaluation, {"patience": 0}, "evaluation.patience = 0: it must be a whole number at least 1."),
    ],
)
def test_invalid_values_are_refused(section, values, message):
    assert refusal(InputError, section, **values) == message


@pytest.mark.usefixtures("without_type_checks")
def test_a_whole_number_is_a_number_and_none_means_derive():
    assert Training(learning_rate=1, batch_tokens=None).learning_rate == 1


def test_every_schedule_and_precision_is_valid():
    assert [Training(schedule=name).schedule for name in get_args(ScheduleName)] == list(get_args(ScheduleName))
    assert [Training(precision=name).precision for name in get_args(Precision)] == list(get_args(Precision))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("training.seed=3", ("training", "seed", 3)),
        ("training.learning_rate = 1e-3", ("training", "learning_rate", 1e-3)),
        ("model.kind=recurrent", ("model", "kind", "recurrent")),
        ('model.kind="recurrent"', ("model", "kind", "recurrent")),
        ("vocabulary.joint=true", ("vocabulary", "joint", True)),
        ("data.dev_source=a=b.txt", ("data", "dev_source", "a=b.txt")),
    ],
)
def test_a_setting_on_the_command_line(change, expected):
    assert parse_change(change) == expected


@pytest.mark.parametrize("change", ["training.seed", "seed=3", "=3", ".seed=3", "training.=3"])
def test_a_change_that_is_not_a_setting_is_refused(change):
    assert refusal(InputError, parse_change, change) == (
        f"--set {change}: write section.name=value, e.g. --set training.seed=3."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.sed=3", "there is no setting training.sed; nearest: training.seed."),
        ("trainig.seed=3", "there is no section of settings trainig; nearest: training."),
        ("data.seed=3", "there is no setting data.seed; nearest: training.seed."),
        ("evaluation.patient=3", "there is no setting evaluation.patient; nearest: evaluation.patience."),
        ("model.d_modle=3", "there is no setting model.d_modle; nearest: model.d_model."),
        ("model.d_model=wide", 'model.d_model = "wide": it must be a whole number.'),
        ("model.norm=none", 'model.norm = "none": it must be "post" or "pre".'),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(change, message):
    assert refusal(InputError, read_config, None, [change]) == message


@pytest.mark.parametrize(
    ("name", "nearest"), [("n_source_tokens", "max_tokens"), ("n_target_tokens", "max_tokens"), ("changes", "share")]
)
def test_sizes_of_vocabularies_are_no_settings(name, nearest):
    assert refusal(InputError, read_config, None, [f"model.{name}=3"]) == (
        f"there is no setting model.{name}; nearest: model.{nearest}."
    )


def test_later_settings_override_earlier_ones(tmp_path):
    """The order is: defaults, file, changes of --set, options."""
    file = tmp_path / "settings.toml"
    file.write_text('[training]\nseed = 2\naccumulate = 3\n[model]\nkind = "transformer"\nd_model = 64\n')
    config = read_config(
        file, ["training.seed=4", "training.seed=5", "model.dropout=0.2"], {"model": {"preset": "tiny"}}
    )
    assert (config.training.seed, config.training.accumulate, config.training.clip_norm) == (5, 3, 1.0)
    assert config.model == Model(kind="transformer", preset="tiny", changes={"d_model": 64, "dropout": 0.2})


def test_a_config_written_and_read_is_the_same(tmp_path):
    file = tmp_path / "config.toml"
    config = TrainConfig(
        model=Model(preset="small", changes={"d_model": 64, "norm": "post"}),
        training=Training(seed=7, learning_rate=3e-4, schedule="cosine", max_minutes=2.5),
    )
    for encoding in ("utf-8", "utf-8-sig"):
        file.write_text(as_toml(config), encoding=encoding)
        assert read_config(file) == config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[training\n", "{file} is not TOML: Expected ']' at the end of a table declaration (at line 1, column 10)."),
        (b"training = 3\n", "{file}: training is a table of settings; write [training] on a line of its own."),
        (b"\xff", "{file} is not TOML: "),
        (b"[training]\nseed = " + b"9" * 5_000, "{file} is not TOML: "),
        (b"a = " + b"[" * 100_000, "{file} is not TOML: "),
    ],
)
def test_files_that_are_not_settings(tmp_path, content, message):
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    assert refusal(InputError, read_config, file).startswith(message.format(file=file))
    file.unlink()
    assert refusal(InputError, read_config, file) == f"there is no file {file}; no file is in that folder."


@pytest.mark.usefixtures("without_type_checks")
def test_a_number_of_thousands_of_digits_is_refused_in_a_line():
    """Python itself refuses to read one of more than 4,300 digits."""
    assert (
        refusal(InputError, read_config, changes=[f"training.seed={'9' * 5000}"])
        == f'training.seed = "{"9" * 79}…: it must be a whole number.'
    )
