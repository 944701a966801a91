"""Tests of encoder and decoder blocks; test_transformer_torch.py compares them with those of torch."""

import pytest
import torch
from loud import loud, small
from refusals import refusal
from torch.testing import assert_close

from regard.attention.masks import Causal
from regard.transformer.block import DecoderBlock, EncoderBlock
from regard.transformer.config import TransformerConfig


def test_a_decoder_block_without_a_source_is_an_encoder_block(normal):
    x, config = normal(2, 7, 24, dtype=torch.float64), small(n_source_tokens=0)
    encoder, decoder = loud(EncoderBlock(config)), DecoderBlock(config).double().eval()
    decoder.load_state_dict(encoder.state_dict())
    assert_close(decoder(x, mask=Causal()).output, encoder(x, mask=Causal()).output)
    assert decoder.prepare(x) is None
    assert encoder(x).cross_attention is None


def test_cross_attention_has_no_rotary_positions():
    block = DecoderBlock(small(positions="rotary", n_key_heads=3))
    assert block.self_attention.positions is not None
    assert block.cross_attention.positions is None
    assert block.self_attention.n_key_heads == block.cross_attention.n_key_heads == 3


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_drops_the_output_of_each_sublayer(normal, norm):
    """With every output dropped, a pre-norm block returns its input, and a post-norm one its input normalised."""
    block = loud(DecoderBlock(small(norm=norm, dropout=0.999999))).train()
    x, memory = normal(2, 7, 24, dtype=torch.float64), normal(2, 5, 24, dtype=torch.float64)
    normed = block.feed_forward_norm(block.cross_attention_norm(block.self_attention_norm(x)))
    assert_close(block(x, block.prepare(memory)).output, x if norm == "pre" else normed)


@pytest.mark.parametrize("block", [EncoderBlock, DecoderBlock])
def test_the_repr_names_the_norm(block):
    assert repr(block(small(norm="post"))).startswith(f"{block.__name__}(\n  norm='post'\n")


def test_projections_start_as_small_as_torchs():
    torch.manual_seed(0)
    own = DecoderBlock(TransformerConfig(n_source_tokens=7, n_target_tokens=7, d_model=128)).self_attention
    joined = torch.cat([own.to_query.weight, own.to_key.weight, own.to_value.weight]).detach()
    expected = torch.nn.MultiheadAttention(128, 8).in_proj_weight.detach()
    assert_close(joined.std(), expected.std(), rtol=0.02, atol=0.0)


def test_a_block_with_a_source_needs_a_memory_and_one_without_refuses_it(normal):
    block, alone = DecoderBlock(small()), DecoderBlock(small(n_source_tokens=0))
    x = normal(2, 5, 24)
    assert refusal(ValueError, block, x, mask=Causal()) == (
        "this block was built with cross-attention to a source and got no memory; give the source's keys and values, "
        "block.prepare(source)."
    )
    assert refusal(ValueError, alone, x, block.prepare(x), mask=Causal()) == (
        "this block was built without a source (n_source_tokens=0) and got a memory; leave the memory out."
    )
    assert alone(x, mask=Causal()).cross_attention is None
