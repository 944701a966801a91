"""A process that has imported regard's training and runs programs in forked processes, so that no start imports.

Also `die_at`, a function for programs that die at a chosen call.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 90
"""The largest number of seconds that a program may take."""

DIE_AT = """
import os

def die_at(nth):
    done = 0
    def counted(real):
        def call(*arguments, **named):
            nonlocal done
            done += 1
            if done == nth:
                os._exit(9)
            return real(*arguments, **named)
        return call
    for name in ("fsync", "mkdir", "rename", "replace", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))

os.fsync = lambda file: None  # still counted, but without waiting for the disk
"""
"""The beginning of a program: die_at(3) lets the process die at the third call that changes the disk."""

FORKING = """
import ctypes, json, os, sys
import accelerate, sacrebleu, sentencepiece, torch
import torch.utils.tensorboard
import regard.training.train
import regard.cli.main

def run(job):
    if job["host"]:
        with open(f"/run/netns/{job['host']}") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1), os.dup2(output, 2)
    os.environ.update(job["environment"])
    torch.set_num_threads(1)
    sys.argv = ["regard", *job["arguments"]]
    exec(job["program"], {"__name__": "__main__"})

def watched(job):
    child = os.fork()
    if not child:
        try:
            run(job)
            status = 0
        except SystemExit as stop:
            status = stop.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
            status = 1
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(job["output"] + ".part", "w") as file:
        file.write(str(status))
    os.rename(job["output"] + ".part", job["output"] + ".status")
    os._exit(0)

import signal
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
for line in sys.stdin:
    os.fork() or watched(json.loads(line))
"""


class ForkedProgram:
    def __init__(self, output: Path) -> None:
        self.output = output

    def ended(self) -> tuple[int, str]:
        """Wait for the end of the program; return its exit status and what it has printed."""
        status = wait_for(self.output.with_name(f"{self.output.name}.status"))
        return int(status.read_text()), self.output.read_text()


class Forking:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def start(
        self, program: str, arguments: list[object], environment: dict[str, str], output: Path, host: str | None = None
    ) -> ForkedProgram:
        """Start a Python program, given as source text.

        Args:
            environment: the environment variables that it has beside those of this process.
            output: the file to which it prints.
            host: the network namespace in which it runs; None = that of this process.
        """
        job = {"program": program, "environment": environment, "output": str(output), "host": host}
        print(json.dumps({**job, "arguments": [*map(str, arguments)]}), file=self.process.stdin, flush=True)
        return ForkedProgram(output)


@contextmanager
def forking_process() -> Iterator[Forking]:
    """Yield the process from which programs are forked, and end it."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", FORKING], stdin=subprocess.PIPE, text=True, env=environment) as found:
        yield Forking(found)
        assert found.stdin
        found.stdin.close()


def wait_for(path: Path) -> Path:
    end = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.005)
    return path
