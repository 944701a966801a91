"""Biases as rules: against transformers' modules, plain loops, the same numbers as a tensor; no matrix is built."""

import copy
import math

import pytest
import torch
from oracle import HALF, Largest, correct, eager, matrix, near
from torch import nn
from torch.testing import assert_close

import regard.attention.backends.fused as fused_backend
from regard import (
    Alibi,
    Bias,
    Causal,
    Documents,
    Keep,
    MultiHeadAttention,
    Padding,
    RelativeBias,
    ScaledDot,
    Softmax,
    Window,
    attend,
)
from regard.attention.backends.reference import reference
from regard.attention.grid.grid import Grid
from regard.attention.pattern import BLOCK_WEIGHTS
from regard.attention.scores.biases.alibi import alibi_slopes
from regard.attention.scores.biases.relative_bias import relative_buckets

CPU = torch.device("cpu")
GRID = Grid(2, 6, 11, 19)


def relative(normal, n_heads=6, **given):
    """A RelativeBias whose numbers are all different."""
    bias = RelativeBias(n_heads, **{"n_buckets": 8, "max_distance": 13, **given})
    with torch.no_grad():
        bias.by_bucket.copy_(normal(*bias.by_bucket.shape))
    return bias


def rules(normal):
    """Every kind of rule, for six heads."""
    return {
        "alibi": Alibi(),
        "alibi from the start": Alibi(offset=0),
        "own slopes": Alibi(slopes=normal(6)),
        "relative": relative(normal),
        "relative, one direction": relative(normal, bidirectional=False, offset=-3),
    }


RULES = ["alibi", "alibi from the start", "own slopes", "relative", "relative, one direction"]


# Against something independent


@pytest.mark.parametrize("n_heads", [1, 2, 3, 5, 8, 12, 13, 16, 31, 40, 64])
def test_slopes_equal_those_of_bloom_and_of_mpt(n_heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    bloom = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), n_heads, torch.float32)[:, 0, 1]
    mpt = -build_mpt_alibi_tensor(n_heads, 2)[:, 0, 0]
    assert_close(alibi_slopes(n_heads).float(), bloom)
    assert_close(alibi_slopes(n_heads).float(), mpt)


def test_slopes_are_those_of_the_paper():
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(16).tolist() == [2.0 ** (-h / 2) for h in range(1, 17)]


def test_alibi_under_causal_weighs_as_blooms_does(normal):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    query, key = normal(1, 5, 7, 11), normal(1, 5, 7, 11)
    alibi = build_alibi_tensor(torch.ones(1, 7, dtype=torch.long), 5, torch.float32)  # of the key's position alone
    scores = query @ key.mT / math.sqrt(11) + alibi[None]
    expected = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -math.inf).softmax(-1)
    assert_close(attend(query, key, key, score=ScaledDot(bias=Alibi()), mask=Causal()).pattern.dense(), expected)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 13), (6, 17), (4, 2), (64, 1009)])
def test_buckets_equal_t5s(n_buckets, max_distance, bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-2 * max_distance - 3, 2 * max_distance + 4)
    expected = T5Attention._relative_position_bucket(distance, bidirectional, n_buckets, max_distance)
    assert torch.equal(relative_buckets(distance, n_buckets, max_distance, bidirectional), expected)


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (3, 211), (1, 19)])
def test_relative_bias_equals_t5s_with_its_parameters_copied(decoder, queries, keys):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=20, num_heads=5, d_kv=4, is_decoder=decoder, relative_attention_max_distance=61)
    module = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    bias = RelativeBias(5, max_distance=61, bidirectional=not decoder)
    bias.load_state_dict({"by_bucket": module.relative_attention_bias.weight})
    expected = module.compute_bias(queries, keys, past_seen_tokens=keys - queries)
    assert_close(bias(Grid(1, 5, queries, keys).whole(), CPU), expected)


def test_a_t5_layer_is_had_with_its_parameters_copied(normal):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=20, num_heads=5, d_kv=4, dropout_rate=0.0)
    config._attn_implementation = "eager"
    module, x = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval(), normal(2, 7, 20)
    bias = RelativeBias(5)
    bias.load_state_dict({"by_bucket": module.relative_attention_bias.weight})
    query, key, value = (into(x).view(2, 7, 5, 4).transpose(1, 2) for into in (module.q, module.k, module.v))
    seen = attend(query, key, value, score=ScaledDot(scale=1.0, bias=bias))  # T5 does not scale
    assert_close(module.o(seen.context.transpose(1, 2).flatten(2)), module(x)[0])


def expected_bias(name, rule, grid=GRID):
    """The numbers of a rule from its equation, one place after the other, in float64."""
    numbers = torch.zeros(grid.shape, dtype=torch.float64)
    for h in range(grid.heads):
        for i in range(grid.queries):
            for j in range(grid.keys):
                first = rule.offset if rule.offset is not None else grid.keys - grid.queries
                distance = j - (i + first)
                if isinstance(rule, Alibi):
                    slope = [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125][h]
                    slope = slope if rule.slopes is None else float(rule.slopes[h])
                    numbers[:, h, i, j] = -slope * abs(distance)
                else:
                    numbers[:, h, i, j] = float(
                        rule.by_bucket.detach()[bucket_by_hand(distance, rule.bidirectional), h]
                    )
    return numbers


def bucket_by_hand(distance, bidirectional):
    """One of 8 buckets up to distance 13, from the words of section 2.1: near ones alone, further ones by logarithm."""
    count = 4 if bidirectional else 8
    steps = abs(distance) if bidirectional else max(0, -distance)
    near = count // 2
    growth = math.log(max(steps, near) / near) / math.log(13 / near)
    bucket = steps if steps < near else min(count - 1, near + int(growth * (count - near)))
    return bucket + (count if bidirectional and distance > 0 else 0)


@pytest.mark.parametrize("name", RULES)
def test_the_numbers_are_those_of_the_equation(normal, name):
    rule = rules(normal)[name]
    found = rule(GRID.whole(), CPU, torch.float64)
    near(found.expand(GRID.shape), expected_bias(name, rule))


MASKS = {
    "none": (None, lambda b, h, i, j: True),
    "causal": (Causal(), lambda b, h, i, j: j <= i + 8),
    "causal from the start": (Causal(0), lambda b, h, i, j: j <= i),
    "padding": (Padding(torch.tensor([3, 17])), lambda b, h, i, j: j < [3, 17][b]),
    "window": (Window(2, 1), lambda b, h, i, j: -2 <= j - i - 8 <= 1),
    "window before the start": (Window(0, 0, offset=-3), lambda b, h, i, j: j == i - 3),
    "keep by key": (Keep(torch.arange(19) % 3 > 0), lambda b, h, i, j: j % 3 > 0),
    "keep by head": (torch.arange(6)[:, None, None] != 2, lambda b, h, i, j: h != 2),
    "documents": (Documents(torch.arange(19) // 5), lambda b, h, i, j: (i + 8) // 5 == j // 5),
}


PAIRS = [(rule, mask) for rule in RULES for mask in MASKS if rule in ("alibi", "relative") or mask == "causal"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF])
@pytest.mark.parametrize(("name", "mask"), PAIRS)
def test_attend_is_as_exact_as_plain_torch(normal, name, mask, dtype):
    rule, (mask, sees) = rules(normal)[name], MASKS[mask]
    query, key, value = (normal(2, h, n, 11).to(dtype) for h, n in ((6, 11), (3, 19), (3, 19)))
    keep, bias = matrix(sees, 2, 6, 11, 19), expected_bias(name, rule)
    with torch.no_grad():  # trained numbers go to another backend
        seen = attend(query, key, value, mask=mask, score=ScaledDot(bias=rule), normalise=Softmax(temperature=0.5))
    assert seen.backend == "fused"
    context, weights = reference(query, key, value, keep=keep, bias=bias, temperature=0.5)
    if dtype == torch.float64:
        near(seen.context, context)
        near(seen.pattern.dense(), weights)
        return
    control = eager(query, key, value, keep=keep, bias=bias, temperature=0.5)
    correct(seen.context.detach(), context, control[0])
    correct(seen.pattern.dense().detach(), weights, control[1])


# Laws


@pytest.mark.parametrize("name", RULES)
def test_a_tile_is_the_slice_of_the_whole(normal, name):
    rule = rules(normal)[name]
    whole = rule(GRID.whole(), CPU).expand(1, -1, -1, -1)
    heads, queries, keys = torch.tensor([5, 0, 3]), range(1, 11, 3), torch.tensor([18, 2, 7])
    tile = GRID.whole().part(batch=range(1), heads=heads, queries=queries, keys=keys)
    assert torch.equal(rule(tile, CPU), whole[:, heads][:, :, queries][..., keys])
    assert rule(GRID.whole().part(keys=range(4, 4)), CPU).shape == (1, 6, 11, 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF])
@pytest.mark.parametrize("mask", [None, Causal(), Padding(torch.tensor([3, 17]))], ids=repr)
@pytest.mark.parametrize("name", RULES)
def test_a_rule_gives_what_the_same_numbers_give_as_a_tensor(normal, name, mask, dtype):
    rule = rules(normal)[name]
    query, key, value = (normal(2, h, n, 11).to(dtype) for h, n in ((6, 11), (3, 19), (3, 19)))
    numbers = rule(GRID.whole(), CPU, torch.promote_types(dtype, torch.float32)).detach()
    by_rule = attend(query, key, value, mask=mask, score=ScaledDot(bias=rule))
    by_tensor = attend(query, key, value, mask=mask, score=ScaledDot(bias=numbers))
    assert torch.equal(by_rule.pattern.dense(), by_tensor.pattern.dense())
    assert torch.equal(by_rule.pattern.scores(), by_tensor.pattern.scores())
    with torch.no_grad():
        detached = attend(query, key, value, mask=mask, score=ScaledDot(bias=rule))
    assert_close(detached.context, by_tensor.context)


@pytest.mark.parametrize("dtype", HALF)
def test_the_pattern_rounds_a_rule_as_the_kernel_does(normal, dtype):
    # slopes so steep that a bias in float32 would give other weights than one in a half type
    rule, query = Alibi(slopes=torch.tensor([3.0071, -5.0123])), torch.zeros(1, 2, 211, 5, dtype=dtype)
    seen = attend(query, query, torch.eye(211, dtype=dtype).expand(1, 2, -1, -1), score=ScaledDot(bias=rule))
    rounded = torch.stack([-s * (torch.arange(211) - torch.arange(211)[:, None]).abs() for s in rule.slopes]).to(dtype)
    assert torch.equal(seen.pattern.scores()[0], rounded.float())
    assert_close(seen.context.float(), seen.pattern.dense(), rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_a_masked_key_is_as_good_as_absent_where_positions_stay(normal, name):
    rule = rules(normal)[name]
    query, key, value = normal(2, 6, 11, 5), normal(2, 6, 19, 5), normal(2, 6, 19, 7)
    seen = attend(query, key, value, score=ScaledDot(bias=rule), mask=torch.arange(19) < 13)
    first = 8 if rule.offset is None else rule.offset  # without the last keys the queries are still where they were
    same = copy.deepcopy(rule) if isinstance(rule, nn.Module) else Alibi(slopes=rule.slopes, offset=first)
    if isinstance(same, nn.Module):
        same.offset = first
    assert_close(seen.context, attend(query, key[:, :, :13], value[:, :, :13], score=ScaledDot(bias=same)).context)


@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize("name", RULES)
@torch.no_grad()
def test_the_size_of_a_block_does_not_matter_and_tiled_agrees(normal, monkeypatch, name, rows):
    rule, mask = rules(normal)[name], Causal() & Padding(torch.tensor([5, 19]))
    query, key, value = normal(2, 6, 11, 5), normal(2, 3, 19, 5), normal(2, 3, 19, 7)
    expected = attend(query, key, value, score=ScaledDot(bias=rule), mask=mask)
    tiled = attend(query, key, value, score=ScaledDot(bias=rule, softcap=1e6), mask=mask)
    assert (expected.backend, tiled.backend) == ("fused", "tiled")
    monkeypatch.setattr(fused_backend, "BLOCK_QUERIES", rows)
    found = attend(query, key, value, score=ScaledDot(bias=rule), mask=mask)
    assert_close(found.context, expected.context)
    assert_close(tiled.context, expected.context, rtol=1e-4, atol=1e-4)  # tanh(x / 1e6) · 1e6 in float32
    assert_close(expected.pattern.apply(value), expected.context)


def test_the_last_queries_alone_see_what_they_see_among_all(normal):
    x = normal(1, 6, 19, 5)
    for rule in (Alibi(), relative(normal)):
        whole = attend(x, x, x, score=ScaledDot(bias=rule), mask=Causal())
        last = attend(x[:, :, 16:], x, x, score=ScaledDot(bias=rule), mask=Causal())
        assert_close(last.context, whole.context[:, :, 16:])
        assert_close(last.pattern[0, 2], whole.pattern[0, 2, 16:])


@pytest.mark.parametrize(("queries", "keys"), [(0, 7), (5, 0), (0, 0)])
def test_nothing_to_attend_to_gives_nothing(normal, queries, keys):
    query, key = normal(2, 6, queries, 5), normal(2, 6, keys, 5)
    for rule in rules(normal).values():
        seen = attend(query, key, key, score=ScaledDot(bias=rule))
        assert torch.equal(seen.context, torch.zeros(2, 6, queries, 5))
        assert seen.pattern.dense().shape == (2, 6, queries, keys)


def test_a_half_type_bars_keys_too_far_to_be_counted(normal):
    rule, query = Alibi(slopes=torch.tensor([7001.0])), normal(1, 1, 13, 5).half()
    seen = attend(query, query, query, score=ScaledDot(bias=rule))
    assert seen.pattern.scores(0, 0, 0)[10:].tolist() == [-math.inf] * 3  # 70010 is more than float16 holds
    assert seen.pattern.dense().isfinite().all()
    assert seen.context.isfinite().all()
    blind = attend(query, query, query, score=ScaledDot(bias=Alibi(slopes=rule.slopes, offset=10)), mask=Causal(10))
    assert seen.backend == blind.backend == "fused"
    assert not blind.pattern.dense()[0, 0, 12].any()  # every key is 10 or more away from the last query
    assert not blind.context[0, 0, 12].any()
    assert torch.equal(blind.pattern.top(1).keys[0, 0, [0, 12]], torch.tensor([[10], [-1]]))


# Memory


class Saved(torch.autograd.graph.saved_tensors_hooks):
    """How many bytes each piece of memory has that waits for the backward pass."""

    def __init__(self):
        self.bytes = {}
        super().__init__(self.save, lambda tensor: tensor)

    def save(self, tensor):
        self.bytes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor


@pytest.mark.parametrize("mask", [None, Causal(), Padding(torch.tensor([4001]))], ids=repr)
def test_the_matrix_is_never_built(normal, mask):
    for rule in (Alibi(), relative(normal, 1)):
        query, key = normal(1, 1, 4099, 5).requires_grad_(), normal(1, 1, 4099, 5)
        with Largest() as forward, (saved := Saved()):
            seen = attend(query, key, key, score=ScaledDot(bias=rule), mask=mask)
        with Largest() as backward:
            seen.context.sum().backward()
        trained = isinstance(rule, RelativeBias)  # on a CPU the fused kernel would build the weights for it
        assert seen.backend == ("tiled" if trained else "fused")
        block = BLOCK_WEIGHTS if trained else fused_backend.BLOCK_QUERIES * 4099
        assert max(forward.numbers, backward.numbers) <= block < 4099**2 / (4 if trained else 15)
        waiting = sum(saved.bytes.values())  # what waits for the backward pass grows with the length
        assert trained or waiting > 0
        assert waiting < 4099 * 4 * 100
        with torch.no_grad(), Largest() as look:
            rows = seen.pattern[0, 0, [0, 4098]]
        assert look.numbers <= 5 * 4099
        assert rows.shape == (2, 4099)


# Gradients


def test_gradients_reach_the_parameters(normal):
    query, key, value = (normal(1, 2, n, 3, dtype=torch.float64).requires_grad_() for n in (5, 7, 7))
    for given in ({}, {"bidirectional": False}):
        bias = relative(normal, 2, **given).double()

        def context(query, key, value, numbers, bias=bias):
            return torch.func.functional_call(Reads(bias), {"bias.by_bucket": numbers}, (query, key, value))

        for mask in (None, Causal()):
            numbers = bias.by_bucket.detach().clone().requires_grad_()
            assert torch.autograd.gradcheck(
                lambda *given, m=mask: context(*given[:3], given[3])(m), (query, key, value, numbers)
            )


class Reads(nn.Module):
    """Attention with a bias that has parameters, which functional_call may replace."""

    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def forward(self, query, key, value):
        score = ScaledDot(bias=self.bias)
        return lambda mask: attend(query, key, value, score=score, mask=mask).context


def test_gradients_equal_those_of_the_same_numbers_as_a_tensor(normal):
    bias = relative(normal)
    query, key, value = normal(2, 6, 11, 5), normal(2, 3, 19, 5), normal(2, 3, 19, 7)
    attend(query, key, value, score=ScaledDot(bias=bias), mask=Causal()).context.square().sum().backward()
    found, bias.by_bucket.grad = bias.by_bucket.grad, None
    numbers = bias(GRID.whole(), CPU)
    keep = torch.ones(11, 19, dtype=torch.bool).tril(8)
    eager(query, key, value, keep=keep, bias=numbers)[0].square().sum().backward()
    assert_close(found, bias.by_bucket.grad)


def test_slopes_can_be_trained(normal):
    slopes = normal(6).requires_grad_()
    query = normal(2, 6, 11, 5)
    attend(query, query, query, score=ScaledDot(bias=Alibi(slopes=slopes))).context.square().sum().backward()
    found, slopes.grad = slopes.grad, None
    numbers = -slopes[:, None, None] * (torch.arange(11) - torch.arange(11)[:, None]).abs()
    eager(query, query, query, bias=numbers)[0].square().sum().backward()
    assert_close(found, slopes.grad)


def test_dropout_is_the_same_in_the_backward_pass(normal):
    query = normal(1, 1, 17, 5).requires_grad_()
    torch.manual_seed(3)
    context = attend(
        query, query.detach(), torch.eye(17)[None, None], score=ScaledDot(bias=Alibi()), dropout=0.5
    ).context
    dropped = context == 0
    (gradient,) = torch.autograd.grad(context[dropped].sum(), query)
    assert bool(dropped.any())
    assert torch.equal(gradient, torch.zeros_like(query))


def test_a_layer_trains_moves_and_saves_the_bias_that_its_score_holds(normal):
    bias = relative(normal, 3)
    layer = MultiHeadAttention(d_model=12, n_heads=3, score=ScaledDot(bias=bias))
    assert any(parameter is bias.by_bucket for parameter in layer.parameters())
    twin = copy.deepcopy(layer)
    assert twin.score.bias is not bias
    assert any(parameter is twin.score.bias.by_bucket for parameter in twin.parameters())
    x, before = normal(2, 7, 12), layer(normal(2, 7, 12)).output
    nn.init.constant_(twin.score.bias.by_bucket, 0.0)
    assert not torch.equal(twin(x).output, layer(x).output)
    twin.load_state_dict(layer.state_dict())
    assert torch.equal(twin(x).output, layer(x).output)
    before.sum().backward()
    assert bool(bias.by_bucket.grad.any())
    assert not any("held" in name for name in MultiHeadAttention(d_model=12, n_heads=3).state_dict())


def test_a_pattern_refuses_once_the_parameters_have_changed(normal):
    bias, query = relative(normal), normal(1, 6, 5, 7)
    pattern = attend(query, query, query, score=ScaledDot(bias=bias)).pattern
    with torch.no_grad():
        bias.by_bucket.add_(1)
    with pytest.raises(ValueError) as refusal:
        pattern.dense()
    assert str(refusal.value) == (
        "a tensor that was given to attend() has been changed in place since, so this pattern would not be the "
        "one that was used; clone the tensor before you change it."
    )


# What they say


def test_an_untrained_bias_changes_nothing(normal):
    query = normal(1, 3, 5, 7)
    plain, biased = attend(query, query, query), attend(query, query, query, score=ScaledDot(bias=RelativeBias(3)))
    assert torch.equal(plain.pattern.dense(), biased.pattern.dense())


def test_rules_introduce_themselves(normal):
    query = normal(1, 3, 5, 7)
    assert isinstance(Alibi(), Bias)
    assert isinstance(RelativeBias(3), Bias)
    assert repr(Alibi()) == "Alibi()"
    assert repr(Alibi(slopes=torch.ones(3), offset=0)) == "Alibi(slopes=<float32 [3]>, offset=0)"
    assert repr(RelativeBias(3)) == "RelativeBias(n_heads=3)"
    given = "RelativeBias(n_heads=3, n_buckets=8, max_distance=13, bidirectional=False, offset=0)"
    assert repr(RelativeBias(3, n_buckets=8, max_distance=13, bidirectional=False, offset=0)) == given
    pattern = attend(query, query, query, score=ScaledDot(bias=Alibi())).pattern
    assert repr(pattern) == "Pattern(batch=1, heads=3, queries=5, keys=5, score=ScaledDot(bias=Alibi()))"


@pytest.mark.parametrize(
    ("refused", "kind", "message"),
    [
        (
            lambda x: attend(x, x, x, score=ScaledDot(bias=Alibi(slopes=torch.ones(2)))),
            ValueError,
            "Alibi was given slopes of shape [2] for 3 heads; give one for each head, [3], or None for the paper's.",
        ),
        (
            lambda x: Alibi(4),
            TypeError,
            "Alibi was given slopes=4; it takes a tensor of one number for each head, or None for the paper's: "
            "Alibi() fits any number of heads.",
        ),
        (
            lambda x: attend(x, x, x, score=ScaledDot(bias=RelativeBias(5))),
            ValueError,
            "RelativeBias has numbers for 5 heads and query has 3 heads; build it with RelativeBias(3).",
        ),
        (
            lambda x: RelativeBias(3, n_buckets=7),
            ValueError,
            "n_buckets=7 cannot be shared out; two directions take an even number of buckets, at least 4.",
        ),
        (
            lambda x: RelativeBias(3, n_buckets=2),
            ValueError,
            "n_buckets=2 cannot be shared out; two directions take an even number of buckets, at least 4.",
        ),
        (
            lambda x: RelativeBias(3, n_buckets=1, bidirectional=False),
            ValueError,
            "n_buckets=1 cannot be shared out; take at least 2.",
        ),
        (
            lambda x: RelativeBias(3, max_distance=8),
            ValueError,
            "max_distance=8 lies within the first 8 distances, which have a bucket each of n_buckets=32; "
            "take a larger max_distance or fewer buckets.",
        ),
        (
            lambda x: ScaledDot(bias=0.5),
            TypeError,
            "bias is a float; it takes a tensor that broadcasts to [batch heads queries keys], a rule such as Alibi(), "
            "or None.",
        ),
    ],
)
def test_refusals(normal, unhooked, refused, kind, message):
    with pytest.raises(kind) as refusal:
        refused(normal(1, 3, 5, 7))
    assert str(refusal.value) == message
