"""Tests of `Padding`: a padded sequence gives the same result as the sequence alone, with padding on either side."""

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import Causal, Grid, Padding, Prefix, Window, attend


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("mask", [None, Causal(), Window(2, 1)])
def test_a_padded_sequence_reads_as_it_does_alone(normal, mask, side):
    lengths, n_tokens = (3, 7, 5), 7
    items = [normal(3, 1, 2, length, 5) for length in lengths]
    padded = torch.full((3, 3, 2, n_tokens, 5), 9.0)
    tokens = [slice(length) if side == "right" else slice(n_tokens - length, n_tokens) for length in lengths]
    for number, item in enumerate(items):
        padded[:, [number], :, tokens[number]] = item
    padding = Padding(torch.tensor(lengths), side=side)
    seen = attend(*padded, mask=padding if mask is None else padding & mask)
    for number, item in enumerate(items):
        alone, here = attend(*item, mask=mask), tokens[number]
        assert_close(seen.context[[number], :, here], alone.context)
        assert_close(seen.pattern[[number], :, here, here], alone.pattern.dense())
        is_padding = torch.ones(n_tokens).bool().index_fill(0, torch.arange(n_tokens)[here], False)
        assert bool((seen.pattern.dense()[number][..., is_padding] == 0).all())


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
