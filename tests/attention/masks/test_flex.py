"""Tests of `mask_mod`: FlexAttention's masks equal the masks that `attend` uses, for single and joined masks.

`test_torch_tools.py` compiles FlexAttention with such a mask.
"""

from dataclasses import dataclass

import pytest
import torch
from oracle import BATCH, HEADS, masks, matrix
from refusals import refusal
from torch.nn.attention.flex_attention import create_block_mask, create_mask

from regard import Causal, Documents, Grid, Keep, Mask, Padding, Prefix, mask_mod
from regard.attention.stages import on_device


@pytest.mark.parametrize("name", [name for name in masks(11, 19) if name != "none"])
def test_flex_attention_makes_the_same_mask(name):
    for queries, keys in [(11, 19), (19, 17), (1, 19)]:
        mask, sees = masks(queries, keys).get(name, (None, None))
        if mask is not None:
            grid = Grid(BATCH, HEADS, queries, keys)
            made = create_mask(mask_mod(mask, grid), BATCH, HEADS, queries, keys, device="cpu")
            assert torch.equal(made, matrix(sees, *grid.shape))


def test_a_block_mask_leaves_out_blocks_that_no_query_sees():
    grid = Grid(1, 1, 512, 512)
    block_mask = create_block_mask(mask_mod(Causal(), grid), 1, 1, 512, 512, device="cpu", BLOCK_SIZE=128)
    assert block_mask.kv_num_blocks.tolist() == [[[1, 1, 1, 1]]]  # of blocks that are seen in part: the diagonal
    assert block_mask.full_kv_num_blocks.tolist() == [[[0, 1, 2, 3]]]


def test_tensors_move_to_the_device_before_they_are_needed():
    mask = (Prefix(torch.tensor([1, 2])) & ~Documents(torch.arange(7))) | (Causal(3) & Keep(torch.ones(7).bool()))
    moved = on_device(mask, torch.device("meta"))
    assert repr(moved) == repr(mask)
    assert [moved.left.left.length.device.type, moved.left.right.mask.ids.device.type] == ["meta", "meta"]
    assert moved.right.right.tensor.device.type == "meta"
    assert mask.left.left.length.device.type == "cpu"
    assert moved.right.left == Causal(3)


def test_mask_mod_takes_masks_of_the_users_own():
    class Odd(Mask):
        def keep(self, tile, device):
            return (tile.along(2, device) + tile.along(3, device)) % 2 == 1

    @dataclass(frozen=True, repr=False)
    class EveryHead(Mask):
        step: int

        def keep(self, tile, device):
            return tile.along(1, device) % self.step == 0

    made = create_mask(mask_mod(Odd() | EveryHead(2), Grid(2, 3, 5, 7)), 2, 3, 5, 7, device="cpu")
    assert torch.equal(made, matrix(lambda b, h, i, j: (i + j) % 2 == 1 or h % 2 == 0, 2, 3, 5, 7))


@pytest.mark.parametrize(
    ("mask", "kind", "message"),
    [
        (None, TypeError, "mask is None; without a mask, call flex_attention without its argument block_mask."),
        (
            "causal",
            TypeError,
            "mask is a str; it takes a Mask such as Causal(), a boolean tensor (True = may attend) or None.",
        ),
        (
            ~Padding(torch.tensor([1, 2, 3])),
            ValueError,
            "Padding was given 3 lengths for a batch of 2; give one for each item.",
        ),
        (
            torch.ones(5, dtype=torch.bool),
            ValueError,
            "mask of shape [5] does not broadcast to [2, 3, 5, 7] (batch, heads, queries, keys); "
            "every axis must have that size or 1.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(without_type_checks, mask, kind, message):
    assert refusal(kind, lambda: mask_mod(mask, Grid(2, 3, 5, 7))) == message


def test_a_mask_of_ones_own_that_is_not_elementwise_has_no_mask_mod():
    class EveryThird(Mask):
        def keep(self, tile, device):
            return (torch.arange(6) % 3 == 0)[None, None, None]

    allows = mask_mod(EveryThird(), Grid(1, 1, 5, 6))
    assert refusal(ValueError, allows, *torch.zeros(4, dtype=torch.int64)) == (
        "EveryThird returned a tensor of shape [1, 1, 1, 6] for one query and one key, but FlexAttention needs a "
        "scalar; compute it from tile.query_positions, tile.key_positions, tile.along and tile.select, by elementwise "
        "operations."
    )
