"""Running many cases in a forked process with limits of time and memory, so that crashes and hangs are detected.

A process runs a batch of cases, because forking a large process takes as long as many cases.
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
"""The number of cases that one forked process runs."""

SECONDS, IDLE_SECONDS, BYTES = 10, 100, 2**30
"""The limits of a case: seconds of CPU time, seconds without an answer, and bytes of memory added to the process."""

LONGEST = 1_000
"""The largest number of characters of a message, not counting the paths in it."""


def first_failure(cases, run):
    """Call `run(number)` for each number below `cases`; return the failure of the first case that fails, else ""."""
    for begin in range(0, cases, BATCH):
        numbers = range(begin, min(begin + BATCH, cases))
        if failure := failure_in(numbers, run):
            return failure
    return ""


def failure_in(numbers, run):
    """Run a batch of cases in a forked process; return the failure of the first case that fails, else ""."""
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
    """Run each case under the limits; after each, write its `outcome` to `answers` as a line of JSON."""
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
    """Run one case; return "" if it succeeds or raises a proper InputError, else a description of the failure."""
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
