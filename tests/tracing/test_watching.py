"""Watched attention steps against the weights that the models themselves compute."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
import transformers
from einops import rearrange
from refusals import refusal
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing import assert_close

import regard
from regard import InputError

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
    """Return the attention step that `watching` recorded, and the weights that `attention` stored in `KEPT`."""
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


def nano(query, key, value):
    scores = (query @ key.transpose(-2, -1)) * (1.0 / math.sqrt(key.size(-1)))
    scores = scores.masked_fill(CAUSAL == 0, float("-inf"))
    return F.dropout(keep(F.softmax(scores, dim=-1)), 0.1, training=False) @ value


def masked_twice(query, key, value):
    weights = (query @ key.mT).masked_fill(~CAUSAL, -1e9).softmax(-1)
    return keep(weights.masked_fill(~CAUSAL, 0.0)) @ value


def with_a_boolean_bias(query, key, value):
    return keep((query @ key.mT + CAUSAL).softmax(-1)) @ value


def with_finite_mask(query, key, value):
    scores = torch.matmul(query, key.transpose(2, 3)) / torch.tensor(WIDTH**0.5)
    scores = torch.where(CAUSAL, scores, torch.finfo(scores.dtype).min) + BIAS
    return torch.matmul(keep(nn.functional.softmax(scores, dim=-1, dtype=torch.float32)).to(value.dtype), value)


def in_place(query, key, value):
    scores = query @ key.mT
    scores /= 3
    scores += BIAS
    scores.masked_fill_(~CAUSAL, -math.inf)
    return keep(scores.softmax(3)) @ value


def by_letters(query, key, value):
    scores = torch.einsum("bhid,bhjd->bhij", query, key) * 0.3 + BIAS
    return torch.einsum("b h i j, b h j d -> b h i d", keep(torch.softmax(scores, -1)), value)


def letters_in_another_order(query, key, value):
    query, key, value = (part.permute(2, 0, 1, 3) for part in (query, key, value))
    scores = torch.einsum("ibnd,jbnd->bnij", query, key)
    return torch.einsum("bnij,jbnd->ibnd", keep(torch.softmax(scores, dim=3)), value).permute(1, 2, 0, 3)


def by_ellipsis(query, key, value):
    return torch.einsum("...qk,...kd->...qd", keep(torch.einsum("...qd,...kd->...qk", query, key).softmax(-1)), value)


def packed(query, key, value):
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    bias = BIAS.repeat(BATCH, 1, 1)
    scores = bias.baddbmm(batch1=query, batch2=key.mT, beta=0.5, alpha=0.25).view(BATCH, HEADS, TOKENS, TOKENS)
    weights = keep(scores.masked_fill(~PADDING[:, None, None], -1e4).softmax(-1))
    return torch.bmm(weights.view(-1, TOKENS, TOKENS), value).unflatten(0, (BATCH, HEADS))


def masked_where(query, key, value):
    scores = query @ key.mT
    return keep(torch.where(~CAUSAL, -math.inf, scores).softmax(-1)) @ value


def packed_with_whole_numbers(query, key, value):
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    scores = torch.baddbmm(BIAS.repeat(BATCH, 1, 1), query, key.mT, alpha=1)
    scores = torch.add(scores, BIAS.repeat(BATCH, 1, 1), alpha=1)
    return torch.bmm(keep(scores.view(BATCH, HEADS, TOKENS, TOKENS).softmax(-1)).flatten(0, 1), value).unflatten(
        0, (BATCH, HEADS)
    )


def packed_by_default(query, key, value):
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    scores = torch.baddbmm(BIAS.repeat(BATCH, 1, 1), query, key.mT).view(BATCH, HEADS, TOKENS, TOKENS)
    return torch.bmm(keep(scores.softmax(-1)).flatten(0, 1), value).unflatten(0, (BATCH, HEADS))


def sum_of_products(query, key, value):
    return keep((query @ key.mT + query @ BIAS[0, :, :WIDTH].mT).softmax(-1)) @ value


def with_softcap(query, key, value):
    scores = 2 * torch.tanh(query @ key.mT / 2)
    return keep(scores.softmax(-1)) @ value


def in_groups(query, key, value):
    query = query[:, :1, None].expand(-1, 1, HEADS, -1, -1)
    weights = (query @ key[:, :1, None].mT).softmax(-1)
    keep(weights[:, 0])
    return (weights @ value[:, :1, None])[:, 0]


WRITTEN_OUT = [
    minimal, nano, masked_twice, with_a_boolean_bias, with_finite_mask, in_place, by_letters,
    letters_in_another_order, by_ellipsis, packed, masked_where, packed_with_whole_numbers, packed_by_default,
    sum_of_products, with_softcap, in_groups,
]  # fmt: skip


@pytest.mark.parametrize("attention", WRITTEN_OUT)
def test_the_pattern_of_attention_that_is_written_out_has_the_models_own_weights(attention):
    pattern = watch(attention)
    assert_close(pattern.dense(), KEPT["weights"], rtol=1e-5, atol=1e-6)


class Changing(nn.Module):
    """Attention whose module changes the context in place, as Nystromformer's does."""

    def __init__(self, change, function):
        super().__init__()
        self.change, self.function = change, function

    def forward(self, x):
        return self.change(self.function(x, x, x), x)


def add_in_place(context, x):
    context += x
    return context


def set_part_of_a_view(context, x):
    context.flatten(1, 2)[:, 0] = 7.0
    return context


CHANGES = [
    add_in_place,
    set_part_of_a_view,
    lambda context, x: context.mul_(3),
    lambda context, x: torch.add(context, x, out=None),
    lambda context, x: F.relu(context, inplace=True),
]


@pytest.mark.parametrize("function", [minimal, F.scaled_dot_product_attention], ids=["written", "sdpa"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_context_that_is_changed_in_place_is_recorded_as_it_was(change, function):
    x = torch.randn(BATCH, HEADS, TOKENS, WIDTH)
    model = Changing(change, function)
    plain = model(x)
    with regard.watching(model) as watched:
        output = model(x)
    assert torch.equal(output, plain)
    (step,) = watched.steps
    assert torch.equal(step.attended.context, function(x, x, x))
    assert watched.check().max_error < 1e-5


@pytest.mark.parametrize("attention", [a for a in WRITTEN_OUT if a is not with_softcap])
def test_queries_and_keys_of_written_out_attention_are_found(attention):
    assert watch(attention).query.shape[-1] == WIDTH


def test_scores_that_are_no_product_are_kept_as_they_are():
    pattern = watch(with_softcap)
    assert pattern.query.shape[-1] == 1
    assert not pattern.query.any()


def test_a_tensor_that_was_changed_without_a_rule_is_not_taken_for_what_it_was():
    def changed(query, key, value):
        scores = query @ key.mT
        scores[..., 2] = -math.inf
        scores.clamp_(max=1.0)
        return keep(scores.softmax(-1)) @ value

    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            assert_close(watch(changed).dense(), KEPT["weights"])


SINKS = torch.tensor([0.5, -1.0])


def with_sinks(change=lambda scores: scores, cut=True):
    """Attention as gpt-oss computes it: a sink takes part in the softmax and has no value."""

    def attention(query, key, value):
        scores = query @ key.mT
        column = SINKS[:, None, None].expand(BATCH, -1, TOKENS, 1)
        scores = change(torch.cat([scores, column], dim=-1))
        weights = keep((scores - scores.max(dim=-1, keepdim=True).values).softmax(dim=-1))
        return weights[..., :-1] @ value if cut else weights @ F.pad(value, (0, 0, 0, 1))

    return attention


def test_sinks_in_written_out_attention_are_found():
    pattern = watch(with_sinks())
    assert_close(pattern.dense(), KEPT["weights"][..., :-1])
    assert torch.equal(pattern.call.normalise.sinks, SINKS)
    assert pattern.query.shape[-1] == WIDTH


def test_a_column_of_sinks_with_a_value_is_a_key():
    assert_close(watch(with_sinks(cut=False)).dense(), KEPT["weights"])


def test_sinks_beside_other_scores_are_named():
    model = model_of(with_sinks(change=lambda scores: scores * 2))
    with regard.watching(model) as watched:
        run(model, torch.randn(BATCH, TOKENS, HEADS * WIDTH))
    assert not watched.steps
    assert watched.unseen == {
        "blocks.0": "its pattern cannot be made: its scores are more than a scaled, masked and biased product, with "
        "sinks beside it."
    }


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_in_a_small_type_are_the_models_own(dtype):
    def small(query, key, value):
        return (
            keep((query.to(dtype) @ key.to(dtype).mT).softmax(-1, dtype=torch.float32)).to(dtype) @ value.to(dtype)
        ).float()

    model, x = model_of(small), 3 * torch.randn(BATCH, TOKENS, HEADS * WIDTH)
    with regard.watching(model) as watched:
        run(model, x)
    pattern = watched.steps[0].attended.pattern
    assert_close(pattern.dense(), KEPT["weights"], rtol=1e-5, atol=1e-6)


# Calls of torch's own attention functions


def reference(query, key, scale=None, bias=0.0):
    scores = query.double() @ key.double().mT * (WIDTH**-0.5 if scale is None else scale) + bias
    return scores.softmax(-1).nan_to_num(0.0)


NO_FUTURE = torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, -math.inf)
SDPA_CALLS = {
    "plain": ({}, {}),
    "causal": ({"is_causal": True}, {"bias": NO_FUTURE}),
    "a scale": ({"scale": 0.7}, {"scale": 0.7}),
    "a bias": ({"attn_mask": BIAS}, {"bias": BIAS}),
    "a mask": ({"attn_mask": CAUSAL.T}, {"bias": NO_FUTURE.T}),
    "padding": (
        {"attn_mask": PADDING[:, None, None]},
        {"bias": torch.zeros(BATCH, 1, 1, TOKENS).masked_fill(~PADDING[:, None, None], -math.inf)},
    ),
}


@pytest.mark.parametrize("name", SDPA_CALLS)
def test_a_call_of_sdpa_gives_its_weights(name):
    given, expected = SDPA_CALLS[name]

    def attention(query, key, value):
        keep(reference(query, key, **expected))
        return F.scaled_dot_product_attention(query, key, value, **given)

    assert_close(watch(attention).dense().double(), KEPT["weights"], rtol=1e-5, atol=1e-6)


def test_grouped_keys_stay_grouped():
    def attention(query, key, value):
        key, value = key[:, :1], value[:, :1]
        keep(reference(query, key))
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)

    pattern = watch(attention)
    assert pattern.key.shape[1] == 1
    assert_close(pattern.dense().double(), KEPT["weights"], rtol=1e-5, atol=1e-6)


def test_packed_queries_are_split_by_the_heads_of_the_layer_itself():
    class OneQuery(nn.Module):
        """The call of transformers for one query of a padded batch, in a layer with 6 heads of a model with 4."""

        num_heads, num_key_value_groups, config = 6, 3, transformers.LlamaConfig(num_attention_heads=4)

        def forward(self, query, key):
            packed = query.reshape(1, 2, 3, WIDTH)
            return F.scaled_dot_product_attention(packed, key, key, attn_mask=torch.ones(1, 1, 1, 7).bool())

    query, key = torch.randn(1, 6, 1, WIDTH), torch.randn(1, 2, 7, WIDTH)
    with regard.watching(model := OneQuery()) as watched:
        model(query, key)
    weights = (query @ key.repeat_interleave(3, dim=1).mT / math.sqrt(WIDTH)).softmax(dim=-1)
    assert_close(watched.steps[0].attended.pattern.dense(), weights)


def test_one_axis_of_batch_and_heads_is_split_by_the_modules_number_of_heads():
    def attention(query, key, value):
        keep(reference(query, key, bias=NO_FUTURE))
        joined = (part.flatten(0, 1) for part in (query, key, value))
        return F.scaled_dot_product_attention(*joined, attn_mask=CAUSAL[None]).unflatten(0, (BATCH, HEADS))

    assert_close(watch(attention).dense().double(), KEPT["weights"], rtol=1e-5, atol=1e-6)


def test_autocast_converts_as_the_kernel_does():
    model = model_of(F.scaled_dot_product_attention)
    with regard.watching(model) as watched, torch.autocast("cpu", torch.bfloat16):
        run(model, torch.randn(BATCH, TOKENS, HEADS * WIDTH))
    assert watched.steps[0].attended.pattern.query.dtype == torch.bfloat16
    assert watched.check().max_error < 0.02


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 11, "vdim": 13}])
def test_multi_head_attention_of_torch(need_weights, options):
    module = nn.MultiheadAttention(12, 4, batch_first=True, **options)
    query, key, value = (torch.randn(3, n, width) for n, width in ((5, 12), (7, 11), (7, 13)))
    if "kdim" not in options:
        key = value = torch.randn(3, 7, 12)
    expected = module(query, key, value, average_attn_weights=False, key_padding_mask=~PADDING)
    with regard.watching(module) as watched:
        output, _ = module(query, key, value, need_weights=need_weights, key_padding_mask=~PADDING)
    (step,) = watched.steps
    assert_close(step.attended.pattern.dense(), expected[1])
    assert_close(output, expected[0])


def test_the_transformer_of_torch_is_seen_in_full():
    model = nn.Transformer(12, 2, 2, 2, 16, batch_first=True).eval()
    with regard.watching(model) as watched, torch.no_grad():
        model(torch.randn(1, 5, 12), torch.randn(1, 4, 12), tgt_is_causal=True, tgt_mask=CAUSAL[:4, :4].logical_not())
    paths = [f"encoder.layers.{layer}.self_attn" for layer in (0, 1)]
    paths += [f"decoder.layers.{layer}.{name}" for layer in (0, 1) for name in ("self_attn", "multihead_attn")]
    assert [step.path for step in watched.steps] == paths
    assert [tuple(step.attended.pattern.shape[2:]) for step in watched.steps] == [(5, 5)] * 2 + [(4, 4), (4, 5)] * 2
    assert_close(watched.steps[2].attended.pattern.dense().triu(1).abs().max().item(), 0.0)


def test_flex_attention_with_a_score_and_a_mask():
    slopes = torch.tensor([0.3, -0.2])
    blocks = create_block_mask(lambda b, h, q, k: q >= k, None, None, TOKENS, TOKENS, device="cpu")

    def attention(query, key, value):
        distance = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
        keep(reference(query, key, bias=NO_FUTURE + slopes[:, None, None] * distance))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            changed = lambda score, b, h, q, k: score + slopes[h] * (q - k)  # noqa: E731
            return flex_attention(*(x.detach() for x in (query, key, value)), score_mod=changed, block_mask=blocks)

    assert_close(watch(attention).dense().double(), KEPT["weights"], rtol=1e-5, atol=1e-6)


def test_attention_of_regard_is_recorded_as_it_is():
    layer = regard.MultiHeadAttention(d_model=10, n_heads=2)
    x = torch.randn(3, 7, 10)
    with regard.watching(layer) as watched:
        layer(x, mask=regard.Causal())
    assert repr(watched.steps[0].attended.pattern) == ("Pattern(batch=3, heads=2, queries=7, keys=7, mask=Causal())")
    assert watched.steps[0].attended.backend == "fused"


# What cannot be seen


class LinearAttention(nn.Module):
    def forward(self, x):
        return x.relu() @ (x.mT @ x)


class AlteredAttention(nn.Module):
    def forward(self, x):
        return ((x @ x.mT).softmax(-1) * 0.5) @ x


@pytest.mark.parametrize("kind", [LinearAttention, AlteredAttention])
def test_attention_that_cannot_be_seen_is_named(kind):
    model = nn.Sequential(nn.Linear(5, 5), kind(), SelfAttention(minimal))
    with regard.watching(model) as watched:
        model[1](torch.randn(2, 7, 5))
        model[2](torch.randn(BATCH, TOKENS, 10))
    assert watched.unseen == {"1": "it computes no softmax of scores whose result is multiplied with values"}
    assert repr(watched) == "Watched(steps=1, modules=1, unseen=['1'])"


class RelativeAttentionBias(nn.Identity):
    """A part of a model that is named after attention, and computes only a bias of its scores."""


def test_a_bias_of_attention_is_not_taken_for_unseen_attention():
    with regard.watching(model := RelativeAttentionBias()) as watched:
        model(torch.randn(2, 7, 5))
    assert not watched.unseen


class AttentionProjection(nn.Linear):
    """A part of an attention module that computes no attention itself."""


class ProjectedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after, self.linear = AttentionProjection(5, 5), AttentionProjection(5, 5), LinearAttention()

    def forward(self, x):
        y = self.before(x)
        return self.after((y @ y.mT).softmax(-1) @ y)


def test_a_projection_inside_attention_is_not_taken_for_unseen_attention():
    model = nn.Sequential(ProjectedAttention(), LinearAttention())
    with regard.watching(model) as watched:
        model(torch.randn(2, 7, 5))
    assert [step.path for step in watched.steps] == ["0"]
    assert list(watched.unseen) == ["1"]


class OnlyLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = LinearAttention()

    def forward(self, x):
        return self.inner(x)


class OuterAttention(OnlyLinear):
    """A module named like attention, which contains attention that `watching` cannot record."""


def test_attention_inside_attention_that_cannot_be_seen_is_named_once():
    model = nn.Sequential(OuterAttention())
    with regard.watching(model) as watched:
        model(torch.randn(2, 7, 5))
    assert list(watched.unseen) == ["0.inner"]


def test_a_call_of_which_no_pattern_can_be_made_is_named():
    class Widthless(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x[..., :0], x[..., :0], x)

    model = nn.Sequential(Widthless())
    with regard.watching(model) as watched:
        model(torch.randn(2, 3, 5, 7))
    assert list(watched.unseen) == ["0"]
    assert watched.unseen["0"].startswith("its pattern cannot be made: ")


def test_layers_and_repeated_calls():
    model = nn.Sequential(*(SelfAttention(minimal) for _ in range(3)))
    with regard.watching(model, layers=[0, 2]) as watched:
        for _ in range(2):
            model(torch.randn(BATCH, TOKENS, 10))
    assert [(step.path, step.layer, step.call) for step in watched.steps] == [
        ("0", 0, 0),
        ("2", 2, 0),
        ("0", 0, 1),
        ("2", 2, 1),
    ]


def test_an_exception_in_the_model_leaves_it_as_it_was():
    def fails(query, key, value):
        raise RuntimeError("no")

    model = nn.Sequential(SelfAttention(minimal), SelfAttention(fails))
    with pytest.raises(RuntimeError, match=r"^no$"), regard.watching(model) as watched:
        model(torch.randn(BATCH, TOKENS, 10))
    assert ([step.path for step in watched.steps], watched.unseen) == (["0"], {})
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_what_cannot_be_watched_is_refused(unhooked):
    def enter(model):
        with regard.watching(model):
            pass

    assert refusal(TypeError, enter, "bert") == "watching takes a torch.nn.Module; got a str."
    compiled = nn.Sequential(nn.Linear(2, 2), torch.compile(nn.Linear(2, 2), backend="eager"))
    advice = "so its attention cannot be recorded; watch the original module."
    assert refusal(InputError, enter, compiled) == f"1 is compiled with torch.compile, {advice}"


# Models of transformers that do not use its attention interface

SIZES = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
HIDDEN = SIZES | {"intermediate_size": 37}
MODELS = {
    "falcon": transformers.FalconConfig(**SIZES),
    "falcon with alibi": transformers.FalconConfig(**SIZES, alibi=True),
    "bloom": transformers.BloomConfig(vocab_size=61, hidden_size=24, n_layer=2, n_head=4),
    "gptj": transformers.GPTJConfig(vocab_size=61, n_embd=24, n_layer=2, n_head=4, rotary_dim=4),
    "mpt": transformers.MptConfig(vocab_size=61, d_model=24, n_layers=2, n_heads=4, max_seq_len=64),
    "deberta-v2": transformers.DebertaV2Config(
        **HIDDEN, relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=8
    ),
    "xlnet": transformers.XLNetConfig(vocab_size=61, d_model=24, n_layer=2, n_head=4, d_inner=37),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers_without_its_attention_interface(name):
    torch.manual_seed(0)
    config = MODELS[name]
    config._attn_implementation = "eager"
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    ids = torch.randint(5, 61, (3, 11))
    padding = torch.ones_like(ids)
    padding[1, :4] = 0
    with regard.watching(model) as watched, torch.no_grad():
        weights = model(ids, attention_mask=padding, output_attentions=True).attentions
    assert not watched.unseen
    assert len(watched.steps) == len(weights) == 2
    for step, expected in zip(watched.steps, weights, strict=True):
        seen = step.attended.pattern.dense()
        for item in range(3):
            tokens = padding[item].bool()
            assert_close(seen[item][:, tokens], expected[item][:, tokens].nan_to_num(0.0), rtol=1e-4, atol=1e-5)
