"""Tests of learned positions: a table whose rows are looked up by position and trained."""

import torch
import torch.nn.functional as F
from refusals import refusal

from regard import LearnedPositions


def test_learned_positions_are_looked_up_and_learned(normal):
    positions = LearnedPositions(max_tokens=7, d_model=3)
    assert torch.equal(positions(5), positions.by_position[:5])
    assert torch.equal(positions(2, first=5), F.embedding(torch.tensor([5, 6]), positions.by_position))
    assert positions(0).shape == (0, 3)
    positions(2, first=3).sum().backward()
    assert positions.by_position.grad.sum(dim=1).tolist() == [0, 0, 0, 3, 3, 0, 0]
    assert repr(positions) == "LearnedPositions(max_tokens=7, d_model=3)"


def test_refusals(unhooked):
    cases = [
        (
            lambda: LearnedPositions(0, 4),
            "LearnedPositions(max_tokens=0, d_model=4) has no vectors; both must be at least 1.",
        ),
        (
            lambda: LearnedPositions(7, 4)(-1),
            "n_tokens=-1 and first=0 count tokens, so neither may be negative.",
        ),
        (
            lambda: LearnedPositions(7, 4)(3, first=-2),
            "n_tokens=3 and first=-2 count tokens, so neither may be negative.",
        ),
        (
            lambda: LearnedPositions(7, 4)(3, first=5),
            "a text of 8 tokens is longer than the max_tokens=7 that have a learned position; "
            "shorten it, or build and train LearnedPositions with more.",
        ),
    ]
    assert [refusal(ValueError, call) for call, _ in cases] == [message for _, message in cases]
