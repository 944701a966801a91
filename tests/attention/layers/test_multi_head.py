"""Tests of MultiHeadAttention: against torch's module, shapes, the cache, and taking over torch's parameters."""

import copy
import math

import pytest
import torch
from refusals import refusal
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from regard import (
    Causal,
    Keep,
    LatentAttention,
    MultiHeadAttention,
    Padding,
    RelativeBias,
    Rotary,
    ScaledDot,
    Softmax,
    TalkingHeads,
    sinusoidal,
)


def torchs(d_model: int, n_heads: int, bias: bool = True) -> nn.MultiheadAttention:
    """Return torch's multi-head attention with large random parameters, so that mistakes show."""
    module = nn.MultiheadAttention(d_model, n_heads, batch_first=True, bias=bias).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5, generator=torch.Generator().manual_seed(1))
    return module


@pytest.mark.parametrize("bias", [True, False])
def test_self_attention_equals_torchs_with_its_parameters_copied(normal, bias):
    module, x = torchs(22, 2, bias), normal(3, 7, 22)
    read = MultiHeadAttention.from_torch(module)(x)
    output, weights = module(x, x, x, average_attn_weights=False)
    assert_close(read.output, output)
    assert_close(read.pattern.dense(), weights)


def test_frozen_parameters_of_torchs_module_stay_frozen():
    module = torchs(6, 2)
    module.in_proj_weight.requires_grad_(False)
    module.out_proj.bias.requires_grad_(False)
    trained = [name for name, one in MultiHeadAttention.from_torch(module).named_parameters() if one.requires_grad]
    assert trained == ["to_query.bias", "to_key.bias", "to_value.bias", "to_output.weight"]


def test_masked_cross_attention_equals_torchs(normal):
    module, x, memory = torchs(15, 3), normal(2, 5, 15), normal(2, 7, 15)
    lengths = torch.tensor([4, 7])
    read = MultiHeadAttention.from_torch(module)(x, memory, mask=Padding(lengths))
    masked = torch.arange(7) >= lengths[:, None]  # torch's masks are True where a key is not to be seen
    output, weights = module(x, memory, memory, key_padding_mask=masked, average_attn_weights=False)
    assert_close(read.output, output)
    assert_close(read.pattern.dense(), weights)


def test_causal_equals_torchs(normal):
    module, x = torchs(14, 7), normal(2, 11, 14)
    read = MultiHeadAttention.from_torch(module)(x, mask=Causal())
    output, _ = module(x, x, x, attn_mask=torch.ones(11, 11).triu(1).bool())
    assert_close(read.output, output)


def test_gradients_equal_torchs(normal):
    module, x = torchs(14, 2), normal(2, 5, 14)
    copied = MultiHeadAttention.from_torch(module)
    module(x, x, x)[0].square().sum().backward()
    copied(x).output.square().sum().backward()
    expected = module.in_proj_weight.grad.chunk(3)
    for projection, gradient in zip((copied.to_query, copied.to_key, copied.to_value), expected, strict=True):
        assert_close(projection.weight.grad, gradient, rtol=1e-4, atol=1e-4)


def test_grouped_heads_equal_keys_and_values_repeated(normal):
    module, x = MultiHeadAttention(d_model=24, n_heads=6, n_key_heads=2), normal(2, 5, 24)
    read = module(x)
    full = MultiHeadAttention(d_model=24, n_heads=6)
    full.to_query.load_state_dict(module.to_query.state_dict())
    full.to_output.load_state_dict(module.to_output.state_dict())
    for into, kept in ((full.to_key, module.to_key), (full.to_value, module.to_value)):
        weight = kept.weight.view(2, 4, 24).repeat_interleave(3, dim=0).reshape(24, 24)
        into.load_state_dict({"weight": weight, "bias": kept.bias.view(2, 4).repeat_interleave(3, dim=0).reshape(24)})
    assert_close(read.output, full(x).output)
    assert_close(read.pattern.dense(), full(x).pattern.dense())


def test_with_rotary_positions_the_last_tokens_alone_read_as_they_do_among_all(normal):
    module, x = MultiHeadAttention(d_model=12, n_heads=2, positions=Rotary()), normal(2, 7, 12)
    whole = module(x, mask=Causal())
    last = module(x[:, 5:], x, mask=Causal())
    assert_close(last.output, whole.output[:, 5:])


@pytest.mark.parametrize("steps", [[7], [1] * 7, [4, 1, 2]], ids=["prefill", "one by one", "mixed"])
@pytest.mark.parametrize("positions", [None, Rotary()], ids=["no positions", "rotary"])
def test_with_a_cache_tokens_read_as_they_do_all_at_once(normal, steps, positions):
    module = MultiHeadAttention(d_model=24, n_heads=6, n_key_heads=2, positions=positions)
    x, cache, seen = normal(3, 7, 24), None, 0
    whole = module(x, mask=Causal())
    for n_tokens in steps:
        read = module(x[:, seen : seen + n_tokens], mask=Causal(), cache=cache)
        cache, rows = read.cache, slice(seen, seen + n_tokens)
        seen += n_tokens
        assert cache.n_tokens == seen
        assert_close(read.output, whole.output[:, rows])
        assert_close(read.pattern.dense(), whole.pattern.dense()[:, :, rows, :seen])


def test_with_a_cache_padding_on_the_left_changes_nothing(normal):
    module = MultiHeadAttention(d_model=12, n_heads=2, positions=Rotary())
    texts = [normal(1, n_tokens, 12) for n_tokens in (5, 3)]
    alone = [module(text, mask=Causal()).output for text in texts]
    x = torch.cat([torch.nn.functional.pad(text, (0, 0, 5 - text.shape[1], 0), value=9.0) for text in texts])
    tokens = torch.arange(5) >= torch.tensor([0, 2])[:, None]
    first = module(x[:, :4], mask=Causal() & Keep(tokens[:, None, None, :4]))
    second = module(x[:, 4:], mask=Causal() & Keep(tokens[:, None, None]), cache=first.cache)
    output = torch.cat([first.output, second.output], dim=1)
    assert_close(output[0], alone[0][0])
    assert_close(output[1, 2:], alone[1][0])


def test_a_memory_prepared_once_is_read_like_the_memory_itself(normal):
    module, memory = MultiHeadAttention(d_model=12, n_heads=3, positions=Rotary()), normal(2, 5, 12)
    known = module.prepare(memory)
    for n_queries in (1, 5, 7):
        x = normal(2, n_queries, 12)
        assert_close(module(x, known).output, module(x, memory).output)


def test_queries_before_the_first_key_stand_at_negative_positions(normal):
    module, x = MultiHeadAttention(d_model=8, n_heads=1, positions=Rotary()), normal(1, 5, 8)
    read = module(x, x[:, 2:])  # the queries are taken to be the last tokens: the first key is the third of them
    query = Rotary()(module.to_query(x)[:, None], torch.arange(-2, 3))
    key = Rotary()(module.to_key(x[:, 2:])[:, None], torch.arange(3))
    assert_close(read.pattern.dense(), (query @ key.mT / math.sqrt(8)).softmax(dim=-1))


def test_one_projection_shared_by_all_heads_is_a_matter_of_parameters(normal):
    """As in some tutorials, which also divide by √d_model."""
    d_model, n_heads, d_head, x = 12, 3, 4, normal(2, 5, 12)
    shared = {role: normal(d_head, d_model) for role in ("query", "key", "value")}
    module = MultiHeadAttention(d_model, n_heads, score=ScaledDot(scale=d_model**-0.5))
    for role, projection in zip(shared, (module.to_query, module.to_key, module.to_value), strict=True):
        projection.load_state_dict({"weight": shared[role].repeat(n_heads, 1), "bias": torch.zeros(d_model)})
    query, key, value = (x @ shared[role].T for role in shared)
    head = (query @ key.mT / math.sqrt(d_model)).softmax(dim=-1) @ value
    assert_close(module(x).output, module.to_output(torch.cat([head] * n_heads, dim=-1)))


def test_a_call_may_bring_its_own_score_and_normaliser(normal):
    parts = {"score": ScaledDot(bias=normal(2, 5, 7)), "normalise": Softmax(sinks=torch.tensor([0.5, -1.0]))}
    own = {"score": ScaledDot(scale=3.0), "normalise": Softmax(sinks=nn.Parameter(torch.zeros(2)))}
    layer, x, memory = MultiHeadAttention(8, 2, **own), normal(3, 5, 8), normal(3, 7, 8)
    for brought in (["score"], ["normalise"], ["score", "normalise"]):
        of_call = {name: parts[name] for name in brought}
        other = MultiHeadAttention(8, 2, **(own | of_call))
        other.load_state_dict(layer.state_dict(), strict=False)
        assert_close(layer(x, memory, **of_call).output, other(x, memory).output)


def test_dropout_is_for_training_only_and_the_pattern_shows_weights_before_it(normal):
    module, x = MultiHeadAttention(d_model=12, n_heads=2, dropout=0.5), normal(2, 7, 12)
    trained, looked = module(x), module.eval()(x)
    assert not torch.equal(trained.output, looked.output)
    assert torch.equal(trained.pattern.dense(), looked.pattern.dense())


def test_its_repr_has_the_arguments_that_are_no_defaults():
    module = MultiHeadAttention(12, 6, n_key_heads=2, positions=Rotary(), score=ScaledDot(scale=1.0))
    given = "n_heads=6, d_head=2, n_key_heads=2, score=ScaledDot(scale=1.0), positions=Rotary()"
    assert module.extra_repr() == given


def test_refusals(without_type_checks):
    cases = [
        (
            lambda: MultiHeadAttention(d_model=512, n_heads=7),
            "d_model=512 does not split evenly into n_heads=7; "
            "head counts that divide it: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].",
        ),
        (
            lambda: MultiHeadAttention(d_model=12, n_heads=6, n_key_heads=4),
            "n_heads=6 does not split evenly into groups for n_key_heads=4; head counts that divide it: [1, 2, 3, 6].",
        ),
        (
            lambda: MultiHeadAttention(4, 2)(
                torch.zeros(1, 2, 4), torch.zeros(1, 3, 4), cache=MultiHeadAttention(4, 2).prepare(torch.zeros(1, 2, 4))
            ),
            "got both memory and cache; give memory for cross-attention, or cache for self-attention.",
        ),
        (
            lambda: MultiHeadAttention(d_model=9, n_heads=3, positions=Rotary())(torch.zeros(1, 2, 9)),
            "rotary positions rotate pairs of numbers, so the width of a head must be even; got 3.",
        ),
        (
            lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(6, 2, kdim=4, vdim=4, add_zero_attn=True)),
            "this nn.MultiheadAttention has kdim or vdim other than embed_dim and add_zero_attn, which "
            "MultiHeadAttention does not support.",
        ),
        (
            lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(6, 2)),
            "this nn.MultiheadAttention takes [tokens batch width] (batch_first=False) and MultiHeadAttention "
            "[batch tokens width]; set module.batch_first = True, and transpose the inputs of the new layer.",
        ),
        (
            lambda: MultiHeadAttention(8, 2)(torch.zeros(3, 5, 6)),
            "x has shape [3, 5, 6]; this MultiHeadAttention takes [batch tokens 8].",
        ),
        (
            lambda: MultiHeadAttention(8, 2)(torch.zeros(3, 5, 8), torch.zeros(5, 8)),
            "memory has shape [5, 8]; this MultiHeadAttention takes [batch tokens 8].",
        ),
        (
            lambda: MultiHeadAttention(8, 2, dropout=1.0),
            "dropout=1.0 must be the probability that a weight is dropped, at least 0 and below 1.",
        ),
        (
            lambda: LatentAttention(8, 2, d_latent=3, d_rotary=2)(torch.zeros(3, 5, 6)),
            "x has shape [3, 5, 6]; this LatentAttention takes [batch tokens 8].",
        ),
    ]
    assert [refusal(ValueError, call) for call, _ in cases] == [message for _, message in cases]
    assert refusal(TypeError, lambda: MultiHeadAttention(8, 2, positions=sinusoidal)) == (
        "positions is the function sinusoidal; it takes an object such as Rotary(), which rotates queries and keys. "
        "Vectors that are added to tokens (LearnedPositions, sinusoidal) are added before this layer."
    )
    for x, what in (
        (
            [[[0.0] * 8]],
            "x is a list; this MultiHeadAttention takes a tensor [batch tokens 8], and torch.as_tensor makes ",
        ),
        (None, "x is None; this MultiHeadAttention takes a tensor [batch tokens 8], and torch.as_tensor makes "),
    ):
        assert refusal(TypeError, MultiHeadAttention(8, 2), x) == f"{what}one of an array or a list."
    assert refusal(TypeError, MultiHeadAttention(8, 2), torch.ones(2, 5, 8, dtype=torch.int64)) == (
        "x has dtype torch.int64; this MultiHeadAttention takes vectors of floats; convert whole numbers with "
        ".float(), and token ids with an nn.Embedding."
    )
    assert refusal(TypeError, MultiHeadAttention(8, 2), torch.zeros(2, 5, 8).double()) == (
        "x has dtype torch.float64 and the parameters of this MultiHeadAttention have torch.float32; convert x with "
        ".to(torch.float32), or the layer with .double()."
    )
    assert MultiHeadAttention(8, 2).double()(torch.zeros(2, 5, 8).double()).output.dtype == torch.float64
    assert refusal(TypeError, lambda: MultiHeadAttention(d_modle=8, n_heads=2)) == (
        "MultiHeadAttention has no argument 'd_modle'; nearest: d_model."
    )
    assert refusal(TypeError, lambda: MultiHeadAttention("8", 2)) == "d_model is a str; it takes a whole number."
    assert refusal(TypeError, lambda: MultiHeadAttention(8, 2.0)) == "n_heads is a float; it takes a whole number."
    read = MultiHeadAttention(8, 2)(torch.zeros(3, 5, 8))
    assert refusal(TypeError, lambda: MultiHeadAttention(8, 2)(torch.zeros(3, 5, 8), cache=read)) == (
        "cache is a MultiHeadRead; it takes the cache of an earlier call, layer(x).cache."
    )
    assert refusal(TypeError, MultiHeadAttention.from_torch, nn.Linear(2, 2)) == (
        "from_torch takes an nn.MultiheadAttention; got a Linear."
    )


THREE_TENSORS = "for (x, x, x) write (x), for (x, memory, memory) write (x, memory)"


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda layer, x: layer(x, x, x), THREE_TENSORS),
        (lambda layer, x: layer(query=x, key=x, value=x), THREE_TENSORS),
        (
            lambda layer, x: layer(x, x, x, is_causal=True, need_weights=False),
            f"{THREE_TENSORS}; for is_causal=True write mask=Causal(); leave out need_weights, because the result "
            "always has the weights as .pattern",
        ),
        (
            lambda layer, x: layer(x, attn_mask=torch.ones(5, 5).bool(), average_attn_weights=False),
            "for a boolean attn_mask write mask=~attn_mask, for numbers score=ScaledDot(bias=attn_mask); leave out "
            "average_attn_weights, because .pattern has the weights of every head",
        ),
        (
            lambda layer, x: layer(x, key_padding_mask=torch.ones(2, 5).bool()),
            "for key_padding_mask write mask=~key_padding_mask[:, None, None] or mask=Padding(lengths)",
        ),
        (lambda layer, x: type(layer)(8, 2, 0.1), "after d_model and n_heads write names, such as dropout=0.1"),
        (
            lambda layer, x: type(layer)(embed_dim=8, num_heads=2, batch_first=True),
            "for embed_dim write d_model; for num_heads write n_heads; leave out batch_first, because the batch is "
            "always the first axis",
        ),
        (
            lambda layer, x: type(layer)(8, 2, kdim=4, vdim=4, device="cpu", dtype=torch.float16),
            "leave out kdim and vdim, because all tokens have the width d_model; for device and dtype write .to(…) "
            "after the call",
        ),
    ],
)
def test_arguments_of_torchs_module_are_refused_with_what_to_write_instead(normal, without_type_checks, call, advice):
    assert refusal(TypeError, call, MultiHeadAttention(8, 2), normal(2, 5, 8)) == (
        f"MultiHeadAttention has other arguments than nn.MultiheadAttention: {advice}."
    )


def test_what_the_advice_for_torchs_masks_says_is_right(normal):
    module, x = torchs(14, 7), normal(2, 11, 14)
    layer, numbers, later = MultiHeadAttention.from_torch(module), normal(11, 11), torch.ones(11, 11).triu(1).bool()
    padded = torch.arange(11) >= torch.tensor([[11], [4]])
    assert_close(layer(x, mask=~later).output, module(x, x, x, attn_mask=later)[0])
    assert_close(layer(x, score=ScaledDot(bias=numbers)).output, module(x, x, x, attn_mask=numbers)[0])
    assert_close(layer(x, mask=~padded[:, None, None]).output, module(x, x, x, key_padding_mask=padded)[0])


def test_parameters_of_its_score_and_normaliser_are_its_own(normal):
    sinks, rule = nn.Parameter(torch.zeros(2)), RelativeBias(2)
    module = MultiHeadAttention(8, 2, normalise=Softmax(sinks=sinks), score=ScaledDot(bias=rule))
    assert sum(parameter is sinks for parameter in module.parameters()) == 1
    assert sum(parameter is rule.by_bucket for parameter in module.parameters()) == 1
    assert {"held.0.by_bucket", "held_parameters.0"} <= module.state_dict().keys()
    module(normal(1, 3, 8)).output.sum().backward()
    assert bool((sinks.grad != 0).all())
    plain = MultiHeadAttention(8, 2, normalise=Softmax(sinks=torch.zeros(2)))
    assert plain.state_dict().keys() == MultiHeadAttention(8, 2).state_dict().keys()


def with_parts(normalise):
    """Return a layer whose bias and sinks have parameters."""
    sinks, bias = nn.Parameter(torch.tensor([0.5, -1.0])), nn.Parameter(torch.tensor([[[0.3, -0.2, 0.1]]]))
    return MultiHeadAttention(8, 2, score=ScaledDot(bias=bias), normalise=normalise(Softmax(sinks=sinks)))


@pytest.mark.parametrize(
    "normalise", [lambda softmax: softmax, lambda softmax: TalkingHeads(2, softmax)], ids=["", "talking"]
)
def test_replaced_loaded_and_assigned_parameters_are_used(normal, normalise):
    x, module, other = normal(1, 3, 8), with_parts(normalise), with_parts(normalise)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(normal(*parameter.shape))
    expected, numbers = other(x).output, other.state_dict()
    assert len(numbers) == 8 + 2 + 2 * isinstance(module.normalise, TalkingHeads)
    assert_close(functional_call(module, numbers, (x,)).output, expected)
    empty = copy.deepcopy(module).to("meta").to_empty(device="cpu")
    empty.load_state_dict(numbers)
    assert_close(empty(x).output, expected)
    assert not torch.equal(module(x).output, expected)
    module.load_state_dict(numbers, assign=True)
    read = module(x)
    assert_close(read.output, expected)
    assert_close(read.pattern.dense(), other(x).pattern.dense())
    read.output.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_cache_of_another_layer_or_batch_is_refused():
    x, layer = torch.ones(2, 3, 12), MultiHeadAttention(12, 3)
    for cache, shape in (
        (MultiHeadAttention(12, 2)(x).cache, [2, 2, 3, 6]),
        (layer(torch.ones(1, 3, 12)).cache, [1, 3, 3, 4]),
    ):
        assert refusal(ValueError, layer, x[:, :1], cache=cache) == (
            f"the cache has keys of shape {shape}, and those of the new tokens have shape [2, 3, 1, 4]; only the "
            "numbers of tokens (axis 2) may differ: give the cache that this layer returned for the same batch items."
        )
