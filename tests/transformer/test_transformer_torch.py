"""The same numbers and gradients as torch.nn.Transformer with its parameters copied."""

import math

import pytest
import torch
from loud import loud, small
from model_laws import texts
from torch import nn
from torch.testing import assert_close

from regard.attention.layers.multi_head import MultiHeadAttention
from regard.transformer.model import Transformer

LENGTHS = [5, 11, 7]
SOURCE, TARGET = texts(LENGTHS, 31), texts([13, 13, 13], 37, seed=1)


class Torchs(nn.Module):
    """torch's blocks between embeddings and a projection of our own, written as the paper writes them."""

    def __init__(self, norm: str, activation: str) -> None:
        super().__init__()
        sizes = {"d_model": 24, "nhead": 6, "dim_feedforward": 29, "activation": activation, "dropout": 0.1}
        options = {"batch_first": True, "norm_first": norm == "pre"}
        last = (lambda: nn.LayerNorm(24)) if norm == "pre" else (lambda: None)
        layer = nn.TransformerEncoderLayer(**sizes, **options)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=last(), enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes, **options), 3, norm=last())
        self.source, self.target, self.output = nn.Embedding(31, 24), nn.Embedding(37, 24), nn.Linear(24, 37)

    def forward(self, source, lengths, target):
        padding = torch.arange(source.shape[1]) >= lengths[:, None]
        future = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
        memory = self.encoder(placed(self.source(source)), src_key_padding_mask=padding)
        vectors = placed(self.target(target))
        return self.output(self.decoder(vectors, memory, tgt_mask=future, memory_key_padding_mask=padding))


def placed(vectors):
    """Return scaled vectors plus the paper's sinusoidal positions, computed one number at a time."""
    tokens, width = vectors.shape[1:]
    wave = [math.sin, math.cos]
    waves = [[wave[i % 2](place / 10_000 ** (i // 2 * 2 / width)) for i in range(width)] for place in range(tokens)]
    return vectors * math.sqrt(width) + torch.tensor(waves, dtype=torch.float64)


def copied(reference: Torchs, norm: str, activation: str) -> Transformer:
    """Our Transformer with the reference's parameters."""
    model = Transformer(small(norm=norm, activation=activation, share="none"))
    model.encoder.embedding.by_token.load_state_dict(reference.source.state_dict())
    model.decoder.embedding.by_token.load_state_dict(reference.target.state_dict())
    model.decoder.to_logits.load_state_dict(reference.output.state_dict())
    for ours, theirs in ((model.encoder, reference.encoder), (model.decoder, reference.decoder)):
        for block, layer in zip(ours.blocks, theirs.layers, strict=True):
            block.self_attention = MultiHeadAttention.from_torch(layer.self_attn)
            block.feed_forward.widen.load_state_dict(layer.linear1.state_dict())
            block.feed_forward.narrow.load_state_dict(layer.linear2.state_dict())
            if ours is model.decoder:
                block.cross_attention = MultiHeadAttention.from_torch(layer.multihead_attn)
            norms = [part for part in block.children() if isinstance(part, nn.LayerNorm)]
            for number, own in enumerate(norms, start=1):
                own.load_state_dict(getattr(layer, f"norm{number}").state_dict())
        if norm == "pre":
            ours.norm.load_state_dict(theirs.norm.state_dict())
    return model.double().eval()


@pytest.fixture(params=[("pre", "relu"), ("post", "relu"), ("post", "gelu")], ids=" ".join)
def pair(request) -> tuple[Torchs, Transformer]:
    reference = loud(Torchs(*request.param))
    return reference, copied(reference, *request.param)


def test_logits_are_torchs(pair):
    reference, model = pair
    expected = reference(SOURCE, torch.tensor(LENGTHS), TARGET)
    assert expected.std() > 0.5
    # Our waves are kept in float32, hence the tolerance.
    assert_close(model(SOURCE, torch.tensor(LENGTHS), TARGET).logits, expected, rtol=1e-5, atol=1e-5)


def test_gradients_are_torchs(pair):
    reference, model = pair
    weights = torch.randn(3, 13, 37, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for module, logits in (
        (reference, reference(SOURCE, torch.tensor(LENGTHS), TARGET)),
        (model, model(SOURCE, torch.tensor(LENGTHS), TARGET).logits),
    ):
        (logits * weights).sum().backward()
        assert all(parameter.grad is not None for parameter in module.parameters())
    close = {"rtol": 1e-4, "atol": 1e-4}
    assert_close(model.encoder.embedding.by_token.weight.grad, reference.source.weight.grad, **close)
    assert_close(model.decoder.embedding.by_token.weight.grad, reference.target.weight.grad, **close)
    for ours, theirs in ((model.encoder, reference.encoder), (model.decoder, reference.decoder)):
        for block, layer in zip(ours.blocks, theirs.layers, strict=True):
            own = block.self_attention
            joined = torch.cat([own.to_query.weight.grad, own.to_key.weight.grad, own.to_value.weight.grad])
            assert_close(joined, layer.self_attn.in_proj_weight.grad, **close)
            assert_close(block.feed_forward.narrow.weight.grad, layer.linear2.weight.grad, **close)
            assert_close(block.self_attention_norm.bias.grad, layer.norm1.bias.grad, **close)
