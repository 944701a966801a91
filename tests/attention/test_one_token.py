"""One query of each row, and tokens wherever they lie: the definition, for all sizes, and what is left to others."""

import pytest
import torch
from structs import fields_of
from torch.testing import assert_close

from regard.attention import compiled
from regard.attention.backends import one_token as module
from regard.attention.backends.one_token import Call, Vectors, one_token, why_not

PLACES, ROOM = 23, 41


def defined(query, key, value, places, lengths=None):
    """The same from the definition, in float64: row by row and head by head."""
    rows, heads, _, width = query.shape
    context = torch.zeros(rows, heads, width, dtype=torch.float64)
    for row in range(rows):
        n = places.shape[1] if lengths is None else int(lengths[row])
        for head in range(heads):
            of = head // (heads // key.shape[1])
            keys, values = (x[places[row, :n], of, torch.arange(n)].double() for x in (key, value))
            weights = (keys @ query[row, head, 0].double() / width**0.5).softmax(0)
            context[row, head] = weights @ values
    return context


@pytest.fixture
def call(normal):
    """call(rows, heads, key_heads, tokens, width) draws what a call is given, tokens in any place."""
    assert module.regard_one_token() is not None, "these tests need a C compiler"

    def draw(rows, heads, key_heads, tokens, width, scale=1.0):
        query = normal(rows, 3, heads, width)[:, 1, :, None] * scale  # as a part of something wider
        key, value = normal(2, PLACES, 2, key_heads, ROOM, width)[:, :, 1].unbind()
        places = torch.randint(PLACES, (rows, tokens), generator=torch.Generator().manual_seed(tokens))
        return query, key, value, places

    return draw


@pytest.mark.parametrize("width", [16, 32, 48, 64, 112])
@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 17, 32, 37])
@pytest.mark.parametrize(("rows", "heads", "key_heads"), [(1, 1, 1), (7, 6, 3), (19, 2, 1), (8, 3, 3)])
def test_it_is_the_definition(call, rows, heads, key_heads, tokens, width):
    given = call(rows, heads, key_heads, tokens, width)
    assert_close(one_token(*given).double(), defined(*given), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 1e5])
def test_scores_may_be_small_and_large(call, scale):
    given = call(11, 4, 2, 29, 32, scale)
    slack = 2e-6 * max(scale, 1.0)  # of float32 scores so large
    assert_close(one_token(*given).double(), defined(*given), rtol=1e-5, atol=slack)


def test_rows_may_have_tokens_of_their_own_number_and_what_lies_behind_them_never_shows(call):
    query, key, value, places = call(7, 6, 3, 37, 32)
    lengths = torch.tensor([1, 37, 16, 17, 5, 36, 2])
    expected = defined(query, key, value, places, lengths)
    for row, n in enumerate(lengths.tolist()):
        places[row, n:] = PLACES - 1
    used = torch.zeros(PLACES, ROOM, dtype=torch.bool)
    for row, n in enumerate(lengths.tolist()):
        used[places[row, :n], torch.arange(n)] = True
    for numbers in (key, value):
        numbers.masked_fill_(~used[:, None, :, None], torch.nan)
    assert_close(one_token(query, key, value, places, lengths).double(), expected, rtol=1e-5, atol=2e-6)


def test_a_row_without_tokens_reads_nothing(call):
    given = call(3, 2, 1, 5, 16)
    context = one_token(*given, torch.tensor([5, 0, 2]))
    assert bool((context[1] == 0).all())
    assert bool((context[[0, 2]] != 0).all())


@pytest.mark.parametrize("which", [0, 1, 2])
def test_nan_makes_the_rows_nan_that_read_it_and_no_others(call, which):
    query, key, value, places = call(5, 2, 2, 7, 16)
    places[:] = torch.arange(5)[:, None]
    (query, key, value)[which][3, 1] = torch.nan
    read = one_token(query, key, value, places).isnan()
    expected = torch.zeros(5, 2, 16, dtype=torch.bool)
    expected[3, 1] = True
    assert torch.equal(read, expected)


def test_one_place_may_be_said_for_all_tokens_of_a_row(call):
    query, key, value, _ = call(9, 4, 4, 13, 32)
    places = torch.tensor([3, 3, 3, 5, 5, 5, 11, 11, 11])[:, None]
    assert torch.equal(
        one_token(query, key, value, places.expand(-1, 13)),
        one_token(query, key, value, places.repeat(1, 13)),
    )


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_nothing(call, threads, monkeypatch):
    monkeypatch.setattr(module, "WORTH_THREADS", 1)
    given = call(57, 4, 2, 37, 32)
    alone = one_token(*given)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert torch.equal(one_token(*given), alone)
    monkeypatch.setattr(compiled, "parallel", lambda: None)  # another OpenMP than GNU's
    assert torch.equal(one_token(*given), alone)


@pytest.mark.parametrize(
    ("like", "reason"),
    [
        (torch.zeros(3, 16, device="meta"), "it runs on a CPU"),
        (torch.zeros(3, 16, dtype=torch.float64), "it computes in float32"),
        (torch.zeros(3, 24), "vectors have a multiple of 16 numbers, side by side"),
        (torch.zeros(16, 16).T, "vectors have a multiple of 16 numbers, side by side"),
        (torch.zeros(3, 16), None),
    ],
)
def test_it_says_what_it_cannot_do(like, reason):
    assert why_not(like) == reason


def test_without_a_compiler_it_says_so(monkeypatch):
    monkeypatch.setattr(module, "regard_one_token", lambda: None)
    assert why_not(torch.zeros(3, 16)) == "no C compiler was found"


@pytest.mark.parametrize("struct", [Call, Vectors])
def test_the_structs_have_the_fields_of_the_source_in_their_order(struct):
    assert [name for name, *_ in struct._fields_] == fields_of(module.SOURCE, struct.__name__)
