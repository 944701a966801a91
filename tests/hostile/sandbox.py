"""Run many cases in a forked process with limits of time and memory: a signal, a hang, a huge allocation are seen.

A process runs a batch of cases, because a fork of a grown process takes as long as many cases.
"""

import json
import os
import resource
import select
import signal
import tempfile
import traceback
import warnings
from pathlib import Path

import jaxtyping

from regard import InputError

BATCH = 100
"""The cases of one process."""

SECONDS, IDLE_SECONDS, BYTES = 10, 100, 2**30
"""The limits of a case: its processor time, its time without an answer, and the memory beside what the tests have."""

LONGEST = 1_000
"""The most letters of a message without the paths in it."""


def first_failure(cases, run):
    """Run `run(number)` for the numbers from 0 to `cases`; return what is wrong with the first that fails, else ""."""
    for begin in range(0, cases, BATCH):
        numbers = range(begin, min(begin + BATCH, cases))
        if failure := failure_in(numbers, run):
            return failure
    return ""


def failure_in(numbers, run):
    """Run a batch in a forked process; return what is wrong with the first case that fails, else ""."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            run_batch(numbers, run, writing)
        finally:
            os._exit(0)
    os.close(writing)
    failure, rest, n_done = "", b"", 0
    try:
        while not failure:
            if not select.select([reading], [], [], IDLE_SECONDS)[0]:
                failure = f"case {numbers[n_done]}: it took more than {IDLE_SECONDS} seconds"
            elif part := os.read(reading, 65536):
                *lines, rest = (rest + part).split(b"\n")
                failure = next(filter(None, map(json.loads, lines)), "")
                n_done += len(lines)
            else:
                break
    finally:
        os.close(reading)
        if failure:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not failure and n_done < len(numbers):
        number = os.waitstatus_to_exitcode(status)
        how = f"signal {signal.Signals(-number).name}" if number < 0 else f"status {number}"
        failure = f"case {numbers[n_done]}: the process ended with {how}"
    return failure


def run_batch(numbers, run, answers):
    """Run each case under the limits, and write a line to `answers` after it: what is wrong with it, as JSON."""
    jaxtyping.config.update("jaxtyping_disable", True)  # a user's program runs without these checks
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, size + BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryFile() as printed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(printed.fileno(), 2)
        for number in numbers:
            used = resource.getrusage(resource.RUSAGE_SELF)
            resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, -1))
            printed.seek(0)
            printed.truncate()
            words = outcome(number, run)
            printed.seek(0)
            if not words and (noise := printed.read()):
                words = f"something was printed on the error stream: {noise[-1000:].decode(errors='replace')}"
            answer = f"case {number}: {words[-3000:]}" if words else ""
            os.write(answers, json.dumps(answer).encode() + b"\n")


def outcome(number, run):
    """Run one case; return "" if it ends as it may, else what happened."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(number)
    except InputError as error:
        message = str(error)
        if not message.isprintable():
            return f"the message is not one clean line: {message!r}"
        if len(message) > LONGEST:
            return f"the message has {len(message)} letters: {message}"
        if "memory" in message.lower() and "alloc" in message.lower():
            return f"it allocated too much: {message}"
    except BaseException:
        return traceback.format_exc()
    return ""
