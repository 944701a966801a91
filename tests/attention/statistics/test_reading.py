"""Tests of computing statistics under Ctrl-C, in a forked process, from callbacks, and with all widths of vectors."""

import os
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from regard import Ask, Causal, Window, attend
from regard.attention.statistics.cpu import engine

PROGRAM = """
import os, signal
import torch
from regard import Ask, Causal, Global, Window, attend
from regard.attention.statistics.cpu import engine

engine.SECONDS_AT_ONCE, engine.COMPUTED_AT_ONCE = 0.0, 1
ask = Ask(top=2, pooled=(8, 8))
query, key, value = torch.randn(3, 1, 4, 1024, 16, generator=torch.Generator().manual_seed(5)).unbind()

def stopped_and_asked_again(n_threads, mask):
    torch.set_num_threads(n_threads)
    pattern, told = attend(query, key, value, mask=mask).pattern, []

    def after_some_blocks(done, of):
        told.append(done / of)
        if len(told) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    caught = None
    try:
        pattern.answer(ask, report=after_some_blocks)
    except KeyboardInterrupt as interrupted:
        caught = interrupted  # keeps the frames of the stopped call alive, as a notebook does
    assert caught is not None, "the signal went unheard"
    assert told[-1] < 0.2, told
    assert torch.get_num_threads() == n_threads

    again = pattern.answer(ask)
    exact = attend(query.double(), key.double(), value.double(), mask=mask).pattern.answer(ask)
    for name in ("received", "entropy", "distance", "first", "pooled"):
        torch.testing.assert_close(getattr(again, name).double(), getattr(exact, name), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again.top.weights.double(), exact.top.weights, rtol=1e-4, atol=1e-5)

for n_threads, mask in ((2, Causal()), (1, Window(450, 450) | Global([7]))):
    stopped_and_asked_again(n_threads, mask)
    print(n_threads, "threads, as if nothing had happened")

torch.set_num_threads(2)
pattern = attend(query, query, query, mask=Causal()).pattern
expected = pattern.received()  # the parent's threads have been at work
child = os.fork() if hasattr(os, "fork") else None
if child == 0:
    os._exit(0 if torch.equal(pattern.received(), expected) else 1)
print(child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(scope="module")
def printed():
    """Return the lines that a process of its own prints: two after interruptions, and the exit status of a fork."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert run.stderr == ""
    return run.stdout.splitlines()


def test_ctrl_c_stops_between_blocks_and_leaves_nothing_broken(printed):
    """Both for a mask that C computes, and for a mask that torch computes for each block."""
    assert printed[:2] == [f"{n} threads, as if nothing had happened" for n in (2, 1)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked")
def test_a_forked_process_has_none_of_its_parents_threads_and_the_same_numbers(printed):
    assert printed[2:] == ["0"]


def test_a_report_may_ask_another_pattern(normal, monkeypatch):
    """A callback between blocks runs another pass, which must not reuse the memory of the first."""
    monkeypatch.setattr(engine, "SECONDS_AT_ONCE", 0.0)
    small, large = (attend(*[normal(1, 2, n, 8)] * 3).pattern for n in (300, 900))
    expected = small.received()
    assert torch.equal(small.answer(Ask(), report=lambda done, of: large.entropy()).received, expected)


@pytest.mark.parametrize("width", [1, 15, 16, 17, 31, 48, 63, 64, 65, 100, 128, 130])
@pytest.mark.parametrize("mask", [None, Causal(), Window(7, 0)], ids=repr)
def test_every_width_of_keys_and_values(normal, width, mask):
    """Widths around the CPU's register sizes; numbers in memory after a vector, such as NaN, have no effect."""
    query, key = normal(1, 2, 45, width + 3)[..., :width], normal(1, 1, 70, width + 3)[..., :width]
    whole = normal(1, 1, 70, width + 40)
    whole[..., width:] = torch.nan
    seen = attend(query, key, whole[..., :width], mask=mask, ask=Ask())
    exact = attend(query.double(), key.double(), whole[..., :width].double(), mask=mask, ask=Ask())
    assert_close(seen.context.double(), exact.context, rtol=1e-5, atol=1e-5)
    assert_close(seen.pattern.statistics.received.double(), exact.pattern.statistics.received, rtol=1e-5, atol=1e-5)


def test_vectors_that_do_not_lie_in_one_piece(normal):
    apart = [normal(2, 3, 8, 20).mT for _ in range(3)]
    tokens_first = [normal(2, 20, 3, 8).transpose(1, 2)] * 3
    for vectors in (apart, tokens_first):
        seen, same = attend(*vectors, ask=Ask()), attend(*(part.contiguous() for part in vectors), ask=Ask())
        assert torch.equal(seen.context, same.context)
