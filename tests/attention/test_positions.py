"""Positions as vectors: rotary, sinusoidal and learned ones against transformers' modules, loops and laws."""

import math
from typing import get_args

import pytest
import torch
from oracle import near
from torch.testing import assert_close

from regard import Interpolate, LearnedPositions, MultiHeadAttention, Rotary, sinusoidal
from regard.attention.positions.rotary import Pairing, turn
from regard.attention.positions.sinusoidal import WaveOrder

PAIRINGS = get_args(Pairing)
PLACES = torch.tensor([0, 3, 1, 101, 2047])


# Rotary, against something independent


def test_halves_are_llamas(normal):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    query, key = normal(2, 3, 5, 22), normal(2, 3, 5, 22)
    config = LlamaConfig(
        hidden_size=66, num_attention_heads=3, rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    expected = apply_rotary_pos_emb(query, key, *LlamaRotaryEmbedding(config)(query, PLACES[None]))
    rotary = Rotary(base=5e5)
    assert_close((rotary(query, PLACES), rotary(key, PLACES)), expected, rtol=1e-4, atol=1e-4)  # at 2047, in float32


def test_neighbours_in_a_part_of_the_width_are_gpt_js(normal):
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    query = normal(2, 3, 5, 22)
    sin, cos = create_sinusoidal_positions(2048, 14)[PLACES].chunk(2, dim=-1)
    turned = apply_rotary_pos_emb(query[..., :14].transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    expected = torch.cat([turned, query[..., 14:]], dim=-1)
    assert_close(Rotary(pairing="neighbours", d_rotary=14)(query, PLACES), expected, rtol=1e-4, atol=1e-4)


def test_halves_of_a_part_of_the_width_are_gpt_neoxs(normal):
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding, apply_rotary_pos_emb

    rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    config = GPTNeoXConfig(hidden_size=60, num_attention_heads=3, rope_parameters=rope)
    query, key = normal(2, 3, 5, 20), normal(2, 3, 5, 20)
    expected = apply_rotary_pos_emb(query, key, *GPTNeoXRotaryEmbedding(config)(query, PLACES[None]))
    rotary = Rotary(d_rotary=10)
    assert_close((rotary(query, PLACES), rotary(key, PLACES)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("d_rotary", [None, 6])
def test_each_pair_turns_by_its_own_angle(normal, pairing, d_rotary):
    vectors, width = normal(2, 3, 5, 14, dtype=torch.float64), d_rotary or 14
    found, expected = Rotary(base=37.0, pairing=pairing, d_rotary=d_rotary)(vectors, PLACES), vectors.clone()
    for token, place in enumerate(PLACES.tolist()):
        for p in range(width // 2):
            a, b = (p, p + width // 2) if pairing == "halves" else (2 * p, 2 * p + 1)
            angle = place * 37.0 ** (-2 * p / width)
            x, y = vectors[..., token, a], vectors[..., token, b]
            expected[..., token, a] = x * math.cos(angle) - y * math.sin(angle)
            expected[..., token, b] = y * math.cos(angle) + x * math.sin(angle)
    near(found, expected)


# Rotary, laws


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
def test_turning_keeps_lengths_and_position_0_as_it_is(normal, pairing):
    vectors, rotary = normal(2, 3, 5, 14, dtype=torch.float64), Rotary(pairing=pairing)
    near(rotary(vectors, PLACES).norm(dim=-1), vectors.norm(dim=-1))
    assert torch.equal(rotary(vectors, torch.zeros(5, dtype=torch.long)), vectors)
    near(rotary(rotary(vectors, PLACES), -PLACES), vectors)


def test_the_pairings_differ_only_in_the_order_of_the_numbers(normal):
    vectors = normal(2, 3, 5, 14, dtype=torch.float64)
    halves = torch.cat([torch.arange(0, 14, 2), torch.arange(1, 14, 2)])
    near(Rotary()(vectors[..., halves], PLACES), Rotary(pairing="neighbours")(vectors, PLACES)[..., halves])


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_type_is_rounded_once(normal, pairing, dtype):
    vectors, rotary = normal(2, 3, 5, 14).to(dtype), Rotary(pairing=pairing, d_rotary=10)
    found = rotary(vectors, PLACES)
    assert found.dtype == dtype
    assert torch.equal(found, rotary(vectors.float(), PLACES).to(dtype))
    assert_close(found.double(), rotary(vectors.double(), PLACES), rtol=torch.finfo(dtype).eps, atol=1e-3)


def test_gradients_turn_back(normal):
    vectors = normal(1, 2, 5, 6, dtype=torch.float64).requires_grad_()
    for pairing in PAIRINGS:
        rotary = Rotary(pairing=pairing, d_rotary=4)
        assert torch.autograd.gradcheck(lambda v, r=rotary: r(v, PLACES), vectors)


def test_a_quarter_turn_by_hand():
    numbers = torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
    cos, sin = torch.zeros(1, 2), torch.ones(1, 2)
    assert turn(numbers, cos, sin, "halves").flatten().tolist() == [-3, -4, 1, 2]
    assert turn(numbers, cos, sin, "neighbours").flatten().tolist() == [-2, 1, -4, 3]


def test_rotary_introduces_itself_and_equals_its_like():
    assert repr(Rotary()) == "Rotary()"
    assert repr(Rotary(base=5e5, d_rotary=8)) == "Rotary(base=500000.0, d_rotary=8)"
    assert repr(Rotary(pairing="neighbours", stretch=Interpolate(2.0))) == (
        "Rotary(pairing='neighbours', stretch=Interpolate(factor=2.0))"
    )
    assert Rotary(d_rotary=8) == Rotary(d_rotary=8) != Rotary()


# Sinusoidal


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
def test_waves_go_on_where_they_were(order):
    assert torch.equal(sinusoidal(11, 6, order=order)[4:], sinusoidal(7, 6, first=4, order=order))
    assert sinusoidal(0, 6, order=order).shape == (0, 6)


def test_the_orders_differ_only_in_the_order_of_the_numbers():
    both = sinusoidal(11, 7), sinusoidal(11, 7, order="sines first")
    assert torch.equal(both[0][:, [0, 2, 4, 6, 1, 3, 5]], both[1])


def test_the_product_of_two_waves_depends_on_the_distance_alone():
    waves = sinusoidal(101, 14).double()
    assert_close(waves[11] @ waves[4], waves[98] @ waves[91], rtol=1e-5, atol=1e-5)


# Learned


def test_learned_positions_are_looked_up_and_learned(normal):
    positions = LearnedPositions(max_tokens=7, d_model=3)
    assert torch.equal(positions(5), positions.by_position[:5])
    assert torch.equal(positions(2, first=5), positions.by_position[5:])
    assert positions(0).shape == (0, 3)
    positions(2, first=3).sum().backward()
    assert positions.by_position.grad.sum(dim=1).tolist() == [0, 0, 0, 3, 3, 0, 0]
    assert repr(positions) == "LearnedPositions(max_tokens=7, d_model=3)"


def test_learned_positions_are_those_of_gpt_2():
    from transformers import GPT2Config, GPT2Model

    model = GPT2Model(GPT2Config(n_positions=11, n_embd=6, n_layer=0, n_head=1, vocab_size=5)).eval()
    positions = LearnedPositions(11, 6)
    positions.load_state_dict({"by_position": model.wpe.weight})
    ids = torch.tensor([[2, 0, 1]])
    assert_close(model.ln_f(model.wte(ids) + positions(3)), model(ids).last_hidden_state)


# Refusals


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: Rotary(pairing="pairs"), "pairing='pairs' is unknown; it is one of halves, neighbours."),
        (lambda: Rotary(d_rotary=7), "d_rotary=7 numbers cannot be turned in pairs; it must be even and at least 2."),
        (lambda: Rotary(d_rotary=0), "d_rotary=0 numbers cannot be turned in pairs; it must be even and at least 2."),
        (
            lambda: Rotary(d_rotary=8)(torch.zeros(1, 1, 2, 6), torch.arange(2)),
            "d_rotary=8 is more than the 6 numbers of a head; take at most 6.",
        ),
        (
            lambda: Rotary()(torch.zeros(1, 1, 2, 7), torch.arange(2)),
            "rotary positions turn pairs of numbers, so the width of a head must be even; got 7.",
        ),
        (
            lambda: MultiHeadAttention(d_model=9, n_heads=3, positions=Rotary())(torch.zeros(1, 2, 9)),
            "rotary positions turn pairs of numbers, so the width of a head must be even; got 3.",
        ),
        (
            lambda: sinusoidal(-1, 4),
            "sinusoidal(-1, 4) has no vectors to give; n_tokens must be at least 0 and d_model at least 1.",
        ),
        (
            lambda: sinusoidal(3, 0),
            "sinusoidal(3, 0) has no vectors to give; n_tokens must be at least 0 and d_model at least 1.",
        ),
        (
            lambda: sinusoidal(3, 4, order="cosines first"),
            "order='cosines first' is unknown; it is one of interleaved, sines first.",
        ),
        (
            lambda: LearnedPositions(0, 4),
            "LearnedPositions(max_tokens=0, d_model=4) counts; both must be at least 1.",
        ),
        (
            lambda: LearnedPositions(7, 4)(-1),
            "n_tokens=-1 and first=0 count tokens, so neither may be negative.",
        ),
        (
            lambda: LearnedPositions(7, 4)(3, first=-2),
            "n_tokens=3 and first=-2 count tokens, so neither may be negative.",
        ),
        (
            lambda: LearnedPositions(7, 4)(3, first=5),
            "a text of 8 tokens is longer than the max_tokens=7 that have a learned position; "
            "shorten it, or build and train LearnedPositions with more.",
        ),
    ],
)
def test_refusals(unhooked, refused, message):
    with pytest.raises(ValueError) as refusal:
        refused()
    assert str(refusal.value) == message
