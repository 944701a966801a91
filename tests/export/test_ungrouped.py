"""Test that a model with grouped key heads, rewritten with one key head per query head, has the same logits."""

import torch
from torch.testing import assert_close

from regard.export.ungrouped import ungroup


def test_the_logits_are_the_same(translator_of):
    model = translator_of(n_key_heads=2, positions="rotary").model
    copy = ungroup(model)
    assert copy.config.n_key_heads is None
    source, target = torch.tensor([[5, 7, 11, 3], [13, 3, 0, 0]]), torch.tensor([[2, 5, 7], [2, 11, 13]])
    lengths = torch.tensor([4, 2])
    assert_close(copy(source, lengths, target).logits, model(source, lengths, target).logits)


def test_a_model_without_groups_is_itself(translator_of):
    model = translator_of().model
    assert ungroup(model) is model
