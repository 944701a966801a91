"""The checks of shapes and types under which the tests run see a wrong call, in every test anew."""

import checked_calls
import pytest
import torch
from jaxtyping import TypeCheckError

from regard.attention.grid.grid import Grid
from regard.attention.normalise.sparsemax import sparsemax

ROWS, ONE_AXIS = torch.zeros(1, 1, 1, 3), torch.zeros(3)


@pytest.mark.parametrize("test", ["the first", "the second"])
def test_the_first_calls_in_a_test_are_checked(test):
    with pytest.raises(TypeCheckError):
        sparsemax(ONE_AXIS)
    with pytest.raises(TypeCheckError):
        Grid(1, 1, 1, "keys")  # a dataclass
    for _ in range(checked_calls.CHECKED_CALLS):
        sparsemax(ROWS)
    assert sparsemax(ONE_AXIS).tolist() == pytest.approx([1 / 3] * 3)
