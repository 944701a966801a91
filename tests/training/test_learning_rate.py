"""Schedules of the learning rate: by hand, and against PyTorch's own cosine."""

from itertools import pairwise
from typing import get_args

import pytest
import torch

from regard.training.learning_rate import ScheduleName, named_schedule


def test_inverse_square_root_is_equation_3_scaled_to_a_peak_of_1():
    d_model, warmup = 512, 4000
    peak = (d_model * warmup) ** -0.5
    for step in (1, 17, 3999, 4000, 4001, 100_000):
        paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert named_schedule("inverse-square-root", warmup, 50)(step) == pytest.approx(paper / peak, rel=1e-12)


def test_cosine_is_pytorchs_after_the_warmup():
    warmup, last = 7, 31
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=last - warmup)
    for step in range(warmup, last + 1):
        assert named_schedule("cosine", warmup, last)(step) == pytest.approx(optimiser.param_groups[0]["lr"], abs=1e-12)
        optimiser.step()
        theirs.step()


def test_constant_and_no_warmup_by_hand():
    assert [named_schedule("constant", 4, 50)(step) for step in (1, 2, 3, 4, 5, 500)] == [0.25, 0.5, 0.75, 1, 1, 1]
    assert named_schedule("constant", 0, 50)(1) == 1
    assert named_schedule("inverse-square-root", 0, 50)(4) == 0.5


@pytest.mark.parametrize("name", get_args(ScheduleName))
@pytest.mark.parametrize("warmup", [0, 1, 5])
def test_every_schedule_rises_to_1_and_never_again(name, warmup):
    schedule = named_schedule(name, warmup, 50)
    factors = [schedule(step) for step in range(1, 61)]
    assert max(factors) == (1 if warmup else pytest.approx(1, abs=2e-3))  # the first step of a cosine is below 1
    assert all(0 <= factor <= 1 for factor in factors)
    top = factors.index(max(factors))
    assert top <= max(warmup - 1, 0)
    assert all(later <= earlier for earlier, later in pairwise(factors[top:]))
