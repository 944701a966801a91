"""Watched attention steps against the weights that the models themselves compute."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
import transformers
from random_models import gpt2
from refusals import refusal
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing import assert_close
from watched_model import (
    BATCH,
    BIAS,
    CAUSAL,
    HEADS,
    KEPT,
    PADDING,
    TOKENS,
    WIDTH,
    SelfAttention,
    keep,
    minimal,
    model_of,
    run,
    watch,
)

import regard
from regard import InputError

# Calls of torch's own attention functions


def reference(query, key, scale=None, bias=0.0):
    """Return the weights of a query for each key, computed in float64."""
    scores = query.double() @ key.double().mT * (WIDTH**-0.5 if scale is None else scale) + bias
    return scores.softmax(-1).nan_to_num(0.0)


def as_bias(mask):
    """Return 0 where a mask is True, and -inf elsewhere."""
    return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


NO_FUTURE = as_bias(CAUSAL)
SDPA_CALLS = {
    "plain": ({}, {}),
    "causal": ({"is_causal": True}, {"bias": NO_FUTURE}),
    "a scale": ({"scale": 0.7}, {"scale": 0.7}),
    "a bias": ({"attn_mask": BIAS}, {"bias": BIAS}),
    "a mask": ({"attn_mask": CAUSAL.T}, {"bias": NO_FUTURE.T}),
    "padding": ({"attn_mask": PADDING[:, None, None]}, {"bias": as_bias(PADDING[:, None, None])}),
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


class WindowsAfterHeads(nn.Module):
    """Attention in windows, as in Hiera: the axes are [batch heads windows tokens width]."""

    num_heads, written_out = 3, False

    def forward(self, query, key, value):
        if not self.written_out:
            return F.scaled_dot_product_attention(query, key, value, scale=1.0)
        return (query @ key.mT).softmax(-1) @ value


@pytest.mark.parametrize("written_out", [True, False])
def test_heads_before_windows_are_heads_and_not_windows(written_out):
    query, key, value = (torch.randn(2, 3, 5, 7, 4) for _ in range(3))
    model = WindowsAfterHeads()
    model.written_out = written_out
    with regard.watching(model) as watched:
        output = model(query, key, value)
    weights = (query @ key.mT).softmax(-1).transpose(1, 2).flatten(0, 1)  # [batch · windows, heads, queries, keys]
    (step,) = watched.steps
    assert_close(step.attended.pattern.dense(), weights)
    assert_close(step.attended.context, output.transpose(1, 2).flatten(0, 1))
    assert watched.check().max_error < 1e-5


def test_heads_before_windows_keep_their_outputs_with_statistics_and_changes():
    query, key, value = (torch.randn(2, 3, 5, 7, 4) for _ in range(3))
    expected = WindowsAfterHeads()(query, key, value)
    with regard.watching(model := WindowsAfterHeads(), ask=regard.Ask(top=1)) as watched:
        assert_close(model(query, key, value), expected)
    weights = (query @ key.mT).softmax(-1).transpose(1, 2).flatten(0, 1)
    assert_close(watched.steps[0].attended.pattern.top(1).weights, weights.amax(-1, keepdim=True))
    with regard.changed(model, [regard.Silence("L0H1")]):
        assert_close(model(query, key, value), expected * torch.tensor([1.0, 0.0, 1.0]).view(3, 1, 1, 1))


def test_autocast_converts_as_the_kernel_does():
    model = model_of(F.scaled_dot_product_attention)
    with regard.watching(model) as watched, torch.autocast("cpu", torch.bfloat16):
        run(model, torch.randn(BATCH, TOKENS, HEADS * WIDTH))
    assert watched.steps[0].attended.pattern.query.dtype == torch.bfloat16
    assert watched.check().max_error < 0.02


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 11, "vdim": 13}])
def test_multi_head_attention_of_torch_has_its_own_weights(need_weights, options):
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


def test_flex_attention_with_a_score_and_a_mask_has_its_weights():
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
    assert repr(watched.steps[0].attended.pattern) == "Pattern(batch=3, heads=2, queries=7, keys=7, mask=Causal())"
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


class OuterAttention(nn.Module):
    """A module named like attention, which contains attention that `watching` cannot record."""

    def __init__(self):
        super().__init__()
        self.inner = LinearAttention()

    def forward(self, x):
        return self.inner(x)


def test_attention_inside_attention_that_cannot_be_seen_is_named_once():
    model = nn.Sequential(OuterAttention())
    with regard.watching(model) as watched:
        model(torch.randn(2, 7, 5))
    assert list(watched.unseen) == ["0.inner"]


@pytest.mark.parametrize("backward", [torch.Tensor.backward, torch.autograd.backward])
def test_layers_that_a_backward_pass_computes_again_are_recorded_once(backward):
    model, ids = gpt2().train(), torch.arange(5, 12)[None]
    model.activation_checkpointing_enable()
    with regard.watching(model) as watched:
        backward(model(ids, labels=ids).loss)
    assert [step.path for step in watched.steps] == ["transformer.h.0.attn", "transformer.h.1.attn"]
    assert watched.unseen == {}


def test_a_call_of_which_no_pattern_can_be_made_is_named():
    class Widthless(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x[..., :0], x[..., :0], x)

    model = nn.Sequential(Widthless())
    with regard.watching(model) as watched:
        model(torch.randn(2, 3, 5, 7))
    assert list(watched.unseen) == ["0"]
    assert watched.unseen["0"].startswith("its pattern cannot be made: ")


def test_steps_have_the_number_of_their_layer_and_call():
    model = nn.Sequential(*(SelfAttention(minimal) for _ in range(3)))
    with regard.watching(model, layers=[0, 2]) as watched:
        for _ in range(2):
            model(torch.randn(BATCH, TOKENS, 10))
    steps = [(step.path, step.layer, step.call) for step in watched.steps]
    assert steps == [("0", 0, 0), ("2", 2, 0), ("0", 0, 1), ("2", 2, 1)]


def test_an_exception_in_the_model_leaves_it_as_it_was():
    def fails(query, key, value):
        raise RuntimeError("no")

    model = nn.Sequential(SelfAttention(minimal), SelfAttention(fails))
    with pytest.raises(RuntimeError, match=r"^no$"), regard.watching(model) as watched:
        model(torch.randn(BATCH, TOKENS, 10))
    assert ([step.path for step in watched.steps], watched.unseen) == (["0"], {})
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_what_cannot_be_watched_is_refused(without_type_checks):
    def enter(model):
        with regard.watching(model):
            pass

    assert refusal(TypeError, enter, "bert") == "watching takes a torch.nn.Module; got a str."
    compiled = nn.Sequential(nn.Linear(2, 2), torch.compile(nn.Linear(2, 2), backend="eager"))
    advice = "so its attention cannot be recorded; watch the original module."
    assert refusal(InputError, enter, compiled) == f"1 is compiled with torch.compile, {advice}"


def exponential(x):
    weights = (x @ x.mT).exp()
    return weights / weights.sum(dim=-1, keepdim=True) @ x


CHAINS = {
    "exp and a division": exponential,
    "softmax over the queries": lambda x: (x @ x.mT).softmax(dim=-2) @ x,
    "log_softmax": lambda x: torch.einsum("bqk,bkd->bqd", torch.einsum("bqd,bkd->bqk", x, x).log_softmax(-1).exp(), x),
    "weights changed after the softmax": lambda x: 0.5 * ((a := (x @ x.mT).softmax(dim=-1)) + a.mT) @ x,
    "linear attention": lambda x: x @ (x.mT @ x),
}


class Layer(nn.Module):
    """A module whose class is not named like attention, with one function and a parameter."""

    def __init__(self, function):
        super().__init__()
        self.function, self.weights = function, nn.Parameter(torch.randn(3, 5))


@pytest.mark.parametrize("name", CHAINS)
def test_unrecognised_attention_in_a_module_of_any_name_is_named(name):
    class Computes(Layer):
        def forward(self, x):
            return self.function(x)

    with regard.watching(model := nn.Sequential(Computes(CHAINS[name]))) as watched:
        model(torch.randn(2, 7, 5))
    assert watched.unseen == {"0": "it computes no softmax of scores whose result is multiplied with values"}
    assert refusal(InputError, watched.check) == (
        "no attention was recorded, so there is nothing to check; watched.unseen says why '0' could not be recorded."
    )


@pytest.mark.parametrize("inference", [True, False])
def test_products_with_parameters_and_rotary_angles_are_not_taken_for_attention(inference):
    class LowRank(Layer):
        def forward(self, x):
            angles = (torch.rand(2, 5, 1) @ torch.arange(7.0)[None, None]).mT
            x = torch.cat([x, x], -1) * torch.cat([angles, angles], -1).cos()
            return self.function(x[..., :5] @ self.weights.T @ self.weights)

    with torch.inference_mode(inference), regard.watching(model := LowRank(lambda x: x @ x.mT)) as watched:
        model(torch.randn(2, 7, 5))
    assert not watched.unseen
    assert refusal(InputError, watched.check) == (
        "no attention was recorded, so there is nothing to check; run inside the with block a model that calls one of "
        "the functions that regard.watching records."
    )


def test_chains_beside_recorded_attention_are_not_listed():
    class Both(Layer):
        def forward(self, x):
            return (x @ x.mT).softmax(dim=-1) @ self.function(x)

    with regard.watching(model := nn.Sequential(Both(CHAINS["linear attention"]))) as watched:
        model(torch.randn(2, 7, 5))
    assert (len(watched.steps), watched.unseen) == (1, {})


def test_a_layer_that_does_not_exist_is_refused():
    def enter(model):
        with regard.watching(model, layers=[0, 7]):
            pass

    numbered = nn.ModuleDict({"blocks": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])})
    assert refusal(InputError, enter, numbered) == "no layer 7 to watch: layers run from 0 to 1; nearest: 1."
    expected = "layers=[0, 7], but Linear has no numbered module; leave layers out."
    assert refusal(InputError, enter, nn.Linear(2, 2)) == expected


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


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # of an older DeBERTa
@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers_without_its_attention_interface_have_their_own_weights(name):
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
