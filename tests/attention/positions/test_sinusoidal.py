"""Sinusoidal positions: against Marian's and a loop over the paper's equation, and laws."""

import math
from typing import get_args

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import sinusoidal
from regard.attention.positions.sinusoidal import WaveOrder


@pytest.mark.parametrize("d_model", [14, 13, 1])
def test_sines_first_are_marians(d_model):
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    expected = MarianSinusoidalPositionalEmbedding(101, d_model).create_weight()
    assert_close(sinusoidal(101, d_model, order="sines first"), expected)


@pytest.mark.parametrize("d_model", [14, 13, 1])
def test_interleaved_waves_are_those_of_the_paper(d_model):
    found = sinusoidal(7, d_model, first=1009)
    for token in range(7):
        for number in range(d_model):
            angle = (1009 + token) / 10_000 ** (2 * (number // 2) / d_model)
            assert abs(float(found[token, number]) - (math.cos if number % 2 else math.sin)(angle)) < 1e-6


@pytest.mark.parametrize("order", get_args(WaveOrder))
def test_vectors_from_a_later_first_position_are_the_rest_of_the_whole(order):
    assert torch.equal(sinusoidal(11, 6, order=order)[4:], sinusoidal(7, 6, first=4, order=order))
    assert sinusoidal(0, 6, order=order).shape == (0, 6)


def test_refusals(without_type_checks):
    for n_tokens, d_model in ((-1, 4), (3, 0)):
        assert refusal(ValueError, sinusoidal, n_tokens, d_model) == (
            f"sinusoidal({n_tokens}, {d_model}) has no vectors to give; n_tokens must be at least 0 and d_model at "
            "least 1."
        )
    assert refusal(ValueError, sinusoidal, 3, 4, order="cosines first") == (
        "order='cosines first' is unknown; it is one of interleaved, sines first."
    )
