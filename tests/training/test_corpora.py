"""Training on several corpora: weights, synthetic pairs with a tag, dev pairs, exact resume, refusals."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cli_runner import output, refused
from refusals import refusal
from safetensors.torch import load_file
from training_listener import Listener

from regard import InputError
from regard.text.corpus import Corpus
from regard.text.sample import sample
from regard.training.data.corpora import TAG, text_files
from regard.training.settings.settings_file import as_toml, read_config
from regard.training.settings.train_config import Data
from regard.training.train import train
from regard.translation.translator_folder import read_translator

SYNTHETIC = {"weights": (1.0, 0.5), "synthetic": (2,), "max_ratio": 99.0}
TWO = "a,b", "c,d"


@pytest.fixture
def corpora(tmp_path):
    """Write a corpus of 60 pairs, and one of 40 synthetic pairs with sources in capitals; return the paths."""
    pairs = sample("en", "ko", {"train": 60, "more": 40}, seed=3, below=1000)
    for name, rows in pairs.items():
        for side, language in enumerate(("en", "ko")):
            lines = [row[side].upper() if name == "more" and side == 0 else row[side] for row in rows]
            (tmp_path / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [[tmp_path / f"{name}.{language}" for name in pairs] for language in ("en", "ko")]


def test_training_is_resumed_exactly(tmp_path, corpora, quick):
    config = quick(data=SYNTHETIC, max_steps=20, vocabulary={"bpe_dropout": 0.1})
    train(*corpora, tmp_path / "whole", config)
    assert train(*corpora, tmp_path / "stopped", config, watcher=Listener(6)).reason is None
    assert train(*corpora, tmp_path / "stopped", config, watcher=Listener(14)).reason is None
    assert train(*corpora, tmp_path / "stopped", config).step == 20
    whole, stopped = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


def test_synthetic_sources_begin_with_the_tag_and_dev_pairs_are_others(tmp_path, corpora, quick):
    train(*corpora, tmp_path / "out", quick(data=SYNTHETIC, max_steps=1))
    vocabulary = read_translator(tmp_path / "out").source_vocabulary
    (tag,) = vocabulary.encode(TAG)
    first, second = Corpus(tmp_path / "out" / "data" / "train"), Corpus(tmp_path / "out" / "data" / "train-2")
    assert {int(second.source[pair][0]) for pair in range(len(second))} == {tag}
    assert not any(tag in first.source[pair] for pair in range(len(first)))
    genuine = set(corpora[0][0].read_text().splitlines())
    dev = json.loads((tmp_path / "out" / "data" / "dev.json").read_text())
    assert dev
    assert all(source in genuine for source, _ in dev)
    assert "dev_pairs = 3" in (tmp_path / "out" / "config.toml").read_text()  # a twentieth of 60, not of 100
    assert read_translator(tmp_path / "out").target_vocabulary.unknown(TAG)


def test_a_synthetic_pair_with_the_target_of_a_dev_pair_is_left_out(tmp_path, corpora, quick):
    corpora[0][1].write_text("".join(f"{line.upper()}\n" for line in corpora[0][0].read_text().splitlines()))
    corpora[1][1].write_text(corpora[1][0].read_text())
    train(*corpora, tmp_path / "out", quick(data=SYNTHETIC, max_steps=1))
    data = tmp_path / "out" / "data"
    assert len(Corpus(data / "train")) == len(Corpus(data / "train-2")) == 57
    assert json.loads((data / "report.json").read_text())["held_out"] == 6


def test_the_report_counts_the_pairs_of_all_corpora(tmp_path, corpora, quick):
    train(*corpora, tmp_path / "out", quick(max_steps=1, data={"max_ratio": 99.0}))
    report = json.loads((tmp_path / "out" / "data" / "report.json").read_text())
    report.pop("unknown")  # it depends on the vocabulary
    assert {name: n for name, n in report.items() if n} == {"read": 100, "held_out": 5, "kept": 95}


def test_a_deleted_data_folder_is_made_again(tmp_path, corpora, quick):
    config = quick(data=SYNTHETIC, max_steps=1)
    train(*corpora, tmp_path / "out", config)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out" / "data").rglob("*.*")}
    shutil.rmtree(tmp_path / "out" / "data")
    train(*corpora, tmp_path / "out", config)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "data").rglob("*.*")} == before


def test_other_files_or_weights_are_refused_when_training_goes_on(tmp_path, corpora, quick):
    out, config = tmp_path / "out", quick(data=SYNTHETIC, max_steps=1)
    train(*corpora, out, config)
    first = corpora[0][0], corpora[1][0]
    assert refusal(InputError, train, *first, out, quick(data={"max_ratio": 99.0}, max_steps=1)) == (
        f"cannot resume in {out}: there was a source 2 text when training began; give the same files, or name a new "
        "folder with --out."
    )
    other = replace(config, data=replace(config.data, weights=(1.0, 2.0)))
    assert refusal(InputError, train, *corpora, out, other) == (
        f"cannot resume in {out} with data.weights = [1.0, 2.0]: training began with [1.0, 0.5]; leave it out, or name "
        "a new folder with --out."
    )
    corpora[0][1].write_text(corpora[0][1].read_text().lower())
    assert refusal(InputError, train, *corpora, out, config) == (
        f"cannot resume in {out}: the source 2 text {corpora[0][1]} is not the one that training began with; give the "
        "same files, or name a new folder with --out."
    )


@pytest.mark.parametrize(
    ("files", "data", "said"),
    [
        (
            ("a,b", "c"),
            {},
            "got 2 source files and 1 target file; give a target file for each source file, with commas between.",
        ),
        (("a", "b"), {"weights": (1.0, 0.3)}, "data.weights = [1.0, 0.3]: got 1 corpus; give a weight for each."),
        (TWO, {"weights": (2.0,)}, "data.weights = [2.0]: got 2 corpora; give a weight for each."),
        (TWO, {"synthetic": (3,)}, "data.synthetic = [3]: got 2 corpora; give numbers of corpora, from 1 to 2."),
        (
            TWO,
            {"dev_source": "c"},
            "there is a dev source and no dev target; give both: --dev-source and --dev-target.",
        ),
        (
            TWO,
            {"synthetic": (2, 1)},
            "data.synthetic names every corpus, and dev pairs are taken from the others; give pairs that people "
            "translated as a corpus, or as dev pairs with --dev-source and --dev-target.",
        ),
    ],
)
def test_corpora_that_do_not_fit_are_refused(files, data, said):
    assert refusal(InputError, text_files, *files, Data(**data)) == said


def test_files_have_the_names_that_messages_use(tmp_path):
    comma = tmp_path / "a,b.en"
    comma.write_text("x\n")
    dev = Data(dev_source="d", dev_target="e", synthetic=(1,))
    others = {"target": Path("c"), "dev source": Path("d"), "dev target": Path("e")}
    assert text_files(str(comma), "c", dev) == {"source": comma, **others}
    assert list(text_files("a,b", ["c", Path("d")], Data())) == ["source", "target", "source 2", "target 2"]


def test_settings_with_lists_are_read_and_written(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("[data]\nweights = [1.0, 0.3]\nsynthetic = [2]\n")
    config = read_config(file)
    assert (config.data.weights, config.data.synthetic) == ((1, 0.3), (2,))
    file.write_text(as_toml(config))
    assert read_config(file) == config
    assert read_config(None, ["data.weights=[2.0, 1.0]"]).data.weights == (2.0, 1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data.weights=0.3", "data.weights = 0.3: it must be a list, such as [1, 2]."),
        ("data.weights=[]", "data.weights = []: it must be a list, such as [1, 2]."),
        ("data.weights=[1, 0]", "data.weights = 0: it must be a number above 0."),
        ('data.weights=["a"]', 'data.weights = "a": it must be a number.'),
        ("data.synthetic=[0]", "data.synthetic = 0: it must be a whole number at least 1."),
    ],
)
@pytest.mark.usefixtures("without_type_checks")
def test_lists_out_of_range_are_refused(change, said):
    assert refusal(InputError, read_config, None, [change]) == said


def test_the_verb_trains_on_several_corpora(tmp_path, corpora, quick):
    (tmp_path / "config.toml").write_text(as_toml(quick(max_steps=1, data={"max_ratio": 99.0})))
    files = [",".join(map(str, paths)) for paths in corpora]
    options = "--weights", "1,0.5", "--synthetic", "2", "--config", tmp_path / "config.toml", "--quiet"
    printed = output("train", *files, "--out", tmp_path / "out", *options)
    assert printed.startswith("trained     1 steps: step 1 was to be the last (training.max_steps)\n")
    settings = read_config(tmp_path / "out" / "config.toml").data
    assert (settings.weights, settings.synthetic) == ((1.0, 0.5), (2,))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--weights", "1,x"), "--weights 1,x: write numbers with commas between, such as --weights 1,0.3."),
        (("--synthetic", "2.5"), "--synthetic 2.5: write numbers with commas between, such as --synthetic 2,3."),
    ],
)
def test_options_that_are_no_numbers_are_refused(tmp_path, options, said):
    assert refused("train", "a,b", "c,d", "--out", tmp_path / "out", *options) == said
