"""Patterns under the masks of oracle.py, and their weights by the float64 reference and by plain torch."""

from functools import cache

import pytest
import torch
from oracle import BATCH, D_KEY, D_VALUE, HEADS, KEY_HEADS, eager, masks, matrix

import regard.attention.weights as weights_module
from regard import Softmax, attend
from regard.attention.backends.reference import reference

QUERIES, KEYS = 11, 19
SINKS = torch.linspace(-2, 3, HEADS, dtype=torch.float64)
SEEN = ["none", "causal", "causal behind", "window", "padding alone", "keep", "keep nothing", "of all kinds"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Make blocks of three queries, so that the last block of 11 queries is not full."""
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 3 * BATCH * HEADS * KEYS)


def inputs(dtype):
    generator = torch.Generator().manual_seed(0)
    shapes = (BATCH, HEADS, QUERIES, D_KEY), (BATCH, KEY_HEADS, KEYS, D_KEY), (BATCH, KEY_HEADS, KEYS, D_VALUE)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


@cache
def truth_and_control(name, dtype, temperature, sinks):
    formula = {"keep": matrix(masks(QUERIES, KEYS)[name][1], BATCH, HEADS, QUERIES, KEYS), "temperature": temperature}
    formula |= {"sinks": SINKS if sinks else None}
    return reference(*inputs(dtype), **formula)[1], eager(*inputs(dtype), **formula)[1]


def seen(name, dtype=torch.float64, temperature=1.0, sinks=False):
    """Return a pattern under a mask of oracle.py, and its weights by the float64 reference and by plain torch."""
    normalise = Softmax(temperature=temperature, sinks=SINKS if sinks else None)
    pattern = attend(*inputs(dtype), mask=masks(QUERIES, KEYS)[name][0], normalise=normalise).pattern
    return pattern, *truth_and_control(name, dtype, temperature, sinks)
