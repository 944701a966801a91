"""Tests of embeddings: scaled token vectors plus positional encodings, from any first position."""

import math

import pytest
import torch
from loud import loud, small
from torch.testing import assert_close

from regard.attention.positions.sinusoidal import sinusoidal
from regard.transformer.embedding import Embedding

TOKENS = torch.tensor([[5, 7, 7, 3], [11, 13, 0, 0]])


def test_tokens_are_scaled_and_positions_added():
    for positions in ("sinusoidal", "learned", "rotary"):
        embedding = loud(Embedding(17, small(positions=positions)))
        added = {"sinusoidal": sinusoidal(4, 24), "learned": embedding.stored_positions, "rotary": torch.zeros(4, 24)}
        expected = embedding.by_token.weight[TOKENS] * math.sqrt(24) + added[positions][:4]
        assert_close(embedding(TOKENS), expected)


@pytest.mark.parametrize(
    ("positions", "max_tokens"), [("sinusoidal", 41), ("sinusoidal", 4), ("learned", 41), ("rotary", 4)]
)
def test_the_second_part_of_a_text_continues_its_positions(positions, max_tokens):
    embedding = loud(Embedding(17, small(positions=positions, max_tokens=max_tokens)))
    text = torch.randint(17, (2, 11), generator=torch.Generator().manual_seed(0))
    assert_close(torch.cat([embedding(text[:, :3]), embedding(text[:, 3:], first=3)], dim=1), embedding(text))


def test_untrained_vectors_have_standard_deviation_1_and_waves_are_no_parameters():
    torch.manual_seed(0)
    embedding = Embedding(997, small(d_model=48))
    assert float((embedding.by_token.weight.detach() * math.sqrt(48)).std()) == pytest.approx(1, rel=0.02)
    assert list(embedding.state_dict()) == ["by_token.weight"]


def test_half_of_the_numbers_are_dropped_in_training_and_the_others_doubled():
    embedding = loud(Embedding(17, small(dropout=0.5)))
    whole, dropped = embedding(TOKENS), embedding.train()(TOKENS)
    assert 0.3 < float((dropped == 0).double().mean()) < 0.7
    assert_close(dropped[dropped != 0], 2 * whole[dropped != 0])


def test_a_converted_embedding_returns_its_own_type():
    embedding = Embedding(17, small(dropout=0.0)).bfloat16()
    assert embedding(TOKENS).dtype == torch.bfloat16


@pytest.mark.parametrize("assign", [False, True])
def test_a_model_built_without_numbers_has_its_waves_once_it_is_loaded(assign):
    expected = Embedding(17, small(dropout=0.0))
    with torch.device("meta"):
        embedding = Embedding(17, small(dropout=0.0))
    if not assign:
        embedding.to_empty(device="cpu")
    embedding.load_state_dict(expected.state_dict(), assign=assign)
    assert_close(embedding(TOKENS), expected(TOKENS))
