"""Files that nobody wrote by accident: each ends as a loaded object that can be shown, or as one clean line.

Every case runs in a forked process with limits of time and memory, so that a signal, a hang or a huge allocation is
seen.
`pytest --cases 5000` tries as many of each kind of file.
"""

import copy
import json
import os
import pickle
import random
import resource
import select
import shutil
import signal
import traceback
from pathlib import Path

import jaxtyping
import pytest
import torch
from safetensors.torch import load_file

from regard import Causal, InputError, RelativeBias, ScaledDot, Softmax, Trace, attend
from regard.by_hand.numbers_file import read_numbers
from regard.tensor_file import write_tensors
from regard.tracing.readable_tokens import Token
from regard.tracing.trace_file import FORMAT, VERSION
from regard.training.settings.settings_file import read_config
from regard.training.store.checkpoint import latest_checkpoint, save_checkpoint
from regard.translation.translator_folder import read_translator

SECONDS, BYTES = 10, 2**30
"""The limits of a case: its time, and the memory that it may take beside what the tests have already."""

VALUES = [
    None, True, False, 0, -1, 1, 2, 3, 7, 100_000, 10**9, 2**31, 2**63, 10**30, 0.5, -1.5, 1e308, float("nan"),
    float("inf"), "", "0", "x", "\x1b[31mred\x1b[0m", "two\nlines", "\u202e", "os.system",
    [], {}, [[]], [1], {"rule": "Causal"},
    {"tensor": "0"}, {"tensor": "99"}, {"several": []}, {"torch": "load", "kind": "dtype"}, "relu", "transformer",
]  # fmt: skip
"""What any value of a document may be replaced with."""


def paths_in(document, path=()):
    """Yield the path of every value of a JSON document."""
    yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from paths_in(value, (*path, key))


def changed(document, chance):
    """A document with one to three values replaced, removed or doubled."""
    document = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        paths = [path for path in paths_in(document) if path]
        if not paths:
            return document
        *way, last = chance.choice(paths)
        place = document
        for key in way:
            place = place[key]
        how = chance.random()
        if how < 0.15:
            del place[last]
        elif how < 0.25 and isinstance(place, list):
            place.append(copy.deepcopy(place[last]))
        elif isinstance(place[last], int) and how < 0.5:
            place[last] = place[last] + chance.choice([-1, 1, 2, 100])
        else:
            place[last] = copy.deepcopy(chance.choice(VALUES))
    return document


def changed_bytes(content, chance):
    """A file's bytes with some changed, cut off or doubled."""
    content = bytearray(content)
    how = chance.randrange(3)
    if how == 0:
        return bytes(content[: chance.randrange(len(content) + 1)])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(content))
        content[place : place + how] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 3)))
    return bytes(content)


def changed_tensors(tensors, chance):
    """Tensors of which one has another shape, another type or other numbers, or is missing."""
    tensors = dict(tensors)
    name = chance.choice(list(tensors))
    tensor = tensors[name]
    how = chance.randrange(6)
    if how == 0:
        del tensors[name]
    elif how == 1 and tensor.ndim:
        tensors[name] = tensor.reshape(tensor.shape[::-1])
    elif how == 2 and tensor.ndim:
        tensors[name] = tensor[..., : chance.randrange(tensor.shape[-1] + 1)].clone()
    elif how == 3:
        tensors[name] = tensor.to(chance.choice([torch.float64, torch.float16, torch.int64, torch.bool, torch.int8]))
    elif how == 4:
        tensors[name] = torch.full_like(tensor, chance.choice([0, 1, -1, 100]))
    else:
        tensors[name] = tensor[None].clone()
    return tensors


def outcome(run):
    """Run in a forked process; return nothing if it ended as it should, else what happened."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            jaxtyping.config.update("jaxtyping_disable", True)  # a user's program runs without these checks
            resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, size + BYTES))
            words = ""
            try:
                run()
            except InputError as error:
                if not str(error).isprintable():
                    words = f"the message is not one clean line: {str(error)!r}"
            except BaseException:
                words = traceback.format_exc()
            os.write(writing, pickle.dumps(words[-3000:]))
        finally:
            os._exit(0)
    os.close(writing)
    try:
        if not select.select([reading], [], [], SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"it took more than {SECONDS} seconds"
        content = b""
        while part := os.read(reading, 65536):
            content += part
    finally:
        os.close(reading)
    _, status = os.waitpid(child, 0)
    return pickle.loads(content) if content else f"the process died: {status}"


def try_all(cases, make, run):
    """Try cases that `make` draws; fail with the first that ends in another way than it may."""
    for number in range(cases):
        made = make(random.Random(number))
        found = outcome(lambda made=made: run(made))
        assert found == "", f"case {number}: {found}"


@pytest.fixture
def written(tmp_path, normal):
    """A trace's file, its document and its tensors."""
    torch.manual_seed(0)
    words = tuple(Token(text=word, piece=word) for word in "abcdefg")
    query, key, value = normal(1, 4, 7, 8), normal(1, 2, 7, 8), normal(1, 2, 7, 3)
    bias = RelativeBias(4, n_buckets=4, max_distance=5)
    steps = {
        0: attend(query, key, value, mask=Causal()),
        1: attend(query, key, value, score=ScaledDot(bias=bias), normalise=Softmax(sinks=torch.zeros(4))),
    }
    trace = Trace(model="m", text="a", target_text="", source=words, target=(), attended={"encoder": steps})
    path = trace.save(tmp_path / "trace.safetensors")
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        document = json.loads(file.metadata()[FORMAT])
    assert document["version"] == VERSION
    return path, document, load_file(path)


def show(path):
    """Load a trace and do what a user would do with it."""
    trace = Trace.load(path)
    trace.check()
    repr(trace)
    trace.show()
    trace.html(path.with_suffix(".html"))
    for head in trace.heads()[:2]:
        head.pattern.summary(top=1)
        repr(head)


@pytest.mark.parametrize("part", ["document", "tensors", "bytes"])
def test_traces(written, tmp_path, cases, part):
    path, document, tensors = written
    content, hostile = path.read_bytes(), tmp_path / "hostile.safetensors"

    def make(chance):
        if part == "bytes":
            hostile.write_bytes(changed_bytes(content, chance))
            return hostile
        told = changed(document, chance) if part == "document" else document
        held = changed_tensors(tensors, chance) if part == "tensors" else tensors
        write_tensors(hostile, held, {FORMAT: json.dumps(told)})
        return hostile

    try_all(cases, make, show)


@pytest.mark.parametrize("part", ["document", "tensors", "bytes"])
def test_translators(translator, tmp_path, cases, part):
    folder = tmp_path / "translator"
    translator.save(folder)
    about, tensors = json.loads((folder / "translator.json").read_bytes()), load_file(folder / "model.safetensors")
    names = sorted(path.name for path in folder.iterdir())
    contents = {name: (folder / name).read_bytes() for name in names}

    def make(chance):
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        if part == "document":
            (folder / "translator.json").write_text(json.dumps(changed(about, chance)))
        elif part == "tensors":
            write_tensors(folder / "model.safetensors", changed_tensors(tensors, chance))
        else:
            name = chance.choice(names)
            (folder / name).write_bytes(changed_bytes(contents[name], chance))
        return folder

    try_all(cases, make, read_translator)


@pytest.mark.parametrize("part", ["document", "bytes"])
def test_checkpoints(tmp_path, cases, part):
    folder = tmp_path / "checkpoints"
    for step in (5, 20):
        save_checkpoint(folder, step, {"model": {"a": torch.ones(3)}, "optimiser": {"b": torch.ones(2)}}, {"n": step})
    latest, kept = folder / "step-20", tmp_path / "kept"
    shutil.copytree(latest, kept)
    manifest = json.loads((latest / "manifest.json").read_bytes())

    def make(chance):
        shutil.rmtree(latest)
        shutil.copytree(kept, latest)
        name = "manifest.json" if part == "document" else chance.choice(sorted(path.name for path in kept.iterdir()))
        if part == "document":
            (latest / name).write_text(json.dumps(changed(manifest, chance)))
        else:
            (latest / name).write_bytes(changed_bytes((kept / name).read_bytes(), chance))
        return folder

    def run(place):
        assert latest_checkpoint(place, lambda text: None).state["n"] in (5, 20)

    try_all(cases, make, run)


NUMBERS = """
title = "two words"
tokens = ["a", "b"]
query = [[1.0, 0.0], [0.0, 1.0]]
key = [[1.0, 0.5], [0.0, 1.0]]
value = [[1.0, 2.0], [3.0, 4.0]]
"""
SETTINGS = """
[training]
seed = 3
max_steps = 100
[model]
d_model = 64
dropout = 0.1
"""


@pytest.mark.parametrize(
    ("text", "read"), [(NUMBERS, read_numbers), (SETTINGS, read_config)], ids=["numbers", "settings"]
)
def test_toml(tmp_path, cases, text, read):
    path = tmp_path / "hostile.toml"

    def make(chance):
        words = text.split(" ")
        hostile = [
            "nan",
            "inf",
            "-1",
            "0",
            "[]",
            "{}",
            '""',
            "10000000000000000000000",
            "true",
            "1979-05-27",
            "[[",
            "=",
            '"\\u001b"',
        ]
        for _ in range(chance.randint(1, 3)):
            words[chance.randrange(len(words))] = chance.choice(hostile)
        content = " ".join(words).encode()
        path.write_bytes(changed_bytes(content, chance) if chance.random() < 0.3 else content)
        return path

    try_all(cases, make, read)
