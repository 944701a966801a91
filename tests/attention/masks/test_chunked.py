"""Tests of `Chunked`: each chunk attends as if it were alone, and the mask equals transformers' mask for Llama 4."""

import pytest
import torch
from torch.testing import assert_close
from transformers.masking_utils import chunked_causal_mask_function

from regard import Causal, Chunked, attend
from regard.attention.grid.grid import Grid


def test_each_chunk_reads_as_it_does_alone(normal):
    query, key, value = normal(2, 3, 17, 5), normal(2, 3, 17, 5), normal(2, 3, 17, 11)
    for mask, joined in [(None, Chunked(7)), (Causal(), Causal() & Chunked(7))]:
        seen = attend(query, key, value, mask=joined)
        parts = zip(*(tensor.split(7, dim=2) for tensor in (query, key, value)), strict=True)
        assert_close(seen.context, torch.cat([attend(*part, mask=mask).context for part in parts], dim=2))


@pytest.mark.parametrize(("queries", "size"), [(17, 5), (17, 23), (3, 5), (1, 1)])
def test_a_causal_chunk_is_transformers_chunked_attention(queries, size):
    chunked = chunked_causal_mask_function(size, torch.zeros(1, dtype=torch.int64))
    numbers, grid = torch.arange(17), Grid(1, 1, queries, 17)
    expected = chunked(torch.tensor(0), torch.tensor(0), numbers[17 - queries :, None], numbers[None])
    assert torch.equal((Causal() & Chunked(size)).keep(grid.whole(), torch.device("cpu"))[0, 0], expected)
