"""Tests of the cache of plans (the division of a call into blocks): only plans that no tensor can change are cached."""

from dataclasses import dataclass

import torch

from regard import Causal, Padding, Window, attend
from regard.attention.masks import Mask
from regard.attention.statistics.cpu.plan import Plan


def test_the_plan_of_a_mask_without_tensors_is_made_once_and_with_tensors_every_time(normal):
    query, lengths = normal(2, 1, 9, 4), torch.tensor([9, 4])
    for mask in (None, Causal(), Causal() & Window(3, 0), ~Window(2, 2)):
        grid = attend(query, query, query, mask=mask).pattern.grid
        assert Plan.of(grid, mask) is Plan.of(grid, mask)
    padding = Padding(lengths)
    before = attend(query, query, query, mask=padding).pattern.received()
    lengths[1] = 7
    after = attend(query, query, query, mask=padding).pattern.received()
    assert (before[1, 0] > 0).sum() == 4
    assert (after[1, 0] > 0).sum() == 7


def test_the_plan_of_a_mask_of_the_users_own_is_made_every_time(normal):
    keeps = [3]

    @dataclass(frozen=True)
    class Mine(Mask):
        def keep(self, tile, device):
            return tile.along(3, device) < keeps[0]

    query = normal(1, 1, 9, 4)
    assert (attend(query, query, query, mask=Mine()).pattern.received() > 0).sum() == 3
    keeps[0] = 5
    assert (attend(query, query, query, mask=Mine()).pattern.received() > 0).sum() == 5
