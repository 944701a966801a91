"""Training as a whole: it learns, resumes exactly after any kill, ends when it should, and refuses bad input."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from forked_programs import DIE_AT
from refusals import refusal
from safetensors.torch import load_file
from training_listener import Listener

from regard import InputError
from regard.tensor_file import read_tensors, write_tensors
from regard.text.vocabulary import Vocabulary
from regard.training import loop
from regard.training.settings.settings_file import as_toml
from regard.training.settings.train_config import TrainConfig
from regard.training.store.checksums import checksum
from regard.training.store.training_log import read_log
from regard.training.train import train
from regard.translation.search.greedy import Greedy
from regard.translation.translator import Translator

LAST = "step-8"
EXACT = ("checkpoints/step-8/model.safetensors", "checkpoints/step-8/optimiser.safetensors", "model.safetensors")
"""The files that must be equal bit for bit after equal trainings."""

UNRELIABLE = (
    "alignments come from the last layer but one (or the only one), mean over heads, the step that predicts the piece; "
    "they are unreliable: no target piece of the dev pairs depends on one source word"
)


def same(one, other, names=EXACT):
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def without_times(entries):
    return [{k: v for k, v in entry.items() if k not in ("elapsed_seconds", "tokens_per_second")} for entry in entries]


# It learns


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_few_sentences_are_learned_by_heart(tmp_path, quick, kind):
    pairs = [
        ("a snake", "뱀"),
        ("two snakes", "뱀 두 마리"),
        ("a dog", "개"),
        ("two dogs", "개 두 마리"),
        ("no dog", ""),
    ]
    for side, name in enumerate(("source", "target")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    files = tmp_path / "source", tmp_path / "target"
    config = quick(
        kind=kind,
        changes={"d_model": 32, "dropout": 0.0},
        data={"dev_source": str(files[0]), "dev_target": str(files[1])},
        evaluation={"every_steps": 60, "average": 1},
        max_steps=120,
        learning_rate=0.02,
        schedule="constant",
    )
    trained = train(*files, tmp_path / "out", config)
    assert trained.best.bleu == pytest.approx(100)
    found = Translator.load(tmp_path / "out").translate([source for source, _ in pairs[:4]], search=Greedy())
    assert [translation.text for translation in found] == [target for _, target in pairs[:4]]


def test_messages_and_files_of_a_training(tmp_path, texts, quick):
    listener = Listener()
    trained = train(*texts, tmp_path / "out", quick(), watcher=listener)
    assert listener.said == [
        "     60  pairs read\n      1  pairs of mismatched lengths, left out\n"
        "      3  pairs held out for evaluation\n     56  pairs to learn from",
        UNRELIABLE,
    ]
    assert [entry["step"] for entry in listener.reports] == [2, 3, 4, 6, 8]
    assert [entry["step"] for entry in listener.evaluations] == [3, 6, 8]
    assert (trained.step, trained.reason) == (8, "step 8 was to be the last (training.max_steps)")
    log = read_log(tmp_path / "out" / "log.jsonl")
    assert [entry["step"] for entry in log] == [2, 3, 3, 4, 6, 6, 8, 8]
    assert all(entry["loss_nats"] > 0 for entry in log if "loss_nats" in entry)
    best = max((entry for entry in log if "dev_bleu" in entry), key=lambda e: (e["dev_bleu"], -e["dev_loss_nats"]))
    assert (trained.best.step, trained.best.bleu) == (best["step"], best["dev_bleu"])
    assert json.loads((tmp_path / "out" / "translator.json").read_text())["extra"]["dev"]["step"] == trained.best.step
    assert sorted(path.name for path in (tmp_path / "out" / "checkpoints").iterdir()) == ["step-6", "step-8"]
    assert not list((tmp_path / "out").glob(".*"))


def test_evaluation_keep_last_keeps_the_last_parameters(tmp_path, texts, quick):
    evaluation = {"keep": "last", "metric": "loss", "average": 1}
    config = quick(learning_rate=10.0, schedule="constant", evaluation=evaluation)  # it gets worse
    trained = train(*texts, tmp_path / "out", config)
    assert trained.best.step < trained.kept.step == 8
    assert json.loads((tmp_path / "out" / "translator.json").read_text())["extra"]["dev"]["step"] == 8
    kept, last = (load_file(tmp_path / "out" / name) for name in ("model.safetensors", "snapshots/step-8.safetensors"))
    assert last
    assert all(torch.equal(kept[name], tensor) for name, tensor in last.items())


def test_the_same_seed_gives_the_same_training_and_another_does_not(tmp_path, texts, quick, trained):
    dropping = {"bpe_dropout": 0.1}
    trained(quick(), "plain")
    for name, seed, vocabulary in (("one", 1, dropping), ("again", 1, dropping), ("other", 2, dropping)):
        train(*texts, tmp_path / name, quick(seed=seed, vocabulary=vocabulary))
    same(tmp_path / "one", tmp_path / "again")
    assert len({(tmp_path / name / EXACT[0]).read_bytes() for name in ("plain", "one", "other")}) == 3


# It goes on exactly

KILLED_AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
import torch
from regard.training.settings.settings_file import read_config
from regard.training.train import train

torch.set_num_threads(1)
source, target, work, settings = map(Path, sys.argv[1:5])
config = read_config(settings)

def run(folder, nth):
    die_at(nth)
    train(source, target, folder, config)
    os._exit(0)

for name, nth in (("whole", 0), ("killed", 1)):  # 0: no process dies
    deaths = 0
    while True:
        child = os.fork() or run(work / name, nth)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 9:
            break
        deaths, nth = deaths + 1, nth + 7
    print(deaths)
    if status:
        sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked for every life")
@pytest.mark.slow
def test_a_training_killed_again_and_again_ends_the_same(tmp_path, texts, quick):
    """Each run is killed at a later call that renames or syncs a file, until one run reaches the end."""
    settings = tmp_path / "settings.toml"
    settings.write_text(as_toml(quick(vocabulary={"bpe_dropout": 0.1}, r_drop=5.0)))
    command = [sys.executable, "-c", DIE_AT + KILLED_AGAIN_AND_AGAIN, *map(str, (*texts, tmp_path, settings))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    deaths = [int(line) for line in done.stdout.splitlines()]
    assert deaths[0] == 0
    assert deaths[1] >= 10
    same(tmp_path / "whole", tmp_path / "killed")
    logs = [without_times(read_log(tmp_path / name / "log.jsonl")) for name in ("whole", "killed")]
    assert logs[0] == logs[1]


def test_stopped_by_ctrl_c_it_saves_and_goes_on(tmp_path, texts, quick, trained):
    """It is stopped before and after an evaluation, and at one, each time in the run that resumes the run before."""
    trained(quick(accumulate=2), "whole")
    said = []
    for step in (2, 4, 6):
        stopper = Listener(step)
        stopped = train(*texts, tmp_path / "stopped", quick(accumulate=2), watcher=stopper)
        assert stopped.reason is None
        assert stopper.said[-1] == "stopping after this step; a second signal stops at once"
        assert said in ([], stopper.said[:-1])
        assert step <= stopped.step <= step + 1
        said = [f"resuming from step {stopped.step:,}"]
    known, expected = (Translator.load(tmp_path / name, "cpu").training_texts for name in ("stopped", "whole"))
    assert known == expected is not None
    listener = Listener()
    assert train(*texts, tmp_path / "stopped", quick(accumulate=2), watcher=listener).step == 8
    assert listener.said == [*said, UNRELIABLE]
    same(tmp_path / "whole", tmp_path / "stopped")


def test_early_stopping_counts_on_after_every_resume(tmp_path, texts, quick):
    """With this learning rate the first evaluation remains the best; every run is stopped after two steps."""
    evaluation = {"every_steps": 2, "log_steps": 1, "patience": 2, "metric": "loss", "pairs": 1}
    config = quick(learning_rate=3.0, max_steps=50, schedule="constant", evaluation=evaluation)
    whole = train(*texts, tmp_path / "whole", config)
    assert whole.reason == "2 evaluations in a row were no better (evaluation.patience)"
    stopped, n_runs = train(*texts, tmp_path / "stopped", config, watcher=Listener(1)), 1
    while stopped.reason is None:
        stopped = train(*texts, tmp_path / "stopped", config, watcher=Listener(stopped.step + 1))
        n_runs += 1
    assert n_runs > 2
    assert (stopped.step, stopped.best, stopped.reason) == (whole.step, whole.best, whole.reason)
    states = [
        json.loads((tmp_path / name / f"checkpoints/step-{whole.step}/state.json").read_text())
        for name in ("whole", "stopped")
    ]
    assert without_times(states[:1]) == without_times(states[1:])
    same(tmp_path / "whole", tmp_path / "stopped", [name.replace(LAST, f"step-{whole.step}") for name in EXACT])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (EXACT[0], " is damaged: model.safetensors has "),
        ("snapshots/step-8.safetensors", "snapshots/step-8.safetensors has changed since "),
    ],
)
def test_a_checkpoint_whose_file_or_snapshot_is_damaged_is_skipped(texts, quick, trained, name, words):
    out, whole = trained(quick()), trained(quick(), "whole")
    (out / name).write_bytes((out / name).read_bytes()[:-5])
    listener = Listener()
    train(*texts, out, quick(), watcher=listener)
    assert words in listener.said[0]
    assert listener.said[0].endswith("Going on from step 6.")
    assert listener.said[1:] == ["resuming from step 6"]
    same(whole, out)


def test_the_data_may_be_deleted_and_more_steps_added(texts, quick, trained):
    whole, out = trained(quick(schedule="constant"), "whole"), trained(quick(schedule="constant", max_steps=3))
    shutil.rmtree(out / "data")
    train(*texts, out, quick(schedule="constant", max_steps=8))
    same(whole, out)


def test_a_changed_vocabulary_is_refused(texts, quick, trained, monkeypatch):
    config, real = quick(max_steps=1), Vocabulary.train
    out = trained(config)
    shutil.rmtree(out / "data")
    monkeypatch.setattr(Vocabulary, "train", lambda lines, *given, **named: real(["zero", *lines], *given, **named))
    place = out / "checkpoints" / "step-1"
    assert refusal(InputError, train, *texts, out, config) == (
        f"data/source.spm has changed since {place} was saved (its SHA-256 differs). "
        "There is no other checkpoint; train into another folder with --out."
    )
    assert place.is_dir()


def test_a_checkpoint_of_another_model_is_refused(texts, quick, trained):
    out = trained(quick(max_steps=1))
    settings = (out / "config.toml").read_text()
    for old, new, name, has, asked in (
        ("n_layers = 1", "n_layers = 2", "encoder.blocks.1.", "nothing", ""),
        ("d_ff = 16", "d_ff = 17", "encoder.blocks.0.feed_forward.", "the shape (16, 16)", "(17, 16)"),
    ):
        assert old in settings
        (out / "config.toml").write_text(settings.replace(old, new))
        message = refusal(InputError, train, *texts, out, TrainConfig())
        assert message.startswith(f"the checkpoint is of another model: for model.{name}")
        assert f" it has {has}, and the settings ask for the shape {asked}" in message
        assert message.endswith("restore the folder's config.toml, or train into another folder with --out.")
    (out / "config.toml").write_text(settings)
    rewritten(out, 1, "model.safetensors", to_whole_numbers)
    message = refusal(InputError, train, *texts, out, TrainConfig())
    assert " it has numbers of the type torch.int32, and the settings ask for the shape (" in message


def to_whole_numbers(path):
    tensors, _ = read_tensors(path)
    write_tensors(path, {name: tensor.int() for name, tensor in tensors.items()})


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("dev.json", None, "[Errno 2] No such file or directory: '{data}/dev.json'"),
        ("dev.json", "[]", "dev.json has no pairs of texts"),
        ("dev.json", '[["a", 1]]', "dev.json has no pairs of texts"),
        ("dev.json", "[", "Expecting value: line 1 column 2 (char 1)"),
        ("source.spm", "", "{data}/source.spm is not a SentencePiece model, or is damaged"),
        ("target.spm", None, "cannot read the vocabulary {data}/target.spm: no such file or directory"),
        ("train/corpus.json", "{}", "{data}/train is not a corpus, or is damaged ('pairs')"),
    ],
)
def test_damaged_data_is_refused(texts, quick, trained, name, content, why):
    config = quick(max_steps=1)
    out = trained(config)
    if content is None:
        (out / "data" / name).unlink()
    else:
        (out / "data" / name).write_text(content)
    assert refusal(InputError, train, *texts, out, config) == (
        f"{out / 'data'} is damaged ({why.format(data=out / 'data')}); delete it, and the same command makes it again."
    )


def rewritten(out, step, name, change):
    """Change a file of a checkpoint, and update its checksum in the manifest."""
    checkpoint = out / "checkpoints" / f"step-{step}"
    change(checkpoint / name)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"][name] = checksum(checkpoint / name)
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    return checkpoint


def test_a_checkpoint_with_a_damaged_state_is_refused(texts, quick, trained):
    out = trained(quick(max_steps=1))
    folder = rewritten(out, 1, "state.json", lambda path: path.write_text('{"position": {"step": "1"}}'))
    assert refusal(InputError, train, *texts, out, quick(max_steps=1)) == (
        f"{folder} is damaged: its state.json is not what regard writes (TypeError step='1' must be int); delete that "
        "folder, and training resumes from the checkpoint before it."
    )


# It ends


def test_the_scores_of_the_finished_translator_are_calibrated_on_the_dev_pairs(tmp_path, texts, quick):
    config = quick(data={"dev_source": str(texts[0]), "dev_target": str(texts[1])}, evaluation={"pairs": 25})
    train(*texts, tmp_path / "out", config)
    translator, sources = Translator.load(tmp_path / "out", "cpu"), texts[0].read_text().splitlines()
    dev = json.loads((tmp_path / "out" / "data" / "dev.json").read_text())
    expected = translator.calibrated(*map(list, zip(*dev, strict=True)))
    assert len(dev) == 25
    assert translator.calibration == expected.calibration is not None
    assert translator.usual == expected.usual is not None
    assert translator.training_texts.longest == max(len(translator.source_vocabulary.encode(text)) for text in sources)
    assert translator.training_texts.scripts == ("Latin letters",)


def test_an_ended_training_has_nothing_to_do_and_is_not_measured_again(texts, quick, trained):
    """There are too few dev pairs for a calibration."""
    out = trained(quick())
    translator = Translator.load(out, "cpu")
    assert (translator.calibration, translator.extra["calibration"]) == (None, None)
    log, written = (out / "log.jsonl").read_bytes(), (out / "translator.json").stat().st_mtime_ns
    again = train(*texts, out, quick())
    assert (again.step, again.reason) == (8, "step 8 was to be the last (training.max_steps)")
    assert again.kept == again.best is not None
    assert (out / "log.jsonl").read_bytes() == log
    assert (out / "translator.json").stat().st_mtime_ns == written


def test_training_ends_when_its_minutes_are_over(tmp_path, texts, quick):
    trained = train(*texts, tmp_path / "out", quick(max_steps=100_000, max_minutes=0.005))
    assert trained.reason == "its 0.005 minutes are over (training.max_minutes)"
    log = read_log(tmp_path / "out" / "log.jsonl")
    assert log[-1]["step"] == trained.step
    assert "dev_bleu" in log[-1]


def test_a_loss_that_diverges_is_refused(tmp_path, texts, quick, monkeypatch):
    real = loop.train_step
    monkeypatch.setattr(
        loop, "train_step", lambda run, batches, step: real(run, batches, step) * (1 if step < 4 else torch.nan)
    )
    assert refusal(InputError, train, *texts, tmp_path / "out", quick()) == (
        "the loss is nan at step 4: training has diverged. Train into another folder with a lower "
        "training.learning_rate, a longer training.warmup_steps or a smaller training.clip_norm."
    )


# What is refused


def test_settings_that_do_not_make_a_model_are_refused(tmp_path, texts, quick):
    assert refusal(InputError, train, *texts, tmp_path / "out", quick(changes={"d_model": 15})).startswith(
        "the settings of [model] are not valid: d_model=15 does not split evenly into n_heads=2;"
    )
    assert not (tmp_path / "out").exists()


def test_too_few_different_sources_are_refused(tmp_path, quick):
    (tmp_path / "a").write_text("hello\n" * 100)
    (tmp_path / "b").write_text("".join(f"{n}\n" for n in range(100)))
    assert refusal(InputError, train, tmp_path / "a", tmp_path / "b", tmp_path / "out", quick()) == (
        f"{tmp_path / 'a'} and {tmp_path / 'b'} have 100 pairs with 1 different source; with data.dev_pairs = 5 no "
        "training pair is left: give more pairs, a smaller data.dev_pairs, or separate dev pairs with --dev-source and "
        "--dev-target."
    )


def test_dev_pairs_of_which_none_can_be_used_are_refused(tmp_path, texts, quick):
    (tmp_path / "dev.en").write_text(f"{'one ' * 99}\n\none\n")
    (tmp_path / "dev.ko").write_text("일\n이\n\n")
    data = {"dev_source": str(tmp_path / "dev.en"), "dev_target": str(tmp_path / "dev.ko"), "max_tokens": 90}
    assert refusal(InputError, train, *texts, tmp_path / "out", quick(data=data)) == (
        "no pair is left for evaluation: 2 empty, 1 too long; give other files, or a larger data.max_tokens or "
        "data.max_ratio."
    )
    assert not (tmp_path / "out").exists()


def test_a_refused_training_leaves_a_folder_as_it_was(tmp_path, texts, quick):
    out = tmp_path / "parent" / "out"
    out.mkdir(parents=True)
    with pytest.raises(InputError):
        train(*texts, out, quick(changes={"d_model": 15}))
    assert list(out.iterdir()) == []
    assert train(*texts, out, quick(max_steps=1)).step == 1
    before = sorted(out.rglob("*"))
    with pytest.raises(InputError, match="cannot resume"):
        train(*texts, out, quick(seed=4))
    assert sorted(out.rglob("*")) == before


@pytest.mark.parametrize(
    ("kind", "changes"), [("transformer", {"positions": "learned"}), ("recurrent", {"score": "location"})]
)
def test_sentences_that_do_not_fit_into_the_model_are_left_out(tmp_path, texts, quick, kind, changes):
    train(*texts, tmp_path / "out", quick(kind=kind, changes={**changes, "max_tokens": 16}))
    assert "max_tokens = 15\n" in (tmp_path / "out" / "config.toml").read_text()
    assert json.loads((tmp_path / "out" / "data" / "report.json").read_text())["over_long"] > 0
    longer = quick(kind=kind, changes={"max_tokens": 16}, data={"max_tokens": 16})
    message = refusal(InputError, train, *texts, tmp_path / "more", longer)
    assert message.startswith("data.max_tokens = 16 does not fit model.max_tokens = 16: ")
    assert not (tmp_path / "more" / "data").exists()


def test_the_largest_seed_and_paths_as_texts(tmp_path, texts, quick):
    trained = train(*map(str, texts), str(tmp_path / "out"), quick(seed=2**63 - 2, max_steps=1))
    assert (trained.step, trained.folder) == (1, Path(tmp_path / "out"))
