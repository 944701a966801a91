"""Tests of COMET with a fake package unbabel-comet: the texts it gets, the use of its scores, every refusal."""

import sys
from types import SimpleNamespace

import pytest
from refusals import refusal

from regard import InputError
from regard.evaluation import comet as room
from regard.evaluation.comet import comet_score
from regard.evaluation.evaluate import evaluate

SOURCE, REFERENCE = ["ein Hund", "eine Katze"], ["a dog", "a cat"]


@pytest.fixture
def package(monkeypatch):
    """Install a fake package, whose score is the share of words common to the translation and the reference."""
    seen = []

    def predict(samples, batch_size, gpus, progress_bar):
        seen.extend(samples)
        shares = [len(set(s["mt"].split()) & set(s["ref"].split())) / len(s["ref"].split()) for s in samples]
        return SimpleNamespace(scores=shares)

    module = SimpleNamespace(
        download_model=lambda name: f"downloaded {name}",
        load_from_checkpoint=lambda path: seen.append(path) or SimpleNamespace(predict=predict),
    )
    monkeypatch.setitem(sys.modules, "comet", module)
    monkeypatch.setattr(room, "version", lambda package: "2.2.7")
    return SimpleNamespace(seen=seen, module=module)


def test_comet_reads_source_translation_and_first_reference(package):
    found = evaluate(["a dog", "the cat"], REFERENCE, ["x", "y"], source=SOURCE, comet="Unbabel/wmt22-comet-da")
    score = found.scores[-1]
    assert (score.name, score.value, score.comparison) == ("COMET", 75.0, None)
    assert score.signature == "COMET|model:wmt22-comet-da|version:2.2.7"
    assert package.seen == [
        "downloaded Unbabel/wmt22-comet-da",
        {"src": "ein Hund", "mt": "a dog", "ref": "a dog"},
        {"src": "eine Katze", "mt": "the cat", "ref": "a cat"},
    ]


def test_a_checkpoint_file_is_not_downloaded(package, tmp_path):
    (tmp_path / "model.ckpt").touch()
    comet_score(str(tmp_path / "model.ckpt"), SOURCE, REFERENCE, REFERENCE)
    assert package.seen[0] == str(tmp_path / "model.ckpt")


def test_two_systems_are_compared(package):
    better, worse = REFERENCE * 30, ["no dog", "no cat"] * 30
    score = comet_score("m", SOURCE * 30, better, REFERENCE * 30, worse)
    assert (score.value, score.comparison.other) == (100.0, 50.0)
    assert score.comparison.interval == score.comparison.other_interval == 0
    same = comet_score("m", SOURCE * 30, worse, REFERENCE * 30, worse)
    assert score.comparison.p_value < 0.01 < same.comparison.p_value == 1


def test_missing_sources_models_and_packages_are_refused(package, monkeypatch):
    assert refusal(InputError, evaluate, REFERENCE, REFERENCE, comet="m") == (
        "COMET reads the source sentences too, and there are none; give them with --source (source=)."
    )

    def fail(name):
        raise KeyError("Model 'm' not supported by COMET.")

    monkeypatch.setattr(package.module, "download_model", fail)
    assert refusal(InputError, comet_score, "m", SOURCE, REFERENCE, REFERENCE) == (
        "COMET cannot load the model m: KeyError \"Model 'm' not supported by COMET.\"."
    )
    monkeypatch.setitem(sys.modules, "comet", None)
    assert refusal(InputError, comet_score, "m", SOURCE, REFERENCE, REFERENCE) == (
        "COMET needs the package unbabel-comet, which is not installed; install it with pip install unbabel-comet."
    )
