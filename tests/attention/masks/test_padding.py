"""Tests of `Padding`: a padded sequence gives the same result as the sequence alone, with padding on either side."""

import pytest
import torch
import torch.nn.functional as F
from refusals import refusal
from torch.testing import assert_close

from regard import Causal, Grid, Padding, Prefix, Window, attend


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("mask", [None, Causal(), Window(2, 1)])
def test_a_padded_sequence_reads_as_it_does_alone(normal, mask, side):
    lengths, longest = (3, 7, 5), 7
    items = [[normal(1, 2, length, 5) for _ in range(3)] for length in lengths]
    room = [(0, longest - length) if side == "right" else (longest - length, 0) for length in lengths]
    query, key, value = (
        torch.cat([F.pad(item[part], (0, 0, *pad), value=9.0) for item, pad in zip(items, room, strict=True)])
        for part in range(3)
    )
    padding = Padding(torch.tensor(lengths), side=side)
    seen = attend(query, key, value, mask=padding if mask is None else padding & mask)
    for number, (item, (before, after)) in enumerate(zip(items, room, strict=True)):
        alone = attend(*item, mask=mask)
        tokens = slice(before, longest - after)
        assert_close(seen.context[[number], :, tokens], alone.context)
        assert_close(seen.pattern[[number], :, tokens, tokens], alone.pattern.dense())
        padded = [key for key in range(longest) if key not in range(before, longest - after)]
        assert bool((seen.pattern[number, ..., padded] == 0).all())


def test_negative_lengths_are_refused():
    for build, given in (
        (lambda: Padding(torch.tensor([3, -2])), "Padding was given lengths[1]=-2"),
        (lambda: Prefix(torch.tensor([-1])), "Prefix was given length[0]=-1"),
    ):
        message = f"{given}; a length is a number of tokens, at least 0; give 0 for none."
        assert refusal(ValueError, build) == message


def test_lengths_are_not_read_on_another_device_nor_under_vmap(normal):
    assert Padding(torch.tensor([3, -2]).to("meta")).lengths.is_meta
    x, lengths = normal(2, 1, 1, 5, 3), torch.tensor([[3], [5]])
    found = torch.vmap(lambda x, lengths: attend(x, x, x, mask=Padding(lengths)).context)(x, lengths)
    assert_close(
        found, torch.stack([attend(*[item] * 3, mask=Padding(lengths[i])).context for i, item in enumerate(x)])
    )


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_lengths_of_any_whole_numbers(normal, dtype, side):
    query, lengths = normal(2, 1, 300, 3), [100, 7]
    mask = Padding(torch.tensor(lengths, dtype=dtype), side)
    seen = attend(query, query, query, mask=mask)
    for item, length in enumerate(lengths):
        tokens = slice(length) if side == "right" else slice(-length, None)
        alone = attend(query[[item]], query[[item], :, tokens], query[[item], :, tokens])
        assert_close(seen.context[[item]], alone.context)
        assert_close(seen.pattern[[item], ..., tokens], alone.pattern.dense())
        assert_close(seen.pattern.received()[[item], :, tokens], alone.pattern.received())


@pytest.mark.parametrize("n_lengths", [2, 4])
def test_too_few_lengths_are_refused_as_too_many_are(n_lengths):
    assert refusal(ValueError, lambda: Padding(torch.ones(n_lengths, dtype=torch.int64)).check(Grid(3, 1, 5, 5))) == (
        f"Padding was given {n_lengths} lengths for a batch of 3; give one for each item."
    )
