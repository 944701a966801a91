"""RoPE scaling: against the frequencies that transformers computes, and laws."""

import math

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import Interpolate, LargerBase, LlamaStretch, Rotary, Yarn

SCALINGS = [Interpolate(3.0), LargerBase(3.0), Yarn(3.0, 2048), LlamaStretch(3.0, max_tokens=2048)]


def transformers_frequencies(parameters, d_head=46, max_tokens=2048, seq_len=None, base=10_000.0):
    """Return the frequencies and the scale of the vectors that transformers computes for a Llama."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        hidden_size=3 * d_head,
        num_attention_heads=3,
        max_position_embeddings=max_tokens,
        rope_parameters={"rope_theta": base, **parameters},
    )
    return ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu", seq_len=seq_len)


def test_interpolate_is_linear_of_transformers():
    for factor in (1.0, 2.0, 7.0):
        frequencies, size = transformers_frequencies({"rope_type": "linear", "factor": factor})
        assert_close(Rotary(stretch=Interpolate(factor)).frequencies(46).float(), frequencies)
        assert Interpolate(factor).size == size


def test_larger_base_is_dynamic_of_transformers_at_one_length():
    # in transformers, the factor grows with the text: factor · length / max_tokens - (factor - 1)
    for longer in (1, 2, 7):
        frequencies, size = transformers_frequencies({"rope_type": "dynamic", "factor": 1.0}, seq_len=2048 * longer)
        assert_close(Rotary(stretch=LargerBase(float(longer))).frequencies(46).float(), frequencies)
        assert LargerBase(float(longer)).size == size


@pytest.mark.parametrize("stretch", [None, *SCALINGS], ids=repr)
def test_frequencies_are_float64_whatever_torchs_default_type(stretch, default_type):
    expected = Rotary(stretch=stretch).frequencies(46)
    for dtype in (torch.float64, torch.bfloat16):
        with default_type(dtype):
            found = Rotary(stretch=stretch).frequencies(46)
        assert found.dtype == torch.float64
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("d_head", "factor", "bounds"),
    [
        (46, 7.0, {}),
        (10, 2.0, {"fast": 17.0, "slow": 3.0}),
        (128, 7.0, {"fast": 17.0, "slow": 3.0}),
        (46, 2.0, {"fast": 1.1, "slow": 1.0}),
        (128, 1.0, {}),
    ],
)
def test_yarn_is_yarn_of_transformers(d_head, factor, bounds):
    named = {"beta_fast": bounds["fast"], "beta_slow": bounds["slow"]} if bounds else {}
    parameters = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 2048, **named}
    frequencies, size = transformers_frequencies(parameters, d_head, max_tokens=int(2048 * factor))
    yarn = Yarn(factor, 2048, **bounds)
    assert_close(Rotary(stretch=yarn).frequencies(d_head).float(), frequencies)
    assert math.isclose(yarn.size, size)


@pytest.mark.parametrize(("base", "max_tokens"), [(15.0, 2048), (10_000.0, 6), (10_000.0, 101)])
def test_yarns_ramp_may_go_beyond_the_pairs_or_have_no_width(base, max_tokens):
    parameters = {"rope_type": "yarn", "factor": 7.0, "original_max_position_embeddings": max_tokens}
    frequencies, _ = transformers_frequencies(parameters, max_tokens=7 * max_tokens, base=base)
    assert_close(Rotary(base=base, stretch=Yarn(7.0, max_tokens)).frequencies(46).float(), frequencies)


@pytest.mark.parametrize(("factor", "bounds"), [(1.0, (4.0, 1.0)), (8.0, (17.0, 3.0)), (32.0, (4.0, 1.0))])
def test_llama_stretch_is_llama3_of_transformers(factor, bounds):
    fast, slow = bounds
    parameters = {
        "rope_type": "llama3",
        "factor": factor,
        "high_freq_factor": fast,
        "low_freq_factor": slow,
        "original_max_position_embeddings": 2048,
    }
    frequencies, size = transformers_frequencies(parameters, max_tokens=int(2048 * factor))
    stretch = LlamaStretch(factor, max_tokens=2048, fast=fast, slow=slow)
    assert_close(Rotary(stretch=stretch).frequencies(46).float(), frequencies)
    assert stretch.size == size


def test_vectors_are_rotated_as_by_a_llama_with_yarn(normal):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 7.0, "original_max_position_embeddings": 61}
    config = LlamaConfig(hidden_size=66, num_attention_heads=3, max_position_embeddings=427, rope_parameters=rope)
    query, places = normal(2, 3, 5, 22), torch.tensor([0, 3, 60, 101, 426])
    expected, _ = apply_rotary_pos_emb(query, query, *LlamaRotaryEmbedding(config)(query, places[None]))
    assert_close(Rotary(stretch=Yarn(7.0, 61))(query, places), expected, rtol=1e-4, atol=1e-4)


# Laws


def test_interpolated_positions_are_those_of_a_shorter_text(normal):
    vectors = normal(2, 3, 5, 14, dtype=torch.float64)
    short, long = torch.tensor([0, 3, 1, 101, 682]), torch.tensor([0, 9, 3, 303, 2046])
    assert_close(Rotary(stretch=Interpolate(3.0))(vectors, long), Rotary()(vectors, short))


@pytest.mark.parametrize("stretch", SCALINGS, ids=repr)
def test_no_pair_is_slowed_by_more_than_the_factor(stretch):
    plain = Rotary().frequencies(46)
    slower = plain / Rotary(stretch=stretch).frequencies(46)
    assert bool(((slower > 1 - 1e-12) & (slower < 3 + 1e-12)).all())
    assert bool((slower.diff() > -1e-12).all())  # the slower a pair, the more it is slowed
    assert math.isclose(float(slower[-1]), 3.0)
    assert math.isclose(float(slower[0]), 3.0 if isinstance(stretch, Interpolate) else 1.0)


def test_larger_base_is_a_larger_base():
    assert_close(
        Rotary(stretch=LargerBase(3.0)).frequencies(46), Rotary(base=10_000 * 3.0 ** (46 / 44)).frequencies(46)
    )
    assert LargerBase(3.0)(torch.ones(1), 10_000.0).tolist() == [1.0]  # a single pair is the fastest


# What they say


def test_refusals():
    cases = [
        (lambda: Interpolate(0.5), "Interpolate was given factor=0.5; the factor must be finite and at least 1."),
        (lambda: LargerBase(math.inf), "LargerBase was given factor=inf; the factor must be finite and at least 1."),
        (lambda: Yarn(math.nan, 2048), "Yarn was given factor=nan; the factor must be finite and at least 1."),
        (lambda: LlamaStretch(-1.0), "LlamaStretch was given factor=-1.0; the factor must be finite and at least 1."),
        (
            lambda: Yarn(2.0, 0),
            "Yarn was given max_tokens=0, fast=32.0, slow=1.0; max_tokens must be at least 1 and 0 < slow < fast.",
        ),
        (
            lambda: LlamaStretch(2.0, fast=1.0, slow=1.0),
            "LlamaStretch was given max_tokens=8192, fast=1.0, slow=1.0; "
            "max_tokens must be at least 1 and 0 < slow < fast.",
        ),
    ]
    assert [refusal(ValueError, call) for call, _ in cases] == [message for _, message in cases]


@pytest.mark.parametrize("stretch", SCALINGS, ids=str)
def test_frequencies_do_not_depend_on_the_default_device(stretch):
    here = Rotary(stretch=stretch).frequencies(46)
    with torch.device("meta"):
        assert_close(Rotary(stretch=stretch).frequencies(46), here)
