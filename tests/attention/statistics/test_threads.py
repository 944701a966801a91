"""Work shared out over threads: all of it, its errors, and Ctrl-C in the middle of it."""

import itertools
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import torch

from regard.attention.statistics import threads
from regard.attention.statistics.threads import shared_out


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_all_of_the_work_is_done_once_and_an_error_ends_it(two_threads, n_threads):
    assert sorted(shared_out(range(50), lambda n: n * n, n_threads)) == [n * n for n in range(50)]
    with pytest.raises(ZeroDivisionError):
        list(shared_out(range(50), lambda n: 1 / (7 - n), n_threads))
    assert sum(shared_out(range(50), lambda n: 1, n_threads)) == 50


def test_an_error_of_another_thread_ends_it_too():
    caller = threading.current_thread()
    both = threading.Barrier(2, timeout=60)

    def work(n):
        if n < 2:
            both.wait()  # each has one
        if threading.current_thread() is not caller:
            raise ZeroDivisionError
        return n

    with pytest.raises(ZeroDivisionError):
        for _ in shared_out(itertools.count(), work, 2):  # without an end
            pass


def test_all_threads_work_at_once_with_one_of_torchs_each_and_no_gradients(two_threads):
    all_three = threading.Barrier(3, timeout=60)

    def work(n):
        all_three.wait()
        return threading.current_thread(), torch.get_num_threads(), torch.is_grad_enabled()

    with torch.no_grad():
        workers, of_torch, gradients = zip(*shared_out(range(3), work, 3), strict=True)
    assert len(set(workers)) == 3
    assert threading.current_thread() in workers
    assert of_torch == (1, 1, 1)
    assert gradients == (False, False, False)


def test_a_thread_that_begins_meanwhile_has_as_many_of_torchs_as_ever(two_threads):
    found = []

    def work(n):
        born = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        born.start()
        born.join()

    list(shared_out(range(5), work, 3))
    assert found == [2] * 5


@pytest.mark.parametrize("name", ["omp_set_num_threads", "MKL_Set_Num_Threads_Local"])
def test_where_torchs_own_functions_are_not_to_be_had_one_thread_each_it_is_all_the_same(
    two_threads, monkeypatch, name
):
    found = threads.of_torch
    monkeypatch.setattr(threads, "of_torch", lambda wanted: None if wanted == name else found(wanted))
    assert list(shared_out(range(3), lambda n: torch.get_num_threads(), 1)) == [1, 1, 1]


FEW = """
import threading, time
from regard.attention.statistics.threads import shared_out

for n_threads in (2, 4, 3, 6, 5):
    at_once = threading.Barrier(n_threads, timeout=60)
    list(shared_out(range(n_threads), lambda n: at_once.wait(), n_threads))
    time.sleep(0.2)  # until all wait for work again
print(threading.active_count())
"""


def test_there_are_no_more_threads_than_were_ever_at_work_at_once():
    run = subprocess.run([sys.executable, "-c", FEW], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout == "6\n"


def test_nothing_is_made_ahead_and_nothing_runs_once_it_is_closed(two_threads):
    caller, two_done = threading.current_thread(), threading.Event()
    taken, done = [], []

    def items():
        for n in range(10**6):
            taken.append(n)
            yield n

    def work(n):
        assert len(taken) - len(done) <= 3
        if threading.current_thread() is not caller:
            assert two_done.wait(60)
        done.append(n)

    with closing(shared_out(items(), work, 3)) as results:
        next(results)
        next(results)
        two_done.set()
    assert sorted(taken) == sorted(done) == list(range(len(done)))
    assert len(taken) < 10**6


OPENMP_IDLE = """
import os, threading, time
import torch
from regard.attention.statistics.threads import shared_out

torch.set_num_threads(2)
torch.randn(2**20).exp_()
before, counted, during = len(os.listdir("/proc/self/task")), threading.Event(), []

def work(n):
    if threading.current_thread() is threading.main_thread():
        during.append(len(os.listdir("/proc/self/task")) - threading.active_count())
        counted.set()
    assert counted.wait(60)

list(shared_out([0, 1], work, 2))
assert torch.randn(2**20).exp().isfinite().all()
print(before - during[0] - 1, len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_openmps_threads_do_not_spin_beside_ours_and_come_back_when_needed():
    run = subprocess.run([sys.executable, "-c", OPENMP_IDLE], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout == "1 1\n"  # ours is there as well afterwards, and waits


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
