"""Tests of reprs: the expression that builds the object, without arguments that equal their default."""

import pytest
import torch
from torch import nn

import regard
from regard import (
    Alibi,
    Cosine,
    Documents,
    Dot,
    Forgetting,
    Keep,
    Local,
    LocationAware,
    Padding,
    Prefix,
    ScaledDot,
    Softmax,
)
from regard.attention.scores.prepared import Prepared

EXPRESSIONS = """
Causal()
Causal(own=False)
(Causal(offset=0) & ~Window(before=3, after=0, offset=2))
(Prefix(length=3) | Dilated(before=6, after=0, step=2))
Chunked(size=4, offset=1)
Global(positions=(0, 3))
ScaledDot()
ScaledDot(scale=1.0)
ScaledDot(bias=Alibi())
General(d_query=5, d_key=11)
Additive(d_query=5, d_key=11, d_hidden=17)
Concat(d_query=5, d_key=11, d_hidden=17)
Location(d_query=5, max_keys=29)
LocationAware(d_query=3, d_key=11, d_hidden=13, n_filters=2, width=5)
Cosine()
Cosine(scale=2.0)
Distance()
Distance(scale=0.5)
Shaw(d_key=11, max_distance=3)
Shaw(d_key=11, max_distance=3, scale=1.0, offset=0)
RelativeBias(n_heads=3)
RelativeBias(n_heads=3, n_buckets=8, max_distance=13, bidirectional=False, offset=0)
Softmax()
SoftmaxPlusOne()
Sparsemax()
Entmax()
Entmax(alpha=1.25)
Sigmoid()
Sigmoid(bias=-2.0)
TopK(n=3)
StickBreaking()
Hard()
Hard(choose=Sampled(seed=7))
Hard(choose=StraightThrough(soft=Softmax(temperature=0.5)))
GumbelSoftmax(seed=7)
GumbelSoftmax(seed=7, temperature=0.5)
TalkingHeads(n_heads=3)
TalkingHeads(n_heads=3, normalise=Sparsemax())
Rotary()
Rotary(base=500000.0, d_rotary=8)
Rotary(pairing='neighbours', stretch=Interpolate(factor=2.0))
Yarn(factor=3.0, max_tokens=2048)
LlamaStretch(factor=8.0, fast=5.0)
LearnedPositions(max_tokens=7, d_model=3)
""".strip().splitlines()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_repr_is_the_expression_that_builds_the_object(text):
    names = {name: getattr(regard, name) for name in regard.__all__ if name in text}
    assert repr(eval(text, names)) == text


def test_tensors_are_shown_by_type_and_shape():
    lengths, aware = torch.tensor([3, 5]), LocationAware(d_query=3, d_key=11, d_hidden=13, n_filters=2, width=5)
    shown = {
        Keep(torch.tensor(True)): "Keep(tensor=<bool []>)",
        ~Padding(lengths, side="left"): "~Padding(lengths=<int64 [2]>, side='left')",
        Prefix(lengths, offset=0): "Prefix(length=<int64 [2]>, offset=0)",
        Documents(torch.zeros(2, 7).long()): "Documents(ids=<int64 [2, 7]>)",
        ScaledDot(softcap=30.0, bias=torch.zeros(3, 1)): "ScaledDot(softcap=30.0, bias=<float32 [3, 1]>)",
        Cosine(scale=nn.Parameter(torch.ones(6))): "Cosine(scale=<float32 [6]>)",
        Alibi(slopes=torch.ones(3), offset=0): "Alibi(slopes=<float32 [3]>, offset=0)",
        Forgetting(torch.zeros(2, 1, 7)): "Forgetting(log_gates=<float32 [2, 1, 7]>)",
        Softmax(temperature=0.5, sinks=torch.zeros(2)): "Softmax(temperature=0.5, sinks=<float32 [2]>)",
        Local(torch.zeros(2, 3, 5), 2.0): "Local(centre=<float32 [2, 3, 5]>, reach=2.0)",
        aware.after(torch.zeros(1, 1, 1, 7)): f"{aware!r}.after(<[1, 1, 1, 7]>)",
        Prepared(aware): f"Prepared(score={aware!r})",
        Dot(): "ScaledDot(scale=1.0)",
    }
    assert [repr(part) for part in shown] == list(shown.values())
