"""Test that a model with grouped key heads, rewritten with one key head per query head, has the same logits."""

import torch
from torch.testing import assert_close

from regard.export.ungrouped import repeat_heads, ungroup


def test_heads_are_repeated_where_they_stand():
    weight = torch.arange(8.0).reshape(4, 2)  # two heads of width 2
    expected = torch.tensor([[0.0, 1], [2, 3], [0, 1], [2, 3], [4, 5], [6, 7], [4, 5], [6, 7]])
    assert torch.equal(repeat_heads(weight, d_head=2, group=2), expected)
    assert torch.equal(repeat_heads(weight[:, 0], d_head=2, group=2), expected[:, 0])


def test_the_logits_are_the_same(contents_of):
    model = contents_of(n_key_heads=2, positions="rotary").model
    copy = ungroup(model)
    assert copy.config.n_key_heads is None
    source, target = torch.tensor([[5, 7, 11, 3], [13, 3, 0, 0]]), torch.tensor([[2, 5, 7], [2, 11, 13]])
    lengths = torch.tensor([4, 2])
    assert_close(copy(source, lengths, target).logits, model(source, lengths, target).logits)


def test_a_model_without_groups_is_itself(contents_of):
    model = contents_of().model
    assert ungroup(model) is model
