"""Traces for the tests of several views."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from regard import Causal, Trace


@pytest.fixture
def uneven(handmade: Callable[..., Trace]) -> Trace:
    """A trace of layers 1 and 4, of two heads and of four."""
    small, large = (handmade("a b c", n_layers=1, n_heads=heads) for heads in (2, 4))
    steps = {number: trace.attended["encoder"][0] for number, trace in ((1, small), (4, large))}
    return replace(small, attended={"encoder": steps})


@pytest.fixture
def encoder_decoder(handmade: Callable[..., Trace]) -> Trace:
    source, target = handmade("a b"), handmade("x y", mask=Causal(), kind="decoder")
    return replace(source, target_text="x y", target=target.target, attended={**source.attended, **target.attended})
