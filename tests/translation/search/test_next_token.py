"""The most probable next tokens are those of torch.topk, with chunks and without."""

import pytest
import torch
from torch.testing import assert_close

from regard.text.vocabulary import BOS, PAD
from regard.translation.search.next_token import CHUNK, top_tokens, topk


@pytest.mark.parametrize("rows", [3, 4, 29])
@pytest.mark.parametrize(("columns", "n"), [(17, 5), (20 * CHUNK, 5), (20 * CHUNK + 1, 5), (20 * CHUNK - 1, 1)])
def test_topk_is_torchs(normal, rows, columns, n):
    numbers = normal(rows, columns)
    numbers[0, -1] = 9.0
    for found, expected in zip(topk(numbers, n), numbers.topk(n, dim=1), strict=True):
        assert torch.equal(found, expected)


def test_top_tokens_are_those_of_the_last_step_without_pad_and_bos(normal):
    logits = 3 * normal(5, 2, 10 * CHUNK + 7)
    logits[:, :, [PAD, BOS]] = 9.0
    log_probability, tokens = top_tokens(logits, 4, length=0, limits=[9] * 5)
    expected = logits[:, 1].log_softmax(dim=1)
    expected[:, [PAD, BOS]] = -torch.inf
    assert_close(log_probability, expected.topk(4).values, rtol=1e-6, atol=3e-6)
    assert torch.equal(tokens, expected.topk(4).indices)


def test_where_fewer_tokens_are_allowed_the_others_have_minus_infinity():
    log_probability, _ = top_tokens(torch.zeros(2, 1, 5), 5, length=0, limits=[9, 9])
    assert (log_probability > -torch.inf).sum(dim=1).tolist() == [3, 3]
