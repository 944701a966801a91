"""The most probable next tokens are those of torch.topk; PAD, BOS and tokens after the limit are never among them."""

import pytest
import torch

from regard.kernels import top_tokens as kernel
from regard.text.vocabulary import BOS, EOS, PAD
from regard.translation.search.next_token import top_tokens


@pytest.fixture(params=[torch.float32, torch.float64], ids=["kernel", "torch"])
def logits(request, normal):
    numbers = 3 * normal(5, 647).to(request.param)
    numbers[:, [PAD, BOS]] = 9.0
    assert kernel.kernel_reads(numbers) == (request.param == torch.float32)
    return numbers


def test_top_tokens_are_the_most_probable_without_pad_and_bos(logits):
    log_probabilities, tokens = top_tokens(logits, 4, length=0, limits=[9] * 5)
    expected = logits.double().log_softmax(dim=1)
    expected[:, [PAD, BOS]] = -torch.inf
    assert torch.tensor(log_probabilities) == pytest.approx(expected.topk(4).values, rel=1e-6, abs=3e-6)
    assert tokens == expected.topk(4).indices.tolist()


def test_a_translation_at_its_limit_must_end(logits):
    log_probabilities, tokens = top_tokens(logits, 2, length=7, limits=[8, 7, 8, 6, 9])
    known = logits.double().log_softmax(dim=1)
    for row, ends in enumerate([False, True, False, True, False]):
        assert (tokens[row][0] == EOS) == ends
        assert (log_probabilities[row][1] == -torch.inf) == ends
        assert log_probabilities[row][0] == pytest.approx(float(known[row, tokens[row][0]]), abs=3e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_fewer_tokens_are_allowed_the_others_have_minus_infinity(dtype):
    log_probabilities, _ = top_tokens(torch.zeros(2, 5, dtype=dtype), 7, length=0, limits=[9, 9])
    assert [sum(one > -torch.inf for one in row) for row in log_probabilities] == [3, 3]
