"""Tests of `Window` and `Dilated`: how both are related, and transformers' sliding window."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers.masking_utils import sliding_window_causal_mask_function

from regard import Causal, Dilated, Window, attend
from regard.attention.grid.grid import Grid

CPU = torch.device("cpu")
GRID = Grid(1, 1, 11, 19)
SIDE = st.integers(0, 7)


def kept(mask):
    return mask.keep(GRID.whole(), CPU).expand(GRID.shape)


@given(SIDE, SIDE, st.none() | st.integers(-7, 23))
def test_a_dilated_window_of_step_1_is_a_window(before, after, offset):
    assert torch.equal(kept(Dilated(before, after, 1, offset)), kept(Window(before, after, offset)))
    for queries in (range(0, 3), range(4, 5), range(11)):
        reach = Window(before, after, offset).reach(GRID, queries)
        assert Dilated(before, after, 1, offset).reach(GRID, queries) == reach


@given(SIDE, SIDE, st.integers(1, 5))
def test_a_dilated_window_allows_one_key_of_each_step(before, after, step):
    dilated = kept(Dilated(before, after, step))[0, 0].int()
    assert not bool((dilated > kept(Window(before, after))[0, 0]).any())
    position = 10  # of the query in the middle, whose window lies within the keys
    assert dilated[2].sum() == 1 + before // step + min(after, 18 - position) // step
    assert dilated[2, position] == 1
    assert not bool((dilated[:, 1:] & dilated[:, :-1]).any()) or step == 1


def test_a_dilated_window_reads_what_an_undilated_one_reads_of_every_second_token(normal):
    query, key, value = normal(2, 3, 19, 5), normal(2, 3, 19, 5), normal(2, 3, 19, 5)
    whole = attend(query, key, value, mask=Dilated(6, 4, 2))
    for start in (0, 1):
        half = attend(*(tensor[:, :, start::2] for tensor in (query, key, value)), mask=Window(3, 2))
        assert_close(whole.context[:, :, start::2], half.context)


def test_a_causal_window_is_transformers_sliding_window():
    slides = sliding_window_causal_mask_function(5)
    numbers = torch.arange(19)
    expected = slides(0, 0, numbers[8:, None], numbers[None])
    assert torch.equal(kept(Window(4, 0))[0, 0], expected)
    assert torch.equal(kept(Causal() & Window(4, 3))[0, 0], expected)
