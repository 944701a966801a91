"""Tests of learned positions: a table whose rows are looked up by position and trained."""

import pytest
import torch
import torch.nn.functional as F
from refusals import refusal

from regard import LearnedPositions

POSITIONS = LearnedPositions(7, 4)


def test_positions_are_rows_of_a_trained_table():
    positions = LearnedPositions(max_tokens=7, d_model=3)
    assert torch.equal(positions(5), positions.by_position[:5])
    assert torch.equal(positions(2, first=5), F.embedding(torch.tensor([5, 6]), positions.by_position))
    assert positions(0).shape == (0, 3)
    positions(2, first=3).sum().backward()
    assert positions.by_position.grad.sum(dim=1).tolist() == [0, 0, 0, 3, 3, 0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: LearnedPositions(0, 4),
            "LearnedPositions(max_tokens=0, d_model=4) has no vectors; both must be at least 1.",
        ),
        (lambda: POSITIONS(-1), "n_tokens=-1 and first=0 count tokens, so neither may be negative."),
        (lambda: POSITIONS(3, first=-2), "n_tokens=3 and first=-2 count tokens, so neither may be negative."),
        (
            lambda: POSITIONS(3, first=5),
            "a text of 8 tokens is longer than the max_tokens=7 that have a learned position; "
            "shorten it, or build and train LearnedPositions with more.",
        ),
    ],
)
def test_refusals(without_type_checks, call, message):
    assert refusal(ValueError, call) == message
