"""Rotary positions: against transformers' modules and a loop over pairs, and laws."""

import math
from typing import get_args

import pytest
import torch
from oracle import near
from refusals import refusal
from torch.testing import assert_close

from regard import Interpolate, Rotary
from regard.attention.positions.rotary import Pairing, rotate

PAIRINGS = get_args(Pairing)
POSITIONS = torch.tensor([0, 3, 1, 101, 2047])


def test_pairs_of_halves_are_rotated_as_by_llama(normal):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    query, key = normal(2, 3, 5, 22), normal(2, 3, 5, 22)
    config = LlamaConfig(
        hidden_size=66, num_attention_heads=3, rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    expected = apply_rotary_pos_emb(query, key, *LlamaRotaryEmbedding(config)(query, POSITIONS[None]))
    rotary = Rotary(base=5e5)
    found = rotary(query, POSITIONS), rotary(key, POSITIONS)
    assert_close(found, expected, rtol=1e-4, atol=1e-4)  # at position 2047, in float32


def test_neighbours_in_a_part_of_the_width_are_rotated_as_by_gpt_j(normal):
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    query = normal(2, 3, 5, 22)
    sin, cos = create_sinusoidal_positions(2048, 14)[POSITIONS].chunk(2, dim=-1)
    turned = apply_rotary_pos_emb(query[..., :14].transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    expected = torch.cat([turned, query[..., 14:]], dim=-1)
    assert_close(Rotary(pairing="neighbours", d_rotary=14)(query, POSITIONS), expected, rtol=1e-4, atol=1e-4)


def test_halves_of_a_part_of_the_width_are_rotated_as_by_gpt_neox(normal):
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding, apply_rotary_pos_emb

    rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    config = GPTNeoXConfig(hidden_size=60, num_attention_heads=3, rope_parameters=rope)
    query, key = normal(2, 3, 5, 20), normal(2, 3, 5, 20)
    expected = apply_rotary_pos_emb(query, key, *GPTNeoXRotaryEmbedding(config)(query, POSITIONS[None]))
    rotary = Rotary(d_rotary=10)
    assert_close((rotary(query, POSITIONS), rotary(key, POSITIONS)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("d_rotary", [None, 6])
def test_each_pair_is_rotated_by_its_own_angle(normal, pairing, d_rotary):
    vectors, width = normal(2, 3, 5, 14, dtype=torch.float64), d_rotary or 14
    found, expected = Rotary(base=37.0, pairing=pairing, d_rotary=d_rotary)(vectors, POSITIONS), vectors.clone()
    for token, place in enumerate(POSITIONS.tolist()):
        for p in range(width // 2):
            a, b = (p, p + width // 2) if pairing == "halves" else (2 * p, 2 * p + 1)
            angle = place * 37.0 ** (-2 * p / width)
            x, y = vectors[..., token, a], vectors[..., token, b]
            expected[..., token, a] = x * math.cos(angle) - y * math.sin(angle)
            expected[..., token, b] = y * math.cos(angle) + x * math.sin(angle)
    near(found, expected)


# Laws


@pytest.mark.parametrize("stretch", [None, Interpolate(3.0)], ids=repr)
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("d_rotary", [None, 6])
def test_the_product_depends_on_the_distance_alone(normal, pairing, d_rotary, stretch):
    query, key = normal(1, 1, 1, 14, dtype=torch.float64), normal(1, 1, 1, 14, dtype=torch.float64)
    rotary = Rotary(pairing=pairing, d_rotary=d_rotary, stretch=stretch)

    def product(of_query, of_key):
        return (rotary(query, torch.tensor([of_query])) * rotary(key, torch.tensor([of_key]))).sum()

    assert_close(product(11, 4), product(1107, 1100))
    assert_close(product(4, 11), product(0, 7))
    assert abs(float(product(11, 4) - product(4, 11))) > 1e-3


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotation_changes_no_length_and_nothing_at_position_0(normal, pairing):
    vectors, rotary = normal(2, 3, 5, 14, dtype=torch.float64), Rotary(pairing=pairing)
    near(rotary(vectors, POSITIONS).norm(dim=-1), vectors.norm(dim=-1))
    assert torch.equal(rotary(vectors, torch.zeros(5, dtype=torch.long)), vectors)
    near(rotary(rotary(vectors, POSITIONS), -POSITIONS), vectors)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_type_is_rounded_once(normal, pairing, dtype):
    vectors, rotary = normal(2, 3, 5, 14).to(dtype), Rotary(pairing=pairing, d_rotary=10)
    found = rotary(vectors, POSITIONS)
    assert found.dtype == dtype
    assert torch.equal(found, rotary(vectors.float(), POSITIONS).to(dtype))
    assert_close(found.double(), rotary(vectors.double(), POSITIONS), rtol=torch.finfo(dtype).eps, atol=1e-3)


def test_gradients_are_right(normal):
    vectors = normal(1, 2, 5, 6, dtype=torch.float64).requires_grad_()
    for pairing in PAIRINGS:
        rotary = Rotary(pairing=pairing, d_rotary=4)
        assert torch.autograd.gradcheck(lambda v, r=rotary: r(v, POSITIONS), vectors)


def test_a_quarter_turn_by_hand():
    numbers = torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
    cos, sin = torch.zeros(1, 2), torch.ones(1, 2)
    assert rotate(numbers, cos, sin, "halves").flatten().tolist() == [-3, -4, 1, 2]
    assert rotate(numbers, cos, sin, "neighbours").flatten().tolist() == [-2, 1, -4, 3]


def test_rotary_positions_of_equal_options_are_equal():
    assert Rotary(d_rotary=8) == Rotary(d_rotary=8) != Rotary()


def test_refusals(without_type_checks):
    cases = [
        (lambda: Rotary(pairing="pairs"), "pairing='pairs' is unknown; it is one of halves, neighbours."),
        (lambda: Rotary(d_rotary=7), "d_rotary=7 numbers cannot be rotated in pairs; it must be even and at least 2."),
        (lambda: Rotary(d_rotary=0), "d_rotary=0 numbers cannot be rotated in pairs; it must be even and at least 2."),
        (
            lambda: Rotary(d_rotary=8)(torch.zeros(1, 1, 2, 6), torch.arange(2)),
            "d_rotary=8 is more than the 6 numbers of a head; take at most 6.",
        ),
        (
            lambda: Rotary()(torch.zeros(1, 1, 2, 7), torch.arange(2)),
            "rotary positions rotate pairs of numbers, so the width of a head must be even; got 7.",
        ),
    ]
    assert [refusal(ValueError, call) for call, _ in cases] == [message for _, message in cases]


def test_a_positional_argument_is_refused(without_type_checks):
    """The width of the vectors is no argument: `Rotary(64)` would be taken for the base."""
    assert refusal(TypeError, lambda: Rotary(64)) == "Rotary.__init__() takes 1 positional argument but 2 were given"
