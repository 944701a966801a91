"""A model with one attention layer of any function, and its watched attention call: for tests of `regard.watching`."""

import torch
from einops import rearrange
from torch import nn

import regard

BATCH, HEADS, TOKENS, WIDTH = 3, 2, 7, 5


class SelfAttention(nn.Module):
    """Attention between queries, keys and values of one input, by a function of (query, key, value) -> context."""

    def __init__(self, attention, heads=HEADS):
        super().__init__()
        self.attention, self.num_heads = attention, heads
        self.project = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)

    def forward(self, x):
        query, key, value = rearrange(self.project(x), "b t (three h d) -> three b h t d", three=3, h=HEADS)
        return rearrange(self.attention(2 * query, key, value), "b h t d -> b t (h d)")


def model_of(attention):
    torch.manual_seed(0)
    return nn.ModuleDict({"first": nn.Linear(10, 10), "blocks": nn.ModuleList([SelfAttention(attention)])})


def run(model, x):
    return model["blocks"][0](model["first"](x))


def watch(attention):
    """Return the pattern of the one attention step that `watching` recorded; `keep` stores weights in `KEPT`."""
    model, x = model_of(attention), torch.randn(BATCH, TOKENS, HEADS * WIDTH)
    plain = run(model, x)
    with regard.watching(model) as watched:
        output = run(model, x)
    assert torch.equal(output, plain)
    assert not watched.unseen
    (step,) = watched.steps
    assert (step.path, step.layer, step.call) == ("blocks.0", 0, 0)
    assert watched.check().max_error < 1e-5
    return step.attended.pattern


KEPT = {}
CAUSAL = torch.ones(TOKENS, TOKENS).tril().bool()
BIAS = torch.randn(HEADS, TOKENS, TOKENS, generator=torch.manual_seed(1))
PADDING = torch.arange(TOKENS) < torch.tensor([7, 5, 3])[:, None]


def keep(weights):
    KEPT["weights"] = weights
    return weights


def minimal(query, key, value):
    return keep((query @ key.mT).softmax(-1)) @ value
