"""Tests of the C functions' refusals of arguments that do not fit each other."""

import ctypes
from collections.abc import Callable

import pytest

from regard import Ask, Causal, attend
from regard.attention.statistics.cpu import engine
from regard.kernels.attention import Arguments
from regard.kernels.library import check_arguments

N = 2**40

HEADS = "batch is below 0, heads or group is below 1, or heads is not a multiple of group"

WRONG: dict[str, tuple[Callable[[Arguments], None], str]] = {
    "queries": (lambda a: setattr(a.statistics, "queries", -1), "queries or keys_of_head is below 0"),
    "fewer queries": (lambda a: setattr(a.statistics, "queries", 3), "a block goes past the last query"),
    "fewer keys": (lambda a: setattr(a.statistics, "keys_of_head", 3), "first_key_of_column goes past the last key"),
    "inverse": (lambda a: setattr(a.statistics, "inverse", None), "inverse is a null pointer"),
    "top": (lambda a: setattr(a.statistics, "top", -2), "top is below 0, or top_weights or top_keys is a null pointer"),
    "top keys": (
        lambda a: setattr(a.statistics, "top_keys", None),
        "top is below 0, or top_weights or top_keys is a null pointer",
    ),
    "received": (
        lambda a: setattr(a.statistics.received, "error", None),
        "received has only one of the pointers rounded and error",
    ),
    "pooled": (
        lambda a: setattr(a.statistics.pooled, "rounded", None),
        "pooled has only one of the pointers rounded and error",
    ),
    "map": (
        lambda a: setattr(a.statistics, "map_columns", 0),
        "map_rows or map_columns is below 0, or only one of them is 0",
    ),
    "map rows": (
        lambda a: setattr(a.statistics, "map_rows", 1),
        "map_row_of_query has a row that the map does not have",
    ),
    "batch": (lambda a: setattr(a, "batch", 1), "a block has a batch item or a head that does not exist"),
    "heads": (lambda a: setattr(a, "heads", 3), HEADS),
    "group": (lambda a: setattr(a, "group", 0), HEADS),
    "query": (lambda a: setattr(a.query, "numbers", None), "query or key is a null pointer"),
    "d_key": (lambda a: setattr(a, "d_key", -1), "d_key is below 0"),
    "stops": (lambda a: setattr(a, "stops", None), "only one of starts and stops is a null pointer"),
    "sums": (lambda a: setattr(a, "n_weighted_sums", 3), "n_weighted_sums is not 0, 1 or 2"),
    "values": (lambda a: setattr(a.weighted_sums[0].keys, "numbers", None), "a weighted sum has a null pointer"),
    "blocks": (lambda a: setattr(a, "bounds", None), "n_blocks is below 0, or bounds or scratch is a null pointer"),
    "scratch": (lambda a: setattr(a, "scratch_size", 64), "a block needs more scratch memory than scratch_size"),
}
"""By the name of a test: a function that makes valid arguments wrong, and the kernel's error message."""

BOUNDS = {
    0: (2, "a block has a batch item or a head that does not exist"),
    1: (-1, "a block has a batch item or a head that does not exist"),
    2: (6, "a block goes past the last query"),
    3: (N, "a block goes past the last query"),
    4: (5, "a block goes past the last key"),
    5: (N, "a block goes past the last key"),
    6: (0, "the width of a block (the keys in a part) must be 1 to its number of keys, or 0 if it has no keys"),
}
"""By the index among a block's bounds: a wrong number, and the kernel's error message."""


@pytest.fixture
def good(normal, monkeypatch):
    """Return a function: good(spoil) runs attention, and calls `spoil` on the arguments just before the kernel runs."""
    query, key, value = normal(2, 4, 7, 5), normal(2, 2, 7, 5), normal(2, 2, 7, 5)

    def run(spoil):
        def spoilt(name, arguments):
            spoil(arguments)
            check_arguments(name, arguments)

        monkeypatch.setattr("regard.attention.statistics.cpu.engine.check_arguments", spoilt)
        call = attend(query, key, value, mask=Causal()).pattern.call
        return engine.compute(call, Ask(received=True, top=2, pooled=(3, 2)), contexts=True)

    return run


def test_good_arguments_are_computed(good):
    assert good(lambda arguments: None).summary().received.shape == (2, 4, 7)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(good, name):
    spoil, reason = WRONG[name]
    with pytest.raises(RuntimeError) as refusal:
        good(spoil)
    assert str(refusal.value) == f"regard_attention refuses its arguments: {reason}; please report this."


@pytest.mark.parametrize("place", BOUNDS)
def test_a_block_beyond_the_tensors_is_refused(good, place):
    number, reason = BOUNDS[place]

    def spoil(arguments):
        bounds = ctypes.cast(arguments.bounds, ctypes.POINTER(ctypes.c_int64))
        kept.append(bounds[place])
        bounds[place] = number

    kept: list[int] = []
    try:
        with pytest.raises(RuntimeError) as refusal:
            good(spoil)
    finally:
        good(lambda arguments: restore(arguments, place, kept[0])) if kept else None
    assert str(refusal.value) == f"regard_attention refuses its arguments: {reason}; please report this."


def restore(arguments, place, number):
    """Restore a number of the first block's bounds, because the bounds are cached."""
    ctypes.cast(arguments.bounds, ctypes.POINTER(ctypes.c_int64))[place] = number


@pytest.mark.parametrize(("queries", "keys", "d_key", "d_value"), [(0, 5, 3, 3), (5, 0, 3, 3), (5, 7, 3, 0)])
def test_empty_tensors_are_good_arguments(normal, queries, keys, d_key, d_value):
    call = attend(normal(2, 3, queries, d_key), normal(2, 3, keys, d_key), normal(2, 3, keys, d_value)).pattern.call
    results = engine.compute(call, Ask(received=True), contexts=True)
    assert results.context.shape == (2, 3, queries, d_value)
