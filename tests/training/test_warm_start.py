"""Tests of fine-tuning: a training that starts with the parameters, model and vocabularies of a translator."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from refusals import refusal
from safetensors.torch import load_file
from training_listener import Listener

from regard import InputError
from regard.training.settings.settings_file import read_config
from regard.training.train import train
from regard.translation.translator_folder import read_translator


@pytest.fixture(params=["transformer", "recurrent"])
def first(request, quick, trained):
    return trained(quick(kind=request.param), "first")


def parameters(folder):
    return load_file(folder / "model.safetensors")


def test_training_starts_with_the_translators_parameters_model_and_vocabularies(tmp_path, texts, onwards, first):
    train(*texts, tmp_path / "more", onwards(first, learning_rate=1e-9))
    one, other = read_translator(first), read_translator(tmp_path / "more")
    assert one.model.config == other.model.config
    assert (one.source_vocabulary, one.target_vocabulary) == (other.source_vocabulary, other.target_vocabulary)
    before, after = parameters(first), parameters(tmp_path / "more")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(tensor, after[name], rtol=0, atol=1e-7)


def test_training_is_resumed_exactly_without_the_translators_folder(tmp_path, texts, onwards, first):
    config = onwards(first, max_steps=6)
    train(*texts, tmp_path / "whole", config)
    assert train(*texts, tmp_path / "stopped", config, watcher=Listener(2)).reason is None
    shutil.rmtree(first)
    assert train(*texts, tmp_path / "stopped", config).step == 6
    whole, stopped = parameters(tmp_path / "whole"), parameters(tmp_path / "stopped")
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


def test_the_learning_rate_is_a_fifth_and_dropout_may_change(tmp_path, texts, onwards, first):
    config = onwards(first)
    config = replace(config, model=replace(config.model, changes={"dropout": 0.25}))
    train(*texts, tmp_path / "more", config)
    settings = (tmp_path / "more" / "config.toml").read_text()
    assert "learning_rate = 0.0004" in settings
    assert "dropout = 0.25" in settings
    assert read_translator(tmp_path / "more").model.config.dropout == 0.25


@pytest.mark.parametrize("first", ["transformer"], indirect=True)
def test_the_data_folder_is_on_the_disk_before_it_is_renamed(tmp_path, texts, onwards, first, monkeypatch):
    synced, named, fsync, rename = set(), {}, os.fsync, Path.replace

    def counted(opened):
        fsync(opened)
        synced.add(os.fstat(opened).st_ino)

    def replace_(path, target):
        if target.name == "data":
            named.update({at.relative_to(path): at.stat().st_ino in synced for at in (path, *path.rglob("*"))})
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", counted)
    monkeypatch.setattr(Path, "replace", replace_)
    train(*texts, tmp_path / "more", onwards(first))
    assert {Path(), *map(Path, ("start.safetensors", "source.spm", "train", "train/source.ids"))} <= set(named)
    assert [str(path) for path, there in named.items() if not there] == []


@pytest.mark.parametrize("first", ["recurrent"], indirect=True)
def test_settings_of_the_translators_kind_are_valid(first):
    """Settings of a recurrent translator need not say that it is one."""
    start = f"model.start_from={first}"
    assert read_config(None, [start, "model.form=bahdanau"]).model.kind == "recurrent"
    for settings, name, nearest in (
        ([start, "model.d_ff=7"], "d_ff", "kind"),
        (["model.start_from=gone", "model.form=bahdanau"], "form", "norm"),
    ):
        message = f"there is no setting model.{name}; nearest: model.{nearest}."
        assert refusal(InputError, read_config, None, settings) == message
    assert refusal(InputError, read_config, None, [start, "model.kind=transformer"]) == (
        f"model.kind = transformer: training begins with {first}, which has recurrent; leave it out, or train a new "
        "translator."
    )


@pytest.mark.parametrize("first", ["transformer"], indirect=True)
@pytest.mark.parametrize(
    ("section", "values", "said", "own"),
    [
        ("model", {"changes": {"d_model": 32}}, "model.d_model = 32", "16"),
        ("model", {"kind": "recurrent"}, "model.kind = recurrent", "transformer"),
        ("model", {"kind": "recurrent", "changes": {"form": "luong"}}, "model.kind = recurrent", "transformer"),
        ("model", {"preset": "small"}, "model.preset = small", "a size of its own"),
        ("vocabulary", {"n_tokens": 99}, "vocabulary.n_tokens = 99", "40"),
        ("vocabulary", {"joint": True}, "vocabulary.joint = True", "False"),
        ("vocabulary", {"coverage": 0.99}, "vocabulary.coverage = 0.99", "its own"),
        ("vocabulary", {"byte_fallback": True}, "vocabulary.byte_fallback = True", "its own"),
    ],
)
def test_settings_that_contradict_the_translator_are_refused(
    tmp_path, texts, onwards, first, section, values, said, own
):
    config = onwards(first)
    config = replace(config, **{section: replace(getattr(config, section), **values)})
    assert refusal(InputError, train, *texts, tmp_path / "more", config) == (
        f"{said}: training begins with {first}, which has {own}; leave it out, or train a new translator."
    )


def test_a_folder_without_a_translator_is_refused(tmp_path, texts, onwards):
    assert refusal(InputError, train, *texts, tmp_path / "more", onwards(tmp_path / "nothing")) == (
        f"{tmp_path / 'nothing'} does not exist; give the folder that regard train wrote with --out."
    )


def test_pairs_with_letters_without_a_piece_are_counted(tmp_path, texts, onwards, first):
    listener = Listener()
    lines = texts[0].read_text().splitlines()
    texts[0].write_text("".join(f"{line}{' ẞ' if n % 20 == 0 else ''}\n" for n, line in enumerate(lines)))
    train(*texts, tmp_path / "more", onwards(first), watcher=listener)
    assert listener.said[0].splitlines()[-1] == "      3  of these, pairs with a letter that is not in the vocabulary"
