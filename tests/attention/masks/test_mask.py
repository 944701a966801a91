"""Tests of all masks: as boolean blocks and as key ranges against rules in plain Python, joined masks, refusals."""

import itertools
import runpy
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import BATCH, HEADS, SIZES, masks, matrix
from refusals import refusal

from regard import Ask, Causal, Chunked, Dilated, Documents, Global, Keep, Padding, Prefix, Window, attend, use_backend
from regard.attention.grid.grid import Grid
from regard.attention.masks import as_mask
from regard.attention.masks.mask import Mask
from regard.attention.masks.padding import Side
from regard.attention.representation import type_name

CPU = torch.device("cpu")

NO_RANGES = "dilated", "sparse transformer", "keep", "of all kinds"
"""Beginnings of the names of masks that are not made of ranges."""

TIGHT = {
    *("causal", "causal from the start", "causal ahead", "causal behind"),
    *("window", "window before the start", "window past the end", "padding", "padding alone", "padding for all"),
    *("padding on the left", "prefix", "prefix by item", "prefix from the start", "chunked"),
    *("chunked before the start", "global", "longformer", "llama 4"),
}
"""Masks whose key range for a block of queries is the smallest that has all keys allowed for the block."""


def kept(mask, grid):
    return mask.keep(grid.whole(), CPU).expand(grid.shape)


@pytest.mark.parametrize("name", [name for name in masks(11, 19) if name != "none"])
def test_blocks_ranges_and_reach_of_a_mask_follow_its_rule_in_plain_python(name):
    for queries, keys in SIZES:
        grid = Grid(BATCH, HEADS, queries, keys)
        mask, sees = masks(queries, keys).get(name, (None, None))
        if mask is None:  # documents take no more queries than keys
            assert queries > keys
            continue
        mask, expected = as_mask(mask), matrix(sees, *grid.shape)
        mask.check(grid)
        assert torch.equal(kept(mask, grid), expected)
        assert mask.per_query or mask.keep(grid.whole(), CPU).shape[2] == 1
        check_ranges(mask.ranges(grid, CPU), None if name.startswith(NO_RANGES) else expected)
        for start, stop in itertools.combinations(range(queries + 1), 2) if name in TIGHT else ():
            reach = mask.reach(grid, range(start, stop))
            seen = expected[:, :, start:stop].any(dim=2).any(dim=1).any(dim=0).nonzero().flatten().tolist()
            assert len(reach) == 0 if not seen else reach == range(seen[0], seen[-1] + 1)


def check_ranges(ranges, expected):
    """Fail unless the key ranges allow the same keys as a boolean matrix and never overlap; None = no ranges."""
    assert (ranges is None) == (expected is None)
    if ranges is None:
        return
    assert torch.equal(ranges.keep().expand(expected.shape), expected)
    key = torch.arange(ranges.n_keys)
    within = (key >= ranges.starts[..., None]) & (key < ranges.stops[..., None])
    assert int(within.sum(dim=0).max()) <= 1
    filled = ranges.without_empty()
    assert torch.equal(filled.keep(), ranges.keep())
    assert len(filled.starts) == 1 or bool((filled.starts < filled.stops).flatten(1).any(dim=1).all())


GRIDS = [Grid(2, 3, 5, 11), Grid(2, 3, 11, 11), Grid(2, 3, 11, 5), Grid(2, 3, 1, 7), Grid(2, 3, 4, 0), Grid(2, 3, 0, 4)]


@st.composite
def masks_on(draw, grid):
    """Draw a random mask that fits the grid, joined from up to about eight masks."""

    def tensor(*shape):
        seed = draw(st.integers(0, 99))
        return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < draw(st.sampled_from([0.1, 0.5, 0.9]))

    offset = st.none() | st.integers(-13, 13)
    n_items = draw(st.sampled_from([1, grid.batch]))
    lengths = st.lists(st.integers(0, grid.keys), min_size=n_items, max_size=n_items).map(torch.tensor)
    side, size = st.integers(0, 5), st.integers(1, 4)
    kinds = [
        st.builds(Causal, offset),
        st.builds(Prefix, st.integers(0, 13) | lengths, offset),
        st.builds(Window, side, side, offset),
        st.builds(Dilated, side, side, size, offset),
        st.builds(Chunked, size, offset),
        st.builds(Padding, lengths, st.sampled_from(get_args(Side))),
        st.builds(Keep, st.just(tensor(grid.batch, 1, grid.queries, grid.keys))),
        st.builds(Keep, st.just(tensor(grid.keys))),
        st.builds(Keep, st.just(tensor(grid.queries, 1))),
    ]
    if grid.keys > 0:
        positions = st.lists(st.integers(0, grid.keys - 1), min_size=1, max_size=3)
        kinds.append(st.builds(Global, positions, offset))
    if grid.queries <= grid.keys:
        ids = st.lists(st.integers(-2, 2), min_size=grid.keys, max_size=grid.keys)
        kinds.append(ids.map(lambda ids: Documents(torch.tensor(ids, dtype=torch.int64))))
    mask = st.recursive(
        st.one_of(kinds),
        lambda part: (
            st.builds(lambda a, b: a & b, part, part)
            | st.builds(lambda a, b: a | b, part, part)
            | part.map(lambda a: ~a)
        ),
        max_leaves=8,
    )
    return draw(mask)


grids_and_masks = st.sampled_from(GRIDS).flatmap(lambda grid: st.tuples(st.just(grid), masks_on(grid)))


@given(grids_and_masks, st.data())
def test_a_reach_contains_every_allowed_key_and_a_filled_reach_only_these(grid_and_mask, data):
    grid, mask = grid_and_mask
    start = data.draw(st.integers(0, grid.queries))
    queries = range(start, min(start + data.draw(st.sampled_from([0, 1, 2, grid.queries])), grid.queries))
    reach, rows = mask.reach(grid, queries), kept(mask, grid)[:, :, queries.start : queries.stop]
    assert not bool(rows[..., [key for key in range(grid.keys) if key not in reach]].any())
    assert len(reach) == 0 or (reach.start >= 0 and reach.stop <= grid.keys)
    assert not mask.fills_reach(grid, queries) or bool(rows[..., reach.start : reach.stop].all())


def test_a_reach_is_no_wider_than_it_must_be():
    cases = [
        (Causal(), range(0, 3), range(0, 9)),
        (Causal(0), range(2, 3), range(0, 3)),
        (Causal(-3), range(0, 3), range(0, 0)),
        (Causal(own=False), range(0, 3), range(0, 8)),
        (Window(1, 2), range(1, 3), range(6, 11)),
        (Window(1, 0, offset=0), range(3, 5), range(2, 5)),
        (Causal(0) & Window(1, 9, offset=0), range(3, 5), range(2, 5)),
        (Window(0, 0, offset=0) | Window(0, 0, offset=4), range(1, 2), range(1, 6)),
        (Window(3, 0, offset=20), range(1, 2), range(11, 11)),
        (Prefix(4), range(0, 1), range(0, 7)),
        (Prefix(9), range(0, 1), range(0, 9)),
        (Prefix(0, offset=-5), range(0, 5), range(0, 0)),
        (Prefix(torch.tensor([1, 10])), range(0, 1), range(0, 10)),
        (Prefix(torch.zeros(0, dtype=torch.int64)), range(0, 1), range(0, 7)),
        (Prefix(torch.tensor([1, 10]).to("meta")), range(0, 1), range(0, 11)),
        (Dilated(5, 3, 2), range(1, 2), range(3, 10)),
        (Dilated(2, 2, 3), range(1, 3), range(7, 9)),
        (Chunked(4), range(0, 2), range(4, 8)),
        (Chunked(4), range(1, 3), range(4, 11)),
        (Chunked(4, offset=-9), range(0, 5), range(0, 0)),
        (Global([2, 4]), range(0, 5), range(2, 5)),
        (Global([7, 2]), range(0, 1), range(2, 8)),
        (Global([7, 2]), range(0, 2), range(0, 11)),
        (Window(1, 1) | Global([0]), range(0, 1), range(0, 8)),
        (Padding(torch.tensor([1, 4])), range(1, 2), range(0, 4)),
        (Padding(torch.tensor([1, 4]), side="left"), range(1, 2), range(7, 11)),
        (Padding(torch.tensor([1, 99]), side="left"), range(1, 2), range(0, 11)),
        (Padding(torch.tensor([0])), range(1, 2), range(0, 0)),
        (Causal(0) & Padding(torch.tensor([3])), range(3, 4), range(0, 3)),
        (~~Causal(0), range(1, 2), range(0, 2)),
        (~Causal(0), range(1, 2), range(0, 11)),
    ]
    assert [(mask, queries, mask.reach(Grid(1, 1, 5, 11), queries)) for mask, queries, _ in cases] == cases


def test_masks_that_fill_their_reach():
    cases = [
        (Causal(), range(3, 4), True),
        (Causal(), range(3, 5), False),
        (Window(2, 1), range(0, 1), True),
        (Window(2, 1), range(0, 2), False),
        (Chunked(4), range(0, 1), True),
        (Chunked(4), range(0, 2), True),
        (Chunked(4), range(1, 3), False),
        (Causal(offset=9), range(2, 5), True),
        (Causal(offset=9, own=False), range(1, 5), False),
        (Padding(torch.tensor([4])), range(0, 5), True),
        (Padding(torch.tensor([4, 4]), side="left"), range(0, 5), True),
        (Padding(torch.tensor([4, 3])), range(0, 5), False),
        (Padding(torch.tensor([4]).to("meta")), range(0, 5), False),
        (Causal() & Padding(torch.tensor([4])), range(1, 2), True),
        (Causal() & Padding(torch.tensor([4, 3])), range(1, 2), False),
        (Causal() | Padding(torch.tensor([4])), range(1, 2), False),
        (Dilated(3, 3, 2), range(0, 1), False),
    ]
    assert [(mask, queries, mask.fills_reach(Grid(2, 1, 5, 11), queries)) for mask, queries, _ in cases] == cases


@given(grids_and_masks, st.data())
def test_a_tile_of_a_mask_is_that_tile_of_the_whole(grid_and_mask, data):
    grid, mask = grid_and_mask
    positions, chosen = [], []
    for size in grid.shape:
        start, step = data.draw(st.integers(0, size)), data.draw(st.integers(1, 3))
        spaced = range(start, data.draw(st.integers(start, size)), step)
        listed = torch.tensor(
            data.draw(st.lists(st.integers(0, size - 1), max_size=4)) if size else [], dtype=torch.int64
        )
        positions.append(data.draw(st.sampled_from([spaced, listed])))
        chosen.append(torch.as_tensor(list(positions[-1]), dtype=torch.int64))
    tile = grid.whole().part(*positions)
    part = mask.keep(tile, CPU).expand(tile.shape)
    assert torch.equal(part, kept(mask, grid)[torch.meshgrid(*chosen, indexing="ij")])


@given(st.sampled_from(GRIDS).flatmap(lambda grid: st.tuples(st.just(grid), masks_on(grid), masks_on(grid))))
def test_masks_obey_the_laws_of_logic(drawn):
    grid, left, right = drawn
    assert ~~left == left
    assert torch.equal(kept(~left, grid), ~kept(left, grid))
    assert torch.equal(kept(~(left & right), grid), kept(~left | ~right, grid))
    assert torch.equal(kept(~(left | right), grid), kept(~left & ~right, grid))
    assert torch.equal(kept(left & right, grid), kept(right & left, grid))
    assert not bool(kept(left & ~left, grid).any())
    assert bool(kept(left | ~left, grid).all())
    assert torch.equal(kept(left & (left | right), grid), kept(left, grid))


def test_masks_by_hand_whose_queries_are_the_last_tokens():
    assert kept(Causal(), Grid(1, 1, 2, 4))[0, 0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert kept(Causal(0), Grid(1, 1, 2, 4))[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0]]
    assert kept(Causal(own=False), Grid(1, 1, 2, 4))[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]
    assert kept(Causal(), Grid(1, 1, 3, 2))[0, 0].int().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert kept(Window(1, 0), Grid(1, 1, 2, 4))[0, 0].int().tolist() == [[0, 1, 1, 0], [0, 0, 1, 1]]
    assert kept(Window(0, 1, offset=0), Grid(1, 1, 2, 4))[0, 0].int().tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]
    assert kept(Documents(torch.tensor([5, 5, 2, 2])), Grid(1, 1, 2, 4))[0, 0].int().tolist() == [[0, 0, 1, 1]] * 2
    assert kept(Padding(torch.tensor([1, 0])), Grid(2, 1, 1, 2)).flatten().int().tolist() == [1, 0, 0, 0]
    left = Padding(torch.tensor([1, 0]), side="left")
    assert kept(left, Grid(2, 1, 1, 2)).flatten().int().tolist() == [0, 1, 0, 0]
    assert kept(Prefix(3), Grid(1, 1, 3, 4))[0, 0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert kept(Dilated(3, 0, 2), Grid(1, 1, 2, 5))[0, 0].int().tolist() == [[0, 1, 0, 1, 0], [0, 0, 1, 0, 1]]
    assert kept(Chunked(2), Grid(1, 1, 2, 5))[0, 0].int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    assert kept(Global([2]), Grid(1, 1, 3, 4))[0, 0].int().tolist() == [[0, 0, 1, 0], [1, 1, 1, 1], [0, 0, 1, 0]]


def test_the_demo_draws_every_kind(capsys):
    runpy.run_module("regard.attention.masks", run_name="__main__")
    drawn = capsys.readouterr().out.splitlines()
    assert [line for line in drawn if not line.startswith("    ")] == [
        "Causal()",
        "Prefix(length=3)",
        "Window(before=2, after=1)",
        "Dilated(before=4, after=2, step=2)",
        "Chunked(size=3)",
        "Global(positions=(0, 5))",
        "Documents(ids=<int64 [8]>)",
        "Padding(lengths=<int64 [1]>)",
        "Padding(lengths=<int64 [1]>, side='left')",
        "(Causal() & Documents(ids=<int64 [8]>))",
        "(Window(before=1, after=1) | Global(positions=(0,)))",
        "~Causal()",
    ]
    assert drawn[3] == "    ● ● ● · · · · ·"
    assert drawn[-6] == "    · · · ● ● ● ● ●"
    assert len(drawn) == 12 * 9


# Refusals


SIDES = "has a negative number of tokens before or after the query; use 0 for none."
AXES = "lengths of shape [1, 2]; with a batch of 2 it takes [2], one for each item."
POSITIONS = "names tokens by their position, counted from 0; give at least one, and none below 0."


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(-1, 0), f"Window(before=-1, after=0) {SIDES}"),
        (lambda: Window(2, -3), f"Window(before=2, after=-3) {SIDES}"),
        (lambda: Prefix(-1), "Prefix(length=-1) counts keys from the first, so it must be at least 0."),
        (lambda: Dilated(-1, 2, 3), f"Dilated(before=-1, after=2) {SIDES}"),
        (
            lambda: Dilated(1, 2, 0),
            "Dilated(step=0): step is the distance between allowed keys, so it must be at least 1.",
        ),
        (lambda: Chunked(0), "Chunked(size=0): size is the length of a chunk, so it must be at least 1."),
        (lambda: Global([]), f"Global(positions=[]) {POSITIONS}"),
        (lambda: Global([3, -1]), f"Global(positions=[3, -1]) {POSITIONS}"),
        (
            lambda: Padding(torch.tensor([3]), side="both"),
            'Padding(side=\'both\') is unknown; give "right" (the padding is after the tokens) or "left".',
        ),
        (lambda: Padding(torch.tensor([[1, 2]])).check(Grid(2, 3, 5, 7)), f"Padding was given {AXES}"),
        (lambda: Prefix(torch.tensor([[1, 2]])).check(Grid(2, 3, 5, 7)), f"Prefix was given {AXES}"),
    ],
)
def test_numbers_that_make_no_mask_are_refused(without_type_checks, make, message):
    assert refusal(ValueError, make) == message


def test_and_or_not_of_python_are_refused():
    """Without the refusal, Python would return one of the two masks, or False."""
    for use in (lambda: Causal() and Window(1, 0), lambda: Causal() or Window(1, 0), lambda: not Causal()):
        message = "Causal() is neither true nor false; join masks with & (and), | (or), ~ (not)."
        assert refusal(TypeError, use) == message


@pytest.mark.parametrize("joined", [lambda m: m, lambda m: ~m, lambda m: m & Causal(), lambda m: Causal() | m])
def test_a_mask_that_does_not_fit_is_refused_however_it_is_joined(joined):
    def message(mask, queries=5, keys=7):
        return refusal(ValueError, joined(mask).check, Grid(2, 3, queries, keys))

    for kind in (Padding, Prefix):
        assert message(kind(torch.tensor([1, 2, 3]))) == (
            f"{kind.__name__} was given 3 lengths for a batch of 2; give one for each item."
        )
    assert message(Global([2, 7, 4])) == (
        "Global was given position 7, but there are 7 keys; positions count from 0, so they must be below 7."
    )
    for shape in [(5,), (3, 7), (1, 1, 7)]:
        assert message(Documents(torch.zeros(shape).long())) == (
            f"Documents was given ids of shape {list(shape)}; with batch=2, heads=3, queries=5, keys=7 it takes [7] "
            "or [2, 7], the document of each key."
        )
    assert message(Documents(torch.zeros(5).long()), queries=7, keys=5) == (
        "Documents takes the queries to be the last of the tokens, but there are 7 queries and only 5 keys; "
        "use Keep with a boolean tensor instead."
    )
    for shape in [(5,), (7, 5), (2, 1, 7), (1, 2, 1, 5, 7)]:
        assert message(Keep(torch.ones(shape).bool())) == (
            f"mask of shape {list(shape)} does not broadcast to [2, 3, 5, 7] (batch, heads, queries, keys); "
            "every axis must have that size or 1."
        )


def test_a_boolean_tensor_is_a_mask_and_numbers_are_refused(without_type_checks):
    assert as_mask(None) is None
    assert as_mask(causal := Causal()) is causal
    assert isinstance(as_mask(torch.ones(3).bool()), Keep)
    for dtype, kind in itertools.product((torch.float32, torch.int64), (as_mask, Keep)):
        assert refusal(TypeError, kind, torch.ones(3, dtype=dtype)) == (
            f"mask has dtype {dtype}; a mask is boolean, True = may attend: mask.bool() makes one of 1 and 0. "
            "Numbers to be added to the scores are a bias: score=ScaledDot(bias=…)."
        )


TENSOR = "it takes a tensor of whole numbers, such as torch.tensor([5, 3])."
WHOLE = "it takes a whole number, such as 3"
JOINED = "a mask can be joined only with another mask, not with {}; give a boolean tensor as Keep(tensor)."
MASK = "mask is {}; it takes a Mask such as Causal(), a boolean tensor (True = may attend) or None."
FLAGS = torch.ones(2, 7, dtype=torch.bool)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Padding([5, 3]), f"Padding was given lengths=[5, 3]; {TENSOR}"),
        (
            lambda: Padding(FLAGS),
            f"Padding was given lengths=<bool [2, 7]>; {TENSOR} A boolean tensor is a mask itself: mask=….",
        ),
        (lambda: Prefix(torch.ones(2)), f"Prefix was given length=<float32 [2]>; {TENSOR}"),
        (lambda: Documents((0, 0, 1)), f"Documents was given ids=(0, 0, 1); {TENSOR}"),
        (lambda: Window(1.5, 0), f"Window was given before=1.5; {WHOLE}."),
        (lambda: Window(1, "0"), f"Window was given after='0'; {WHOLE}."),
        (lambda: Window(True, 0), f"Window was given before=True; {WHOLE}."),
        (lambda: Window(1, None), f"Window was given after=None; {WHOLE}."),
        (lambda: Window(1, 0, 1.5), f"Window was given offset=1.5; {WHOLE}, or None."),
        (lambda: Dilated(6, 2.5, 2), f"Dilated was given after=2.5; {WHOLE}."),
        (lambda: Dilated(6, 2, 1.5), f"Dilated was given step=1.5; {WHOLE}."),
        (lambda: Dilated(6, 2, 1, torch.tensor(1.0)), f"Dilated was given offset=<float32 []>; {WHOLE}, or None."),
        (lambda: Chunked(2.0), f"Chunked was given size=2.0; {WHOLE}."),
        (lambda: Chunked(2, 0.5), f"Chunked was given offset=0.5; {WHOLE}, or None."),
        (lambda: Causal(offset=1.5), f"Causal was given offset=1.5; {WHOLE}, or None."),
        (lambda: Prefix(3, 1.5), f"Prefix was given offset=1.5; {WHOLE}, or None."),
        (lambda: Prefix(1.5), f"Prefix was given length=1.5; {WHOLE}."),
        (lambda: Global([0, 1.5]), f"Global was given position=1.5; {WHOLE}."),
        (lambda: Global([0], 1.5), f"Global was given offset=1.5; {WHOLE}, or None."),
        (lambda: Global(1.5), "Global(1.5) is given a number; it takes a list of positions: Global([1.5])."),
        (lambda: Global(3), "Global(3) is given a number; it takes a list of positions: Global([3])."),
        (lambda: Causal() & FLAGS, JOINED.format("a Tensor")),
        (lambda: FLAGS | Causal(), JOINED.format("a Tensor")),
        (lambda: Causal | Padding(torch.tensor([3])), JOINED.format("the class Causal")),
        (lambda: as_mask(Causal), MASK.format("the class Causal")),
        (lambda: as_mask(True), MASK.format("a bool")),
        (lambda: as_mask([[True]]), MASK.format("a list")),
        (lambda: as_mask("causal"), MASK.format("a str")),
    ],
)
def test_arguments_of_another_type_are_refused(without_type_checks, make, message):
    assert refusal(TypeError, make) == message


def test_the_message_for_a_mask_of_batch_and_keys_says_where_to_add_axes():
    assert refusal(ValueError, Keep(FLAGS).check, Grid(2, 3, 5, 7)) == (
        "mask of shape [2, 7] does not broadcast to [2, 3, 5, 7] (batch, heads, queries, keys); every axis must have "
        "that size or 1. A mask of shape [batch keys] is given as mask[:, None, None]."
    )


def test_arguments_may_be_whole_numbers_of_numpy_and_torch(without_type_checks):
    grid = Grid(1, 1, 5, 7)
    for whole in (np.int64, torch.tensor):
        for of in (lambda n: Window(n(2), n(1)), lambda n: Chunked(n(3)), lambda n: Causal(offset=n(1))):
            assert torch.equal(kept(of(whole), grid), kept(of(int), grid))
            assert of(whole).reach(grid, range(1, 3)) == of(int).reach(grid, range(1, 3))
            assert of(whole).fills_reach(grid, range(1, 3)) == of(int).fills_reach(grid, range(1, 3))
    assert repr(Prefix(np.int64(3))) == "Prefix(length=3)"
    Prefix(np.int64(3)).check(grid)


CAUSAL_OF_WRONG_SHAPE = {
    "no axis": lambda keep: keep[0, 0, 0, 0],
    "keys": lambda keep: keep[0, 0, 0],
    "queries keys": lambda keep: keep[0, 0],
    "heads queries keys": lambda keep: keep[0],
    "five axes": lambda keep: keep[:, None],
    "too many keys": lambda keep: torch.cat([keep, keep], dim=3),
}


@pytest.mark.parametrize("join", ["{}", "~{}", "({} & Causal())", "(Causal() | {})"])
@pytest.mark.parametrize("shape", CAUSAL_OF_WRONG_SHAPE)
@pytest.mark.parametrize("backend", ["fused", "tiled", "reference", "flex"])
def test_a_mask_of_ones_own_has_four_axes_of_its_tile(backend, shape, join):
    class Own(Mask):
        def keep(self, tile, device):
            keep = tile.key_positions(device) <= tile.query_positions(device)
            return CAUSAL_OF_WRONG_SHAPE[shape](keep)

    x = torch.ones(1, 2, 5, 3)
    mask = eval(join.format("Own()"), {"Causal": Causal, "Own": Own})
    with use_backend(backend):
        message = refusal(ValueError, attend, x, x, x, mask=mask)
    tile = [1, 1, 5, 5] if backend == "tiled" else [1, 2, 5, 5]
    returned = list(CAUSAL_OF_WRONG_SHAPE[shape](torch.ones(1, 1, 5, 5)).shape)
    assert message == (
        f"Own returned a tensor of shape {returned} for a tile of shape {tile} (batch, heads, queries, keys); it must "
        "have these four axes, each of that size or of size 1. tile.query_positions and tile.key_positions have four "
        "axes, and tile.select(tensor) is the tile's part of a larger tensor."
    )


@pytest.mark.parametrize("join", ["{}", "~{}", "({} & Causal())", "(Causal() | {})"])
@pytest.mark.parametrize("returned", [torch.ones(1, 1, 5, 5), torch.ones(1, 1, 5, 5).int(), True, None])
def test_a_mask_of_ones_own_is_boolean(returned, join):
    class Own(Mask):
        def keep(self, tile, device):
            return returned

    x = torch.ones(1, 2, 5, 3)
    mask = eval(join.format("Own()"), {"Causal": Causal, "Own": Own})
    name = f"a tensor of dtype {returned.dtype}" if isinstance(returned, torch.Tensor) else type_name(returned)
    expected = f"Own.keep returned {name}; it must return a boolean tensor, True = may attend."
    assert refusal(TypeError, attend, x, x, x, mask=mask) == expected
    assert refusal(TypeError, attend, x, x, x, mask=mask, ask=Ask()) == expected
