"""The folder of a training: its lock, its texts, and the settings of a training that is resumed."""

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from refusals import refusal

from regard import InputError
from regard.training.settings.settings_file import read_config
from regard.training.settings.train_config import Evaluation, Model, TrainConfig, Training
from regard.training.store.training_folder import claim, resumed_config, stored_config, write_config


@pytest.fixture
def texts(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    return {"source": tmp_path / "a", "target": tmp_path / "b"}


def test_a_new_folder_is_claimed_and_claimed_again(tmp_path, texts):
    claim(tmp_path / "deep" / "out", texts)
    claim(tmp_path / "deep" / "out", texts)
    assert [path.name for path in (tmp_path / "deep" / "out").iterdir()] == ["training.json"]


def test_a_folder_has_one_training_at_a_time(tmp_path, texts):
    out = tmp_path / "out"
    with ExitStack() as training:
        claim(out, texts, training)
        claim(out, texts)  # another process of the same training
        (out / ".a.writing").write_text("")
        with ExitStack() as other:
            assert refusal(InputError, claim, out, texts, other) == (
                f"another training runs in {out}; wait for it, or train into another folder with --out."
            )
        assert (out / "training.json").is_file()
    with ExitStack() as later:
        claim(out, texts, later)


def test_incomplete_files_of_a_killed_run_are_no_obstacle(tmp_path, texts):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".training.json.writing").write_text("{")
    claim(tmp_path / "out", texts)
    for number in (0, 1):
        (tmp_path / "out" / f".data-{number}.writing").mkdir()
    (tmp_path / "out" / ".data-0.writing" / "source.ids").write_text("")
    claim(tmp_path / "out", texts)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["training.json"]


def test_a_folder_with_a_lock_and_nothing_else(tmp_path, texts):
    """A folder that has only the lock file is accepted: the lock is written before training.json."""
    out = tmp_path / "out"
    out.mkdir()
    with FileLock(out / "training.lock"), ExitStack() as other:
        assert refusal(InputError, claim, out, texts, other) == (
            f"another training runs in {out}; wait for it, or train into another folder with --out."
        )
    (out / "training.lock").touch()
    with ExitStack() as training:
        claim(out, texts, training)
    assert (out / "training.json").is_file()


def test_a_folder_without_settings_takes_corrected_texts(tmp_path, texts, settled):
    claim(tmp_path / "out", texts)  # as in a training that refused its texts
    (tmp_path / "b").write_text("c")
    claim(tmp_path / "out", texts)
    write_config(tmp_path / "out", settled())
    claim(tmp_path / "out", texts)
    (tmp_path / "b").write_text("b")
    assert refusal(InputError, claim, tmp_path / "out", texts) == (
        f"cannot resume in {tmp_path / 'out'}: the target text {tmp_path / 'b'} is not the one that training began "
        "with; give the same files, or name a new folder with --out."
    )


def test_a_folder_with_other_files_is_refused(tmp_path, texts):
    out = tmp_path / "out"
    out.mkdir()
    names = ["cat.jpg", "config.toml", "dog.jpg", "eel.jpg"]
    for name in names:
        (out / name).touch()
    assert refusal(InputError, claim, out, texts) == (
        f"{out} is not empty and is not a training's folder: it has cat.jpg, config.toml, dog.jpg, …; "
        "name a new folder with --out."
    )
    assert sorted(path.name for path in out.iterdir()) == names


def test_a_file_where_the_folder_should_be(tmp_path, texts):
    assert refusal(InputError, claim, tmp_path / "a", texts) == (
        f"cannot train in {tmp_path / 'a'}: file exists; name another folder with --out."
    )


@pytest.mark.parametrize("method", ["read_bytes", "exists", "iterdir", "touch"])
def test_a_folder_that_may_not_be_used(tmp_path, texts, monkeypatch, method):
    out = tmp_path / "out"
    if method in ("read_bytes", "exists"):
        claim(out, texts)

    def refused(self, *given, **named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, method, refused)
    message = f"cannot train in {out}: permission denied; name another folder with --out."
    assert refusal(InputError, claim, out, texts) == message
    if method == "exists":
        assert refusal(InputError, stored_config, out) == message


def test_a_text_that_is_not_there(tmp_path, texts):
    assert refusal(InputError, claim, tmp_path / "out", texts | {"source": tmp_path / "c"}) == (
        f"there is no file {tmp_path / 'c'}; nearest: a, b."
    )
    assert not (tmp_path / "out").exists()


def test_texts_that_are_no_object(tmp_path, texts):
    out = tmp_path / "out"
    claim(out, texts)
    path = out / "training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"texts": 3}))
    assert refusal(InputError, claim, out, texts) == (
        f"{path} is damaged: texts must be an object; name a new folder with --out."
    )


def test_other_texts(tmp_path, texts, settled):
    out = tmp_path / "out"
    claim(out, texts)
    write_config(out, settled())
    more = texts | {"dev source": tmp_path / "a"}
    assert refusal(InputError, claim, out, more) == (
        f"cannot resume in {out}: there was no dev source text when training began; "
        "give the same files, or name a new folder with --out."
    )


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "regard training"}', "[" * 200_000])
def test_a_damaged_folder(tmp_path, texts, content):
    out = tmp_path / "out"
    out.mkdir()
    (out / "training.json").write_text(content)
    assert refusal(InputError, claim, out, texts) == (
        f"{out / 'training.json'} is damaged, or regard did not write it; name a new folder with --out."
    )


@pytest.fixture
def stored(settled):
    return settled(model=Model(preset="tiny", changes={"d_model": 64}), seed=3)


def test_settings_are_stored(tmp_path, stored):
    assert stored_config(tmp_path) is None
    (tmp_path / "config.toml").write_text("baseURL = 'https://example.org'")
    assert stored_config(tmp_path) is None  # somebody else's
    (tmp_path / "training.json").touch()
    write_config(tmp_path, stored)
    assert stored_config(tmp_path) == stored


@pytest.mark.usefixtures("without_type_checks")
def test_a_stored_setting_must_not_be_missing(tmp_path, stored):
    (tmp_path / "training.json").touch()
    write_config(tmp_path, stored)
    config = tmp_path / "config.toml"
    config.write_text(config.read_text().replace("batch_tokens = 100\n", ""))
    assert refusal(InputError, stored_config, tmp_path) == (
        "training.batch_tokens is missing: it must be a whole number."
    )


@pytest.mark.parametrize("said", [TrainConfig(), None, TrainConfig(training=Training(seed=3))])
def test_the_same_settings_or_none_are_no_change(tmp_path, stored, said):
    assert resumed_config(tmp_path, stored, said or stored) == stored


def test_what_may_change(tmp_path, stored):
    said = TrainConfig(training=Training(max_steps=200, max_minutes=1.5), evaluation=Evaluation(patience=7))
    resumed = resumed_config(tmp_path, stored, said)
    assert (resumed.training.max_steps, resumed.training.max_minutes, resumed.evaluation.patience) == (200, 1.5, 7)
    assert (resumed.training.seed, resumed.model) == (3, stored.model)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (TrainConfig(training=Training(seed=4)), "training.seed = 4: training began with 3"),
        (TrainConfig(model=Model(kind="recurrent")), "model.kind = recurrent: training began with transformer"),
        (TrainConfig(model=Model(changes={"d_model": 65})), "model.d_model = 65: training began with 64"),
        (TrainConfig(model=Model(changes={"n_layers": 2})), "model.n_layers = 2: training began with the preset's"),
    ],
)
def test_what_may_not_change(tmp_path, stored, said, words):
    assert refusal(InputError, resumed_config, tmp_path, stored, said) == (
        f"cannot resume in {tmp_path} with {words}; leave it out, or name a new folder with --out."
    )


def test_a_setting_that_is_given_with_its_default_value_counts(tmp_path, settled):
    model, evaluation = Model(kind="recurrent", changes={"cell": "gru"}), replace(settled().evaluation, log_steps=7)
    stored = replace(settled(model=model, label_smoothing=0.0), evaluation=evaluation)
    assert resumed_config(tmp_path, stored, read_config(stored=stored)) == stored
    again = resumed_config(tmp_path, stored, read_config(changes=["evaluation.log_steps=50"], stored=stored))
    assert again == replace(stored, evaluation=replace(evaluation, log_steps=50))
    for change, words in {
        "training.label_smoothing=0.1": "training.label_smoothing = 0.1: training began with 0.0",
        "model.kind=transformer": "model.kind = transformer: training began with recurrent",
        "model.cell=lstm": "model.cell = lstm: training began with gru",
    }.items():
        said = read_config(changes=[change], stored=stored)
        assert refusal(InputError, resumed_config, tmp_path, stored, said) == (
            f"cannot resume in {tmp_path} with {words}; leave it out, or name a new folder with --out."
        )


def test_the_last_step_of_a_cosine_may_not_change(tmp_path, settled):
    said = TrainConfig(training=Training(max_steps=200))
    assert refusal(InputError, resumed_config, tmp_path, settled(schedule="cosine"), said) == (
        f"cannot resume in {tmp_path} with another training.max_steps than 100: the cosine schedule ends there; "
        f"name a new folder with --out, which may start from this translator: --from {tmp_path}."
    )
