"""The kinds of files that regard reads: how a good one is written, and what a user does with a damaged one.

A new kind of file gets a row in `KINDS`.
"""

import gzip
import json
import wave
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from marian_folder import write_marian
from trained_translator import PAIRS, new_transformer, train_vocabularies
from transformers import BertConfig, BertModel, BertTokenizer

import regard
from regard import Ask, Causal, Cut, RelativeBias, ScaledDot, Sharpen, Softmax, Trace, attend
from regard.attention.masks import Padding, Window
from regard.by_hand.numbers_file import read_numbers
from regard.by_hand.work_out import work_out
from regard.cli.media_files import read_picture, read_wave
from regard.cli.text_lines import read_file_lines
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.text.foreign_vocabulary import own_vocabulary
from regard.text.parallel import tidy_lines
from regard.tracing.model_loading import load
from regard.tracing.places import Frame, Patch
from regard.tracing.readable_tokens import Token
from regard.tracing.scan import Scan
from regard.tracing.writing import WrittenToken
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
    """A kind of file, or of folder."""

    write: Callable[[Path], object]
    """Writes the files of this kind into an empty folder."""

    use: Callable[[Path], object]
    """Reads the files of a folder, and does with the object what a user would do."""

    damaged: Callable[[str], bool] = lambda name: True
    """Says by its name whether a file of the folder is damaged; the others stay as they are."""

    seal: Callable[[Path], object] = lambda folder: None
    """Writes the checksums that are in other files again, in every second case."""

    is_slow: bool = False
    """Whether a case takes a tenth of a second; a tenth of the cases is tried."""


# Traces

TRACE = "t.safetensors"


def trace_of(source, target=(), **fields):
    """A trace of these tokens with attention of three kinds of masks and scores, and encoder or all of three."""
    torch.manual_seed(0)
    n, m = len(source), len(target)
    query, key, value = torch.randn(1, 4, n, 8), torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 3)
    bias = RelativeBias(4, n_buckets=4, max_distance=5)
    attended = {
        "encoder": {
            0: attend(query, key, value, mask=Window(2, 1) & Padding(torch.tensor([n - 1]))),
            1: attend(query, key, value, score=ScaledDot(bias=bias), normalise=Softmax(sinks=torch.zeros(4))),
        }
    }
    if target:
        asked = torch.randn(1, 4, m, 8)
        attended["decoder"] = {0: attend(asked, torch.randn(1, 4, m, 8), torch.randn(1, 4, m, 3), mask=Causal())}
        attended["cross"] = {0: attend(asked, key, value)}
    usual = {"model": "m", "text": "a", "target_text": ""}
    return Trace(**usual | fields, source=source, target=target, attended=attended)


def words(letters):
    return tuple(Token(text=word, piece=word) for word in letters)


def write_trace(folder):
    written = (WrittenToken(1, words("y")[0], 0.5, (("y", 0.5), ("z", 0.25))),)
    trace_of(words("abcdefg"), words("xyz"), target_text="b", written=written).save(folder / TRACE)


def write_picture_trace(folder):
    patches = [Token(text=f"{r},{c}", piece="p", place=Patch(0, r, c, 4.0, 4.0)) for r in range(2) for c in range(3)]
    trace_of((Token("[CLS]", "[CLS]", special=True), *patches), image=torch.rand(3, 8, 12)).save(folder / TRACE)


def write_sound_trace(folder):
    frames = tuple(Token(text=f"{n}s", piece="f", place=Frame(n + 0.0, n + 1.0)) for n in range(5))
    trace_of(frames, spectrogram=torch.rand(7, 20)).save(folder / TRACE)


def tiny_bert(folder):
    """A BERT of two layers in a folder of transformers; return it with its tokenizer."""
    torch.manual_seed(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "on", "a", "mat", "."]
    tokenizer = BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)})
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 29}
    model = BertModel(BertConfig(vocab_size=len(pieces), max_position_embeddings=32, **sizes)).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def write_answered_trace(folder):
    model, tokenizer = tiny_bert(folder / "model")
    groups = torch.tensor([[True] * 3 + [False] * 5, [False] * 3 + [True] * 5])
    ask = Ask(received=True, entropy=True, top=3, pooled=(4, 4), groups=groups)
    regard.trace(model, "the cat sat on a mat", tokenizer=tokenizer, ask=ask).save(folder / TRACE)


def write_trace_with_states(folder):
    model, tokenizer = tiny_bert(folder / "model")
    changes = [Cut("cat", "the", heads=["L0H1"]), Sharpen("L1H1", temperature=0.5)]
    seen = regard.trace(model, "the cat sat", tokenizer=tokenizer, changes=changes, keep=("hidden",))
    seen.save(folder / TRACE)


def show_trace(folder):
    """Load a trace and do what a user would do with it."""
    trace = Trace.load(folder / TRACE)
    trace.check()
    repr(trace)
    trace.show()
    trace.html(folder / "t.html")
    for head in trace.heads(trace.kinds[-1])[:2]:
        head.pattern.summary(top=1)
        repr(head)


def show_statistics(folder):
    trace = Trace.load(folder / TRACE)
    repr(trace)
    for pattern in trace.encoder.values():
        repr(pattern)
        pattern.received()
        pattern.entropy()
        pattern.top(3)
        pattern.pooled(4, 4)


def show_states(folder):
    trace = Trace.load(folder / TRACE)
    trace.html(folder / "t.html")
    trace.roles()
    trace.words()
    trace.rollout(1)
    if trace.states is not None:
        trace.movement(1)
        trace["L0H0"].contributions(1)


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
    """Say whether a training reads this file again: not what it only writes."""
    return not name.startswith(("tensorboard/", "translator", "model.", "source.", "target.")) and "lock" not in name


def seal_checkpoints(folder):
    """Write the sizes and checksums of a folder's checkpoints again, as far as their manifests can be read."""
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
        vocabulary = own_vocabulary(folder / name)
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
    show_matrices(work_out(read_numbers(folder / "n.toml")))


LINES = "".join(f"{line}\n" for line in PAIRS)


def write_corpora(folder):
    (folder / "a.txt").write_text(LINES)
    (folder / "b.txt.gz").write_bytes(gzip.compress(LINES.encode()))


def read_corpora(folder):
    """Read the texts as `regard scan` does, and as `regard train` does."""
    for name in ("a.txt", "b.txt.gz"):
        read_file_lines(folder / name)
        for _ in tidy_lines(folder / name):
            pass


def write_scan(folder):
    model, tokenizer = tiny_bert(folder / "model")
    scan = Scan("m")
    for _ in scan.read(regard.tracing.model_loading.LoadedModel("m", model, tokenizer), ["the cat", "a mat"]):
        pass
    scan.save(folder / "scan.progress", "source")


def resume_scan(folder):
    scan = Scan.load(folder / "scan.progress", "m", "source")
    if scan is not None:
        repr(scan.roles())
        scan.save(folder / "scan.progress", "source")
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
    "numbers": Kind(write_numbers, work_out_numbers),
    "settings": Kind(
        lambda folder: (folder / "s.toml").write_text(SETTINGS), lambda folder: read_config(folder / "s.toml")
    ),
}
"""Every kind of file, by its name in the tests."""
