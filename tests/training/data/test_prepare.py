"""Tests that several machines prepare the data together: each is a process with a folder, shared or of its own.

That the processes write the corpus of one, bit by bit, is also tested by threads, in tests/text/test_corpus.py.
"""

import json
import shutil
import signal
import socket

import pytest
from refusals import refusal

from regard import InputError
from regard.text.share import Share
from regard.text.vocabulary import Vocabulary
from regard.training.data.prepare import refuse_different_texts
from regard.training.settings.settings_file import as_toml
from regard.training.store.training_folder import ABOUT, claim, read_about
from regard.training.train import train
from regard.training.watcher import Watcher


def test_a_number_of_pieces_that_the_texts_do_not_allow_is_remarked_on(texts, tmp_path, quick):
    said, watcher = [], Watcher()
    watcher.say = said.append
    train(*texts, tmp_path / "out", quick(max_steps=1, vocabulary={"n_tokens": 20}), watcher=watcher)
    vocabulary = Vocabulary.load(tmp_path / "out" / "data" / "source.spm")
    assert (
        "vocabulary.n_tokens = 20 is fewer than the different characters of the source texts: their vocabulary has "
        f"{len(vocabulary)} pieces"
    ) in said
    said.clear()
    train(*texts, tmp_path / "enough", quick(max_steps=1, vocabulary={"n_tokens": 60}), watcher=watcher)
    assert not any("fewer than the different" in line or "more than the texts" in line for line in said)
    train(*texts, tmp_path / "few", quick(max_steps=1, vocabulary={"n_tokens": 9999}), watcher=watcher)
    most = max(len(Vocabulary.load(tmp_path / "few" / "data" / f"{side}.spm")) for side in ("source", "target"))
    assert f"vocabulary.n_tokens = 9999 is more than the texts allow: the vocabulary has {most} pieces" in said


MACHINE = """
import json, os, signal, sys
from pathlib import Path

from regard.cli.main import run
from regard.text import corpus

os.fsync = lambda file: None
rank, (work, killed, *arguments) = int(os.environ["RANK"]), sys.argv[1:]
counted, encoded = 0, corpus.encode_pairs

def counting(pairs, *others):
    global counted
    counted += len(pairs)
    if killed == str(rank):
        os.kill(os.getpid(), signal.SIGKILL)
    return encoded(pairs, *others)

corpus.encode_pairs = counting
sys.argv = ["regard", *arguments]
try:
    run()
finally:
    (Path(work) / f"encoded-{rank}.json").write_text(json.dumps(counted))
"""
"""A training that counts the pairs that it encodes; the machine with the number `killed` is killed at the first."""


@pytest.fixture
def work(tmp_path, texts, quick):
    (tmp_path / "settings.toml").write_text(as_toml(quick(max_steps=1, changes={"dropout": 0.0})))
    return tmp_path


@pytest.fixture
def machines(work, forking):
    """Return a function that trains on two machines with a folder each; it returns their exit statuses and outputs."""

    def trained(folders, killed=None):
        with socket.create_server(("", 0)) as free:
            port = free.getsockname()[1]
        running = []
        for rank, folder in enumerate(folders):
            environment = {
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank),
                "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
            }  # fmt: skip
            command = [work, killed, "train", work / "a.en", work / "a.ko"]
            options = ["--out", folder, "--config", work / "settings.toml", "--device", "cpu"]
            output = work / f"output-{len(list(work.glob('output-*.status')))}-{rank}.txt"
            running.append(forking.start(MACHINE, [*command, *options], environment, output))
        return [program.ended() for program in running]

    return trained


def encoded(work):
    """Return the number of pairs that each machine has encoded in the last run."""
    return [json.loads((work / f"encoded-{rank}.json").read_text()) for rank in (0, 1)]


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("names", [("one", "other"), ("both", "both")], ids=["own folders", "a shared folder"])
def test_machines_write_together_what_one_writes_alone(work, machines, texts, quick, names):
    train(*texts, work / "alone", quick(max_steps=1, changes={"dropout": 0.0}))
    found = machines([work / name for name in names])
    assert [status for status, _ in found] == [0, 0], found
    for name in names:
        assert files_in(work / name / "data") == files_in(work / "alone" / "data")
        assert (work / name / "config.toml").read_bytes() == (work / "alone" / "config.toml").read_bytes()
        assert not list((work / name).glob(".*"))
    # Sixty pairs, three of them dev pairs: each machine encodes half of both
    assert encoded(work) == [29 + 2, 28 + 1]
    if len(set(names)) == 2:  # a machine whose disk is new prepares the data alone
        shutil.rmtree(work / "other")
        assert [status for status, _ in machines([work / name for name in names])] == [0, 0]
        assert files_in(work / "other" / "data") == files_in(work / "alone" / "data")
        assert encoded(work) == [0, 60]


@pytest.mark.slow
def test_a_machine_that_is_killed_while_preparing_is_named(work, machines):
    (status, said), (killed, _) = machines([work / "one", work / "other"], killed=1)
    assert killed == -signal.SIGKILL
    assert status == 2
    assert [line for line in said.splitlines() if line.startswith("regard: ")] == [
        "regard: process 2 of 2 is lost: it was ended or killed, or its machine or the network failed. "
        "The same command, started again on every machine, resumes from the latest checkpoint."
    ]


def test_machines_with_different_texts_are_refused(tmp_path, texts):
    claim(tmp_path / "out", dict(zip(("source", "target"), texts, strict=True)))
    other = {**read_about(tmp_path / "out" / ABOUT), "target": {"bytes": 3, "sha256": "abc"}}
    share = Share(0, 2, lambda own: [own, other])
    assert refusal(InputError, refuse_different_texts, tmp_path / "out", share) == (
        "the target text is not the same file on all machines; copy the texts of one machine to the others."
    )
    refuse_different_texts(tmp_path / "out", Share(0, 2, lambda own: [own, own]))
