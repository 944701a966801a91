"""The command line as a user meets it: help, version, and one line for bad input."""

import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

COMMAND = [sys.executable, "-m", "regard.cli.main"]


def run(*arguments, **options):
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment, **options)


def test_version():
    assert run("--version").stdout == f"regard {version('regard')}\n"


def test_a_reader_that_stops_early_is_no_error():
    """A pipe whose other end is closed before anything is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "explain", "--list"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


SPINS = """
import os, sys
from regard.cli.main import main
assert "torch" not in sys.modules  # which reads it once
sys.argv = ["regard", "--version"]
try:
    main()
finally:
    print(os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("given", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_waiting_threads_give_their_cores_away_unless_told_otherwise(given, spins):
    environment = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    done = subprocess.run([sys.executable, "-c", SPINS], capture_output=True, text=True, env=environment | given)
    assert done.stdout.splitlines()[1] == spins


def test_help_names_every_verb():
    text = run("--help").stdout
    assert all(verb in text for verb in ("look", "explain", "demo"))


@pytest.mark.parametrize("verb", ["look", "explain", "demo"])
def test_every_verb_has_help_with_an_example(verb):
    done = run(verb, "--help")
    assert done.returncode == 0
    assert f"      regard {verb}" in done.stdout or f"   regard {verb}" in done.stdout


def test_bad_input_is_one_line_and_status_2():
    done = run("look", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "regard: the text is empty; give at least one word to look at.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("verb", [["explain"], ["look", "it is"], ["--version"]])
def test_an_output_that_takes_no_more_is_told_in_a_line(verb):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *verb], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "regard: cannot write the output: no space left on device.\n")


def test_an_output_without_the_letters_is_told_in_a_line():
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "NO_COLOR": "1"}
    done = subprocess.run([*COMMAND, "explain"], capture_output=True, env=environment)
    assert done.returncode == 2
    assert re.fullmatch(
        r"regard: the output is in latin-1, which has no '.*'; set PYTHONUTF8=1, or another locale, for UTF-8.\n",
        done.stderr.decode(),
    )


def test_a_text_on_standard_input_that_is_not_utf_8():
    done = subprocess.run([*COMMAND, "look", "-"], input=b"gut\ncaf\xe9", capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        "regard: standard input, line 2: not UTF-8 (byte 0xE9 at place 4); convert the file first, for instance with "
        "iconv -f LATIN1 -t UTF-8.\n"
    )


def wait_until_idle(program):
    """Until a program, once it has begun to work, waits for its input: it takes no more time of a processor."""
    process, before = psutil.Process(program.pid), -1.0
    while (used := sum(process.cpu_times()[:2])) != before or used < 0.05:
        before = used
        time.sleep(1)
        assert program.poll() is None


def test_ctrl_c_stops_cleanly(tmp_path):
    """The signal comes while the verb waits for its text."""
    program = subprocess.Popen(
        [*COMMAND, "look", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    wait_until_idle(program)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)
    assert (program.returncode, said) == (130, "regard: stopped\n")
    assert list(tmp_path.iterdir()) == []
