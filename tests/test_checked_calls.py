"""Tests that the checks of shapes and types, switched on for all tests, find a wrong call."""

from collections import defaultdict

import checked_calls
import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from regard import Causal, Sparsemax, attend
from regard.attention import weights
from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.sparsemax import sparsemax

ROWS, ONE_AXIS = torch.zeros(1, 1, 1, 3), torch.zeros(3)


@pytest.mark.parametrize("test", ["the first", "the second"])
def test_the_first_calls_in_a_test_are_checked(test):
    with pytest.raises(TypeCheckError):
        sparsemax(ONE_AXIS)
    with pytest.raises(TypeCheckError):
        Tile(Grid(1, 1, 1, 1), range(1), range(1), range(1), "keys")  # a dataclass
    for _ in range(checked_calls.CHECKED_CALLS):
        sparsemax(ROWS)
    assert sparsemax(ONE_AXIS).tolist() == pytest.approx([1 / 3] * 3)


def test_a_function_inside_a_function_is_checked(monkeypatch):
    monkeypatch.setattr(checked_calls, "inner_budgets", defaultdict(lambda: checked_calls.Budget(later=0)))
    monkeypatch.setattr(weights, "weighted_sum", lambda weights, keep, value: ONE_AXIS)
    with pytest.raises(
        TypeCheckError, match=r"return value of regard\.attention\.weights\.context_of\.<locals>\.block"
    ):
        attend(ROWS, ROWS, ROWS, mask=Causal(), normalise=Sparsemax())


@pytest.mark.parametrize("test", ["the first", "the second"])
def test_all_definitions_of_an_inner_function_share_its_checks(test):
    def defined():
        @checked_calls.jaxtyped(typechecker=beartype)
        def length(vector: Float[Tensor, " n"]) -> int:
            return len(vector)

        return length

    for _ in range(checked_calls.CHECKED_CALLS):
        with pytest.raises(TypeCheckError):
            defined()(ROWS)
    assert defined()(ROWS) == 1


@pytest.mark.parametrize("later", [1, 0])
def test_after_the_first_tests_fewer_calls_are_checked(later):
    budget, checked = checked_calls.Budget(later), []
    for _ in range(checked_calls.FIRST_TESTS + 2):
        checked_calls.begin_test()
        checked.append(sum(budget.spend() for _ in range(9)))
    assert checked == [checked_calls.CHECKED_CALLS] * checked_calls.FIRST_TESTS + [later] * 2
