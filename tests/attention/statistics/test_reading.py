"""How a pattern is gone through: with Ctrl-C in the middle, in a forked process, whatever its vectors and its mask."""

import copy
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from math import inf

import pytest
import torch
from torch.testing import assert_close

from regard import Alibi, Ask, Causal, Global, Keep, Padding, RelativeBias, ScaledDot, Shaw, Softmax, Window, attend
from regard.attention.masks import Mask
from regard.attention.statistics import blocks, kernel, reading, rounds
from regard.attention.statistics.blocks import Plan

INTERRUPTED = """
import os, signal, sys
import torch
from regard import Alibi, Ask, Causal, ScaledDot, attend
from regard.attention.statistics import reading

torch.set_num_threads(int(sys.argv[1]))
reading.SECONDS_AT_ONCE, reading.MADE_AT_ONCE = 0.0, 1
score = ScaledDot(bias=Alibi()) if sys.argv[2] == "made" else ScaledDot()
query, key, value = torch.randn(3, 1, 4, 2048, 16, generator=torch.Generator().manual_seed(5)).unbind()
pattern, ask, told = attend(query, key, value, mask=Causal(), score=score).pattern, Ask(top=2, pooled=(8, 8)), []

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

again = pattern.answer(ask)
exact = attend(query.double(), key.double(), value.double(), mask=Causal(), score=score).pattern.answer(ask)
for name in ("received", "entropy", "distance", "first", "pooled"):
    torch.testing.assert_close(getattr(again, name).double(), getattr(exact, name), rtol=1e-4, atol=1e-4)
torch.testing.assert_close(again.top.weights.double(), exact.top.weights, rtol=1e-4, atol=1e-5)
print("as if nothing had happened")
"""


@pytest.mark.parametrize("scores", ["products", "made"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_ctrl_c_stops_between_blocks_and_leaves_nothing_broken(n_threads, scores):
    run = subprocess.run([sys.executable, "-c", INTERRUPTED, str(n_threads), scores], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout == "as if nothing had happened\n"


FORKED = """
import os
import torch
from regard import Ask, Causal, attend

torch.set_num_threads(2)
query = torch.randn(1, 4, 1024, 16)
pattern = attend(query, query, query, mask=Causal()).pattern
expected = pattern.received()  # the parent's threads have been at work
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(pattern.received(), expected) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked")
def test_a_forked_process_has_none_of_its_parents_threads_and_the_same_numbers():
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert run.stderr == ""
    assert run.stdout == "0\n"


def test_a_report_may_ask_another_pattern(normal, monkeypatch):
    """Between blocks the memory of a pass is in nobody's use, but it must stay where it is."""
    monkeypatch.setattr(reading, "SECONDS_AT_ONCE", 0.0)
    small, large = (attend(*[normal(1, 2, n, 8)] * 3).pattern for n in (300, 900))
    expected = small.received()
    vars(reading.MEMORY).clear()
    assert torch.equal(small.answer(Ask(), report=lambda done, of: large.entropy()).received, expected)


@pytest.mark.parametrize("contexts", [True, False])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (3, 1)])
def test_half_types_are_made_ready_some_heads_at_a_time(normal, monkeypatch, heads, contexts):
    n_heads, key_heads = heads
    query = normal(2, n_heads, 37, 8).bfloat16()
    key, value = normal(2, key_heads, 53, 8).bfloat16(), normal(1, key_heads, 53, 5).bfloat16()
    ask, found = Ask(top=3, pooled=(7, 5)), []
    for most in (1, 2**10, 2**24):
        monkeypatch.setattr(rounds, "READY_AT_MOST", most)
        seen = attend(query, key, value, mask=Causal(), ask=ask if contexts else None)
        found.append((seen.context, seen.pattern.answer(ask)))
    wide = attend(query.float(), key.float(), value.float(), mask=Causal(), ask=ask)
    for context, known in found:
        assert_close(context.float(), wide.context, rtol=1e-2, atol=1e-2)
        assert torch.equal(known.received, wide.pattern.known.received)
        assert torch.equal(known.pooled, wide.pattern.known.pooled)
        assert torch.equal(known.top.keys, wide.pattern.known.top.keys)


BIAS = torch.randn(1, 4, 37, 53, generator=torch.Generator().manual_seed(5))
KEEP = torch.rand(2, 1, 37, 53, generator=torch.Generator().manual_seed(7)) < 0.5
MADE = {
    "a mask of ranges and others": ({"mask": Window(9, 3) | Global([2, 30])}, torch.bool),
    "a mask as a matrix and a rule": ({"mask": Keep(KEEP) & Causal()}, torch.bool),
    "a mask across memory": ({"mask": Keep(KEEP.mT.contiguous().mT)}, torch.bool),
    "a bias across memory": ({"score": ScaledDot(bias=BIAS.mT.contiguous().mT), "mask": Window(9, 3)}, torch.float32),
    "a bias that bars": (
        {"score": ScaledDot(bias=BIAS.where(KEEP[:1], -inf).mT.contiguous().mT), "mask": Keep(BIAS > -1)},
        torch.float32,
    ),
    "relative keys": ({"score": Shaw(8, 3), "mask": Causal()}, torch.float32),
}
LYING = {
    "a mask": {"mask": Keep(KEEP)},
    "a mask by key": {"mask": Keep(KEEP[:, :, :1])},
    "a bias": {"score": ScaledDot(bias=BIAS), "normalise": Softmax(0.7)},
    "a bias of few axes": {"score": ScaledDot(bias=BIAS[0, 0]), "mask": Causal()},
    "a bias that bars": {
        "score": ScaledDot(bias=BIAS.where(KEEP[:1], -torch.inf), softcap=2.0),
        "mask": Keep(BIAS > -1),
    },
    "a rule": {"score": ScaledDot(bias=Alibi()), "mask": Causal()},
    "a rule from elsewhere": {"score": ScaledDot(bias=Alibi(offset=-40)), "mask": Window(30, 2)},
}


def as_exact(query, key, value, ask, score=ScaledDot(), **call):  # noqa: B008 (frozen)
    """In float64, through torch's operations."""
    if isinstance(score, ScaledDot) and isinstance(score.bias, torch.Tensor):
        score = replace(score, bias=score.bias.double())
    elif isinstance(score, torch.nn.Module):
        score = copy.deepcopy(score).double()
    return attend(query.double(), key.double(), value.double(), ask=ask, score=score, **call)


def check(normal, call):
    query, key, value = normal(2, 4, 37, 8), normal(2, 2, 53, 8), normal(2, 2, 53, 5)
    ask = Ask(top=3, pooled=(7, 5))
    with torch.no_grad():
        seen, exact = attend(query, key, value, ask=ask, **call), as_exact(query, key, value, ask, **call)
    assert seen.backend == "tiled"
    assert_close(seen.context.double(), exact.context, rtol=1e-5, atol=1e-5)
    for name in ("received", "entropy", "distance", "pooled"):
        found, expected = getattr(seen.pattern.known, name), getattr(exact.pattern.known, name)
        assert_close(found.double(), expected, rtol=1e-5, atol=1e-4 if name == "distance" else 1e-5)


@pytest.mark.parametrize("at_once", [1, 2**10, 2**22])
@pytest.mark.parametrize("kind", MADE)
def test_scores_and_masks_are_made_for_some_blocks_at_a_time(normal, monkeypatch, kind, at_once):
    monkeypatch.setattr(blocks, "MOST", 5)
    monkeypatch.setattr(blocks, "SCORES_IN_CACHE", 85)
    monkeypatch.setattr(reading, "MADE_AT_ONCE", at_once)
    call, type_of_made = MADE[kind]
    made, make = [], reading.Reading.make
    monkeypatch.setattr(reading.Reading, "make", lambda *given: made.append(given[2].dtype) or make(*given))
    check(normal, call)
    assert set(made) == {type_of_made}


@pytest.mark.parametrize("kind", LYING)
def test_masks_and_biases_are_read_where_they_lie(normal, monkeypatch, kind):
    monkeypatch.setattr(blocks, "MOST", 5)
    monkeypatch.setattr(blocks, "SCORES_IN_CACHE", 85)
    monkeypatch.setattr(reading.Reading, "make", None)
    check(normal, LYING[kind])


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 9), (9, 1), (7, 23), (23, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rule", [Alibi(), Alibi(offset=3), RelativeBias(2, n_buckets=6, max_distance=5)], ids=repr)
def test_a_rule_by_distance_has_a_number_for_each_distance(normal, rule, dtype, queries, keys):
    if isinstance(rule, RelativeBias):
        with torch.no_grad():
            rule.by_bucket.copy_(normal(6, 2))
    query, key = normal(1, 2, queries, 4).to(dtype), normal(1, 2, keys, 4).to(dtype)
    with torch.no_grad():
        pattern = attend(query, key, key, score=ScaledDot(bias=rule)).pattern
        weights = pattern.scores().double().softmax(dim=-1)
        assert_close(pattern.received().double(), weights.sum(dim=2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [1, 15, 16, 17, 31, 48, 63, 64, 65, 100, 128, 130])
@pytest.mark.parametrize("mask", [None, Causal(), Window(7, 0)], ids=repr)
def test_every_width_of_keys_and_values(normal, width, mask):
    """Around what fits the registers; nothing beyond a vector may count, be it NaN."""
    query, key = normal(1, 2, 45, width + 3)[..., :width], normal(1, 1, 70, width + 3)[..., :width]
    whole = normal(1, 1, 70, width + 40)
    whole[..., width:] = torch.nan
    seen = attend(query, key, whole[..., :width], mask=mask, ask=Ask())
    exact = attend(query.double(), key.double(), whole[..., :width].double(), mask=mask, ask=Ask())
    assert_close(seen.context.double(), exact.context, rtol=1e-5, atol=1e-5)
    assert_close(seen.pattern.known.received.double(), exact.pattern.known.received, rtol=1e-5, atol=1e-5)


def test_vectors_that_do_not_lie_in_one_piece(normal):
    query, key, value = (normal(2, 3, 8, 20).transpose(2, 3) for _ in range(3))
    assert query.stride(3) != 1
    seen, same = (attend(*(change(part) for part in (query, key, value)), ask=Ask()) for change in (id_, contiguous))
    assert torch.equal(seen.context, same.context)
    tokens_first = normal(2, 20, 3, 8).transpose(1, 2)
    seen, same = (attend(*[change(tokens_first)] * 3, ask=Ask()) for change in (id_, contiguous))
    assert torch.equal(seen.context, same.context)


def id_(tensor):
    return tensor


def contiguous(tensor):
    return tensor.contiguous()


def test_the_plan_of_a_rule_is_made_once_and_that_of_tensors_every_time(normal):
    query, lengths = normal(2, 1, 9, 4), torch.tensor([9, 4])
    for mask in (None, Causal(), Causal() & Window(3, 0), ~Window(2, 2)):
        grid = attend(query, query, query, mask=mask).pattern.grid
        assert Plan.of(grid, mask) is Plan.of(grid, mask)
    padding = Padding(lengths)
    before = attend(query, query, query, mask=padding).pattern.received()
    lengths[1] = 7
    after = attend(query, query, query, mask=padding).pattern.received()
    assert (before[1, 0] > 0).sum() == 4
    assert (after[1, 0] > 0).sum() == 7


def test_a_rule_of_somebody_elses_may_change(normal):
    keeps = [3]

    @dataclass(frozen=True)
    class Mine(Mask):
        def keep(self, tile, device):
            return tile.along(3, device) < keeps[0]

    query = normal(1, 1, 9, 4)
    assert (attend(query, query, query, mask=Mine()).pattern.received() > 0).sum() == 3
    keeps[0] = 5
    assert (attend(query, query, query, mask=Mine()).pattern.received() > 0).sum() == 5


def test_these_tests_test_the_compiled_pass():
    assert kernel.regard_blocks() is not None, "these tests need a C compiler"
