"""Work shared out over threads: its order, its errors, and Ctrl-C in the middle of it."""

import subprocess
import sys

import pytest
import torch

from regard.attention.statistics import threads


@pytest.fixture
def three_threads():
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3
    torch.set_num_threads(1)


def test_work_comes_back_in_order_and_an_error_ends_it(three_threads):
    assert list(threads.in_order(range(50), lambda n: n * n)) == [(n, n * n) for n in range(50)]
    with pytest.raises(ZeroDivisionError):
        list(threads.in_order(range(50), lambda n: 1 / (7 - n)))


def test_work_is_taken_as_it_is_needed(three_threads):
    taken = []
    for n, _ in threads.in_order((taken.append(n) or n for n in range(1000)), lambda n: n):
        if n == 10:
            break
    assert len(taken) < 30


INTERRUPTED = """
import os, signal, sys, threading, time, traceback
import torch
from regard import Ask, Causal, attend

torch.set_num_threads(int(sys.argv[1]))
query, key, value = torch.randn(3, 1, 4, 2048, 16, generator=torch.Generator().manual_seed(5)).unbind()
pattern, ask, told = attend(query, key, value, mask=Causal()).pattern, Ask(top=2, pooled=(8, 8)), []

def after_some_blocks(done, of):
    told.append(done / of)
    if len(told) == 3:
        os.kill(os.getpid(), signal.SIGINT)

caught = None
try:
    pattern.answer(ask, report=after_some_blocks)
except KeyboardInterrupt as interrupted:
    caught = interrupted  # its frames live on, as those of an error in a notebook do
assert caught is not None, "the signal went unheard"
assert told[-1] < 0.2, told
assert torch.get_num_threads() == int(sys.argv[1])
for worker in threading.enumerate():  # those that are left wait for work
    if worker is not threading.main_thread():
        stack = traceback.extract_stack(sys._current_frames()[worker.ident])
        assert all(frame.name != "read" for frame in stack), stack

again = pattern.answer(ask)
exact = attend(query.double(), key.double(), value.double(), mask=Causal()).pattern.answer(ask)
for name in ("received", "entropy", "distance", "first", "pooled"):
    torch.testing.assert_close(getattr(again, name).double(), getattr(exact, name), rtol=1e-4, atol=1e-4)
torch.testing.assert_close(again.top.weights.double(), exact.top.weights, rtol=1e-4, atol=1e-5)
print("as if nothing had happened")
"""


@pytest.mark.parametrize("n_threads", [1, 2])
def test_ctrl_c_stops_between_blocks_and_leaves_nothing_broken(n_threads):
    run = subprocess.run([sys.executable, "-c", INTERRUPTED, str(n_threads)], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout == "as if nothing had happened\n"
