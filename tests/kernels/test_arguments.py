"""Tests of the C functions' refusals of arguments that do not fit each other."""

import ctypes
from collections.abc import Callable

import pytest
from refusals import refusal
from spoilt_arguments import spoil_arguments

from regard import Ask, Causal, attend
from regard.attention.statistics.cpu import engine
from regard.kernels.attention import Arguments

TOP = "top is below 0, or top_weights or top_keys is a null pointer"
HEADS = "batch is below 0, heads or group is below 1, or heads is not a multiple of group"
NO_SUCH_HEAD = "a block has a batch item or a head that does not exist"

WRONG: dict[str, tuple[Callable[[Arguments], None], str]] = {
    "queries": (lambda a: setattr(a.statistics, "queries", -1), "queries or keys_of_head is below 0"),
    "fewer queries": (lambda a: setattr(a.statistics, "queries", 3), "a block goes past the last query"),
    "fewer keys": (lambda a: setattr(a.statistics, "keys_of_head", 3), "first_key_of_column goes past the last key"),
    "inverse": (lambda a: setattr(a.statistics, "inverse", None), "inverse is a null pointer"),
    "top": (lambda a: setattr(a.statistics, "top", -2), TOP),
    "top keys": (lambda a: setattr(a.statistics, "top_keys", None), TOP),
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
    "batch": (lambda a: setattr(a, "batch", 1), NO_SUCH_HEAD),
    "heads": (lambda a: setattr(a, "heads", 3), HEADS),
    "group": (lambda a: setattr(a, "group", 0), HEADS),
    "query": (lambda a: setattr(a.query, "numbers", None), "query or key is a null pointer"),
    "d_key": (lambda a: setattr(a, "d_key", -1), "d_key is below 0"),
    "stops": (lambda a: setattr(a, "stops", None), "only one of starts and stops is a null pointer"),
    "sums": (lambda a: setattr(a, "n_weighted_sums", 3), "n_weighted_sums is not 0, 1 or 2"),
    "values": (lambda a: setattr(a.weighted_sums[0].vectors, "numbers", None), "a weighted sum has a null pointer"),
    "blocks": (lambda a: setattr(a, "bounds", None), "n_blocks is below 0, or bounds or scratch is a null pointer"),
    "scratch": (lambda a: setattr(a, "scratch_size", 64), "a block needs more scratch memory than scratch_size"),
}
"""By the name of a test: a function that makes valid arguments wrong, and the kernel's error message."""


def with_bound(place, number):
    """Return a function that changes one of the eight bounds of the first block, in a copy, since plans are cached."""

    def spoil(arguments):
        bounds = (ctypes.c_int64 * (8 * arguments.n_blocks)).from_address(arguments.bounds)
        arguments.copied = type(bounds)(*bounds)
        arguments.copied[place] = number
        arguments.bounds = ctypes.addressof(arguments.copied)

    return spoil


WRONG |= {
    "bound 0": (with_bound(0, 2), NO_SUCH_HEAD),
    "bound 1": (with_bound(1, -1), NO_SUCH_HEAD),
    "bound 2": (with_bound(2, 6), "a block goes past the last query"),
    "bound 3": (with_bound(3, 2**40), "a block goes past the last query"),
    "bound 4": (with_bound(4, 5), "a block goes past the last key"),
    "bound 5": (with_bound(5, 2**40), "a block goes past the last key"),
    "bound 6": (
        with_bound(6, 0),
        "the width of a block (the keys in a part) must be 1 to its number of keys, or 0 if it has no keys",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(normal, monkeypatch, name):
    spoil, reason = WRONG[name]
    spoil_arguments(monkeypatch, engine, spoil)
    call = attend(normal(2, 4, 7, 5), normal(2, 2, 7, 5), normal(2, 2, 7, 5), mask=Causal()).pattern.call
    message = f"regard_attention refuses its arguments: {reason}; please report this."
    ask = Ask(received=True, top=2, pooled=(3, 2))
    assert refusal(RuntimeError, engine.compute, call, ask, contexts=True) == message
