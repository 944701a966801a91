"""Blocks, against their formulas written out with the parts they own."""

import pytest
import torch
from loud import loud, small
from torch.testing import assert_close

from regard.attention.masks import Causal, Padding
from regard.transformer.block import DecoderBlock, EncoderBlock, Residual
from regard.transformer.config import TransformerConfig


def test_pre_norm_reads_what_is_normalised(normal):
    x, memory = normal(2, 7, 24, dtype=torch.float64), normal(2, 5, 24, dtype=torch.float64)
    block, lengths = loud(DecoderBlock(small(norm="pre"))), torch.tensor([3, 5])
    read = block(x, block.prepare(memory), mask=Causal(), memory_mask=Padding(lengths))
    x = x + block.own_attention(block.around_own_attention.norm(x), mask=Causal()).output
    normed = block.around_cross_attention.norm(x)
    x = x + block.cross_attention(normed, memory, mask=Padding(lengths)).output
    x = x + block.feed_forward(block.around_feed_forward.norm(x))
    assert_close(read.output, x)


def test_post_norm_normalises_the_sum(normal):
    x = normal(2, 7, 24, dtype=torch.float64)
    block, mask = loud(EncoderBlock(small(norm="post"))), Padding(torch.tensor([7, 2]))
    read = block(x, mask=mask)
    x = block.around_own_attention.norm(x + block.own_attention(x, mask=mask).output)
    x = block.around_feed_forward.norm(x + block.feed_forward(x))
    assert_close(read.output, x)
    assert read.cross is None


def test_a_decoder_block_without_a_source_is_an_encoder_block(normal):
    x, config = normal(2, 7, 24, dtype=torch.float64), small(n_source_tokens=0)
    encoder, decoder = loud(EncoderBlock(config)), DecoderBlock(config).double().eval()
    decoder.load_state_dict(encoder.state_dict())
    assert_close(decoder(x, mask=Causal()).output, encoder(x, mask=Causal()).output)
    assert decoder.prepare(x) is None


def test_only_self_attention_knows_rotary_positions():
    block = DecoderBlock(small(positions="rotary", n_key_heads=3))
    assert block.own_attention.positions is not None
    assert block.cross_attention.positions is None
    assert block.own_attention.n_key_heads == block.cross_attention.n_key_heads == 3


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_is_on_the_sublayers_outcome(normal, norm):
    """What comes in passes a residual whose sublayer's outcome is dropped wholly."""
    residual, x = Residual(small(norm=norm, dropout=0.999999)).train(), normal(2, 7, 24)
    expected = x if norm == "pre" else residual.norm(x)
    assert_close(residual.leave(x, normal(2, 7, 24)), expected)


def test_it_says_where_it_normalises():
    assert repr(Residual(small(norm="post"))).startswith("Residual(\n  norm='post'\n")


def test_projections_start_as_small_as_torchs():
    torch.manual_seed(0)
    own = DecoderBlock(TransformerConfig(n_source_tokens=7, n_target_tokens=7, d_model=128)).own_attention
    joined = torch.cat([own.to_query.weight, own.to_key.weight, own.to_value.weight]).detach()
    expected = torch.nn.MultiheadAttention(128, 8).in_proj_weight.detach()
    assert_close(joined.std(), expected.std(), rtol=0.02, atol=0.0)
