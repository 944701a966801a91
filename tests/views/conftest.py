"""A trace whose layers have different numbers of heads."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from regard import Trace


@pytest.fixture
def uneven(handmade: Callable[..., Trace]) -> Trace:
    """A trace of layers 1 and 4, of two heads and of four."""
    small, large = (handmade("a b c", n_layers=1, n_heads=heads) for heads in (2, 4))
    steps = {number: trace.attended["encoder"][0] for number, trace in ((1, small), (4, large))}
    return replace(small, attended={"encoder": steps})
