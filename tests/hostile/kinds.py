"""The kinds of files that regard reads: for each, a function that writes a valid file, and one that uses a file.

A new kind of file gets a row in `KINDS`.
"""

import gzip
import json
import tarfile
import wave
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from hostile.traces import (
    TRACE,
    show_states,
    show_statistics,
    show_trace,
    tiny_bert,
    write_answered_trace,
    write_picture_trace,
    write_sound_trace,
    write_trace,
    write_trace_with_states,
)
from marian_folder import write_marian
from trained_translator import PAIRS, new_transformer, train_vocabularies

import regard
from regard.by_hand.inputs_file import read_inputs
from regard.by_hand.work_out import work_out
from regard.cli.media_files import read_picture
from regard.cli.text_lines import read_file_lines
from regard.explore.question import Question
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.serve.question import texts_of
from regard.site.runtime import FILE, read_given
from regard.text.foreign_vocabulary import vocabulary_from_model
from regard.text.parallel import clean_lines
from regard.tracing.media.wave_file import read_wave
from regard.tracing.model_loading import load
from regard.tracing.scan import Scan
from regard.training.back_translation import BackTranslation
from regard.training.settings.settings_file import read_config
from regard.training.settings.train_config import Data, Evaluation, Model, TrainConfig, Training, VocabularySettings
from regard.training.store.checkpoint import latest_checkpoint, save_checkpoint
from regard.training.store.checksums import checksum
from regard.training.train import train
from regard.training.watcher import Watcher
from regard.translation.marian_folder import read_any_translator
from regard.translation.search.greedy import Greedy
from regard.translation.translator import Translator
from regard.views.terminal.matrices import show as show_matrices


@dataclass(frozen=True, slots=True)
class Kind:
    write: Callable[[Path], object]
    """Writes the files of this kind into an empty folder."""

    use: Callable[[Path], object]
    """Reads the files of a folder, and does with the object what a user would do."""

    damaged: Callable[[str], bool] = lambda name: True
    """A function of a file's name: True = damage this file of the folder, False = leave it as it is."""

    seal: Callable[[Path], object] = lambda folder: None
    """A function that corrects checksums of damaged files that other files have; used in half of the cases."""

    is_slow: bool = False
    """Whether a case takes a tenth of a second or more; then only a tenth of the cases is run."""


# Translators


def write_translator(folder):
    source, target = train_vocabularies()
    Translator(model=new_transformer(source, target), source_vocabulary=source, target_vocabulary=target).save(folder)


def write_recurrent(folder):
    torch.manual_seed(0)
    source, target = train_vocabularies()
    sizes = {"n_source_tokens": len(source), "n_target_tokens": len(target), "d_model": 16}
    model = Recurrent(RecurrentConfig(**sizes)).eval()
    Translator(model=model, source_vocabulary=source, target_vocabulary=target).save(folder)


def translate(folder):
    """Load a translator and translate a line with it."""
    translator = Translator.load(folder)
    repr(translator)
    found = translator.translate(["the cat sat", ""], search=Greedy())
    found[0].alignment.pairs  # noqa: B018 (computes them)


def write_marian_folder(folder):
    folder.rmdir()
    write_marian(folder)


# Trainings


def texts_beside(folder):
    """Write the two texts of a training beside its folder, and return their paths."""
    paths = [folder.parent / name for name in ("a.en", "a.de")]
    for path, lines in zip(paths, (PAIRS.keys(), PAIRS.values()), strict=True):
        path.write_text("".join(f"{line} {number}\n" for number in range(9) for line in lines), encoding="utf-8")
    return paths


def training_config(max_steps):
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    return TrainConfig(
        data=Data(dev_pairs=4),
        vocabulary=VocabularySettings(n_tokens=60),
        model=Model(preset="tiny", changes=sizes),
        training=Training(max_steps=max_steps, batch_tokens=100, warmup_steps=2, schedule="constant"),
        evaluation=Evaluation(every_steps=2, log_steps=1, pairs=2, average=2),
    )


def write_training(folder):
    train(*texts_beside(folder), folder, training_config(2), device="cpu")


def resume_training(folder):
    train(*(folder.parent / name for name in ("a.en", "a.de")), folder, training_config(3), device="cpu")


def of_training(name):
    """Return whether a training reads the file with this name when it is resumed."""
    return not name.startswith(("tensorboard/", "translator", "model.", "source.", "target.")) and "lock" not in name


def seal_checkpoints(folder):
    """Correct the sizes and checksums in the manifests of a folder's checkpoints, if the manifests can be read."""
    for path in folder.glob("**/step-*/manifest.json"):
        try:
            manifest = json.loads(path.read_bytes())
            for part, base in (("files", path.parent), ("beside", path.parents[2])):
                for name in manifest[part]:
                    manifest[part][name] = checksum(base / name)
        except (ValueError, TypeError, KeyError, OSError, RecursionError):
            continue
        path.write_text(json.dumps(manifest))


def write_checkpoints(folder):
    for step in (5, 20):
        save_checkpoint(
            folder / "c", step, {"model": {"a": torch.ones(3)}, "optimiser": {"b": torch.ones(2)}}, {"n": 1}
        )


def read_checkpoints(folder):
    checkpoint = latest_checkpoint(folder / "c", lambda text: None)
    assert checkpoint is None or checkpoint.folder.name in ("step-5", "step-20")


def write_back_translation(folder):
    write_translator(folder / "translator")
    (folder / "text.txt").write_text("the cat sat\na dog ran\n" * 3)
    run = back_translation(folder)
    state = run.earlier_state(Watcher())
    translator = Translator.load(run.translator)
    run.translate_from(state, 6, translator, Watcher(), lambda: (run.folder / "source").stat().st_size > 0)


def back_translation(folder):
    names = {"translator": "translator", "text": "text.txt", "source": "out.a", "target": "out.b"}
    return BackTranslation(**{name: folder / file for name, file in names.items()}, search=Greedy())


def resume_back_translation(folder):
    back_translation(folder).run("cpu", Watcher())


# Vocabularies, corpora, scans, models, media


def write_vocabularies(folder):
    for name, vocabulary in zip(("a.spm", "b.spm"), train_vocabularies(), strict=True):
        vocabulary.save(folder / name)


def use_vocabularies(folder):
    for name in ("a.spm", "b.spm"):
        vocabulary = vocabulary_from_model(folder / name)
        vocabulary.decode(vocabulary.encode("the cat saß auf 뱀"))
        vocabulary.scores()


NUMBERS = """
title = "two words"
source = "by hand"
x = [[1, 0], [0.5, 2]]
tokens = ["a", "b"]
memory = [[1, 1], [0, 2], [1.5, 1]]
memory_tokens = ["c", "d", "e"]
W_q = [[1, 0], [0, 1]]
b_q = [0, 1]
W_k = [[1, 2], [0, 1]]
W_v = [[1, 0], [1, 1]]
W_o = [[1, 0], [0, 1]]
n_heads = 2
scale = 0.5
temperature = 0.7
mask = [[true, true, false], [true, false, true]]
"""


def write_numbers(folder):
    (folder / "n.toml").write_text(NUMBERS)


def work_out_numbers(folder):
    show_matrices(work_out(read_inputs(folder / "n.toml")))


def write_runtime(folder):
    (folder / "package").mkdir()
    (folder / "package" / FILE).write_bytes(b"javascript" * 99)
    with tarfile.open(folder / "runtime.tgz", "w:gz") as archive:
        archive.add(folder / "package" / FILE, f"package/dist/{FILE}")


def write_requests(folder):
    cut, sharpen = {"query": 1, "key": 0, "heads": ["L0H1"]}, {"head": "L0H1", "temperature": 0.5}
    question = {"text": "the cat", "new_tokens": 3, "changes": [{"kind": "cut", **cut}, {"kind": "sharpen", **sharpen}]}
    (folder / "question.json").write_text(json.dumps(question))
    (folder / "request.json").write_text(json.dumps({"texts": ["the cat", "a dog"]}))


def answer_requests(folder):
    """Read requests as the servers of `regard explore` and `regard serve` do."""
    for name in ("question.json", "request.json"):
        try:
            content = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue  # the servers say that a request is JSON
        if name == "request.json":
            texts_of(content)
        else:
            Question.of(content).change_objects()


LINES = "".join(f"{line}\n" for line in PAIRS)


def write_corpora(folder):
    (folder / "a.txt").write_text(LINES)
    (folder / "b.txt.gz").write_bytes(gzip.compress(LINES.encode()))


def read_corpora(folder):
    """Read the texts as `regard scan` does, and as `regard train` does."""
    for name in ("a.txt", "b.txt.gz"):
        read_file_lines(folder / name)
        for _ in clean_lines(folder / name):
            pass


def write_scan(folder):
    model, tokenizer = tiny_bert(folder / "model")
    scan = Scan("m")
    for _ in scan.read(regard.tracing.model_loading.LoadedModel("m", model, tokenizer), ["the cat", "a mat"]):
        pass
    scan.save(folder / "scan.progress")


def resume_scan(folder):
    scan = Scan.load(folder / "scan.progress", "m")
    if scan is not None:
        repr(scan.roles())
        scan.save(folder / "scan.progress")
        assert asdict(scan)["n_lines"] >= 0


def look_at_model(folder):
    loaded = load(str(folder))
    regard.trace(loaded.model, "the cat sat on cats", tokenizer=loaded.tokenizer).show()


def write_media(folder):
    from PIL import Image

    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8))
    for name in ("a.png", "a.jpg", "a.gif", "a.webp"):
        picture.save(folder / name)
    with wave.open(str(folder / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.arange(1_000, dtype="<i2").tobytes())


def read_media(folder):
    for path in sorted(folder.iterdir()):
        samples = read_wave(path)[0] if path.suffix == ".wav" else np.asarray(read_picture(path))
        assert samples.size < 10**6


SETTINGS = """
[training]
seed = 3
max_steps = 100
[model]
d_model = 64
dropout = 0.1
"""

KINDS = {
    "trace": Kind(write_trace, show_trace),
    "trace of a picture": Kind(write_picture_trace, show_trace),
    "trace of a sound": Kind(write_sound_trace, show_trace),
    "trace of statistics": Kind(write_answered_trace, show_statistics, lambda name: name == TRACE),
    "trace with states": Kind(write_trace_with_states, show_states, lambda name: name == TRACE),
    "translator": Kind(write_translator, translate),
    "recurrent translator": Kind(write_recurrent, translate),
    "Marian model": Kind(write_marian_folder, read_any_translator, is_slow=True),
    "checkpoints": Kind(write_checkpoints, read_checkpoints, seal=seal_checkpoints),
    "training": Kind(write_training, resume_training, of_training, seal_checkpoints, is_slow=True),
    "back-translation": Kind(
        write_back_translation,
        resume_back_translation,
        lambda name: name.startswith(".out.b.back-translation"),
        is_slow=True,
    ),
    "vocabularies": Kind(write_vocabularies, use_vocabularies),
    "corpora": Kind(write_corpora, read_corpora),
    "scan": Kind(write_scan, resume_scan, lambda name: name == "scan.progress"),
    "model": Kind(tiny_bert, look_at_model, is_slow=True),
    "media": Kind(write_media, read_media),
    "runtime of a site": Kind(write_runtime, lambda folder: read_given(folder / "runtime.tgz")),
    "requests": Kind(write_requests, answer_requests),
    "numbers": Kind(write_numbers, work_out_numbers),
    "settings": Kind(
        lambda folder: (folder / "s.toml").write_text(SETTINGS), lambda folder: read_config(folder / "s.toml")
    ),
}
"""Every kind of file, by its name in the tests."""
