"""Traces that keep statistics instead of queries and keys, against the weights of transformers' eager attention."""

import copy
import pickle

import pytest
import torch
from random_models import eager_outputs, sharp
from refusals import refusal
from torch import nn
from torch.testing import assert_close
from transformers import LlamaConfig, LlamaModel

import regard
from regard import Ask, Causal, InputError, attend
from regard.attention.ask import NOTHING

TEXT = "The snake is very dangerous because it has a venom, and the snake knows that it is dangerous."
EVERYTHING = Ask(own=True, previous=True, top=5, pooled=(3, 4), reduce="max")

NOT_KEPT = (
    "this pattern has statistics and no single weights, since ask=… keeps no queries and keys; trace or watch again "
    "without ask=…, with layers=[…] if the text is long."
)


def llama():
    config = LlamaConfig(
        vocab_size=30_522, hidden_size=40, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    return sharp(LlamaModel(config))


@pytest.fixture(scope="module")
def answered(minilm):
    return regard.trace(llama(), TEXT, tokenizer=minilm.tokenizer, ask=EVERYTHING)


@pytest.fixture(scope="module")
def eager(minilm):
    return eager_outputs(llama(), {"input_ids": minilm.tokenizer(TEXT, return_tensors="pt").input_ids})


def test_statistics_are_those_of_eager_attention(answered, eager):
    assert_close(answered.output, eager.last_hidden_state, atol=1e-4, rtol=1e-4)
    for layer, pattern in answered.decoder.items():
        weights = eager.attentions[layer].double()
        n = weights.shape[-1]
        places = torch.arange(n)
        expected = {
            "received": weights.sum(dim=2),
            "entropy": -torch.xlogy(weights, weights).sum(dim=-1),
            "distance": (weights * (places[:, None] - places).abs()).sum(dim=-1),
            "first": weights[..., 0],
            "own": weights.diagonal(dim1=-2, dim2=-1),
            "previous": torch.cat([torch.zeros(1, 4, 1), weights.diagonal(-1, dim1=-2, dim2=-1)], dim=-1),
        }
        summary = pattern.answer(EVERYTHING)
        for name, numbers in expected.items():
            assert_close(getattr(summary, name).double(), numbers.double(), atol=2e-5, rtol=1e-4)
        best = weights.topk(5, dim=-1)
        assert_close(pattern.top(5).weights.double(), best.values, atol=2e-5, rtol=1e-4)
        assert torch.equal(pattern.top(2).keys[:, :, 2:], best.indices[:, :, 2:, :2])
        assert_close(pattern.received().double(), expected["received"], atol=2e-5, rtol=1e-4)
        assert_close(pattern.entropy().double(), expected["entropy"], atol=2e-5, rtol=1e-4)
        rows, columns = (torch.tensor_split(places, parts) for parts in (3, 4))
        blocks = pattern.pooled(3, 4, reduce="max")
        assert_close(blocks[0, 0, 2, 0].double(), weights[0, 0, rows[2]][:, columns[0]].max(), atol=2e-5, rtol=1e-4)


def test_an_answered_trace_has_its_tokens_and_keeps_no_numbers_of_queries(answered, eager):
    assert repr(answered).startswith("Trace('The snake is very")
    n = eager.attentions[0].shape[-1]
    assert len(answered.tokens) == n
    assert [head.name for head in answered.heads()][-1] == "L2H3"
    pattern = answered.decoder[1]
    assert repr(pattern) == (
        f"AnsweredPattern(batch=1, heads=4, queries={n}, keys={n}, "
        "knows=received, entropy, distance, first, own, previous, top, pooled)"
    )
    assert (pattern.shape, pattern.dtype, pattern.device) == ((1, 4, n, n), torch.float32, torch.device("cpu"))
    assert answered.attended["decoder"][1].context.device.type == "meta"
    assert repr(copy.deepcopy(pattern)) == repr(pickle.loads(pickle.dumps(pattern))) == repr(pattern)


def test_what_needs_single_weights_is_refused(answered, minilm, tmp_path):
    pattern = answered.decoder[0]
    for call in (
        *(pattern.dense, pattern.scores, lambda: pattern[0, 0, 1], lambda: pattern.query, lambda: pattern.mask),
        lambda: pattern.steps(0, 0),
        lambda: pattern.apply(torch.ones(1, 1, pattern.shape[3], 2)),
        lambda: pattern.back(torch.ones(1, 1, pattern.shape[2])),
        *(lambda: answered["L0H1"]["it:1"], lambda: answered["L0H1"].top("it:1"), lambda: answered.rollout("it:1")),
        *(answered.roles, answered.check, answered.show, lambda: regard.compare(answered, answered)),
        lambda: answered.html(tmp_path / "page.html"),
        lambda: answered.figure(tmp_path / "picture.png"),
    ):
        assert refusal(InputError, call) == NOT_KEPT
    assert not hasattr(pattern.call, "something_else")
    assert refusal(AttributeError, getattr, pattern.call, "no_name") == "a call has no attribute 'no_name'"


def test_statistics_that_were_not_asked_for_are_refused(minilm):
    trace = regard.trace(llama(), TEXT, tokenizer=minilm.tokenizer, ask=Ask(distance=False, first=False, top=2))
    pattern = trace.decoder[0]
    groups = torch.ones(1, pattern.shape[3], dtype=torch.bool)
    begin = "this pattern stores received, entropy, top; its queries and keys were not kept; trace or watch again "
    for call, argument in (
        (lambda: pattern.top(3), "top=3"),
        (lambda: pattern.pooled(2, 2), "pooled=(2, 2)"),
        (pattern.summary, "distance=True, first=True"),
        (lambda: pattern.summary(distance=False, first=False, groups=groups), "groups=…"),
    ):
        assert refusal(InputError, call) == f"{begin}with ask=Ask({argument}, …)."


def test_keeping_vectors_and_keeping_statistics_exclude_each_other(minilm):
    def both():
        regard.trace(llama(), TEXT, tokenizer=minilm.tokenizer, ask=Ask(), keep=("hidden",))

    assert refusal(InputError, both) == (
        "keep=('hidden',) needs the queries and keys, and ask=… keeps statistics in their place; give only one."
    )


def test_a_map_that_is_larger_than_the_weights_is_refused(minilm):
    def trace(model, tokenizer=minilm.tokenizer):
        regard.trace(model, "The snake.", tokenizer=tokenizer, ask=Ask(pooled=(9, 2)))

    said = "a map of 9 x 2 cells does not fit over {n} queries x {n} keys; ask for at most {n} x {n}."
    for model, path in ((minilm.model, "encoder.layer.0.attention.self"), (llama(), "layers.0.self_attn")):
        assert refusal(InputError, trace, model) == f"ask=… does not fit the attention in {path}: {said.format(n=5)}"
    with regard.watching(nn.Identity(), ask=Ask(pooled=(9, 2))):
        x = torch.zeros(1, 1, 3, 2)
        assert refusal(InputError, regard.attend, x, x, x) == (
            f"ask=… does not fit the attention in (the model itself): {said.format(n=3)}"
        )


def test_what_is_no_question_is_refused(without_type_checks):
    def watch(ask):
        with regard.watching(nn.Linear(2, 2), ask=ask):
            pass

    assert refusal(TypeError, watch, "top") == "ask is a str; it takes an object such as Ask(top=8)."
    assert refusal(InputError, watch, NOTHING) == (
        "ask=… names no statistics to keep; give ask=Ask() for the default ones, or leave it out."
    )


def test_more_top_keys_than_tokens_have_key_minus_one_and_weight_zero(minilm, tmp_path):
    whole = regard.trace(llama(), "The snake.", tokenizer=minilm.tokenizer)
    trace = regard.trace(llama(), "The snake.", tokenizer=minilm.tokenizer, ask=Ask(top=9))
    for known in (trace, regard.Trace.load(trace.save(tmp_path / "answered.safetensors"))):
        pattern = known.decoder[0]
        assert (pattern.top(9).keys[0, 0] == -1).sum(dim=-1).tolist() == [8, 7, 6, 5, 4]
        for n in (4, 9, 12):
            expected = whole.decoder[0].top(n)
            assert torch.equal(pattern.top(n).keys, expected.keys)
            assert_close(pattern.top(n).weights, expected.weights)


def test_a_saved_answered_trace_has_the_same_statistics(answered, tmp_path):
    again = regard.Trace.load(answered.save(tmp_path / "answered.safetensors"))
    assert repr(again) == repr(answered)
    for layer, pattern in answered.decoder.items():
        assert repr(again.decoder[layer]) == repr(pattern)
        before, after = pattern.answer(EVERYTHING), again.decoder[layer].answer(EVERYTHING)
        assert all(torch.equal(getattr(after, name), getattr(before, name)) for name in ("received", "own", "pooled"))
        assert torch.equal(after.top.keys, before.top.keys)
    assert refusal(InputError, again.check) == NOT_KEPT


def test_a_model_that_writes_its_attention_out_is_answered_too():
    class Written(nn.Module):
        def forward(self, x):
            return (2 * x @ x.mT).softmax(-1) @ x

    x, model = torch.randn(2, 7, 5), Written()
    with regard.watching(model, ask=Ask(top=1)) as watched:
        output = model(x)
    (step,) = watched.steps
    weights = (2 * x @ x.mT).softmax(-1)
    assert torch.equal(output, weights @ x)
    assert_close(step.attended.pattern.received()[:, 0], weights.sum(dim=1))
    assert_close(step.attended.pattern.top(1).weights[:, 0], weights.max(dim=-1).values[..., None])


def test_gradients_and_the_statistics_a_model_asks_for_itself_pass_through():
    class Asking(nn.Module):
        def forward(self, x):
            seen = attend(x, x, x, mask=Causal(), ask=Ask(top=3))
            assert seen.pattern.top(3).keys.shape[-1] == 3
            return nn.functional.scaled_dot_product_attention(seen.context, x, x, is_causal=True)

    x = torch.randn(1, 2, 7, 5, requires_grad=True)
    model = Asking()
    plain = model(x)
    with regard.watching(model, ask=Ask()) as watched:
        output = model(x)
    assert torch.equal(output, plain)
    output.sum().backward()
    assert x.grad is not None
    expected = attend(x, x, x, mask=Causal()).pattern.dense()
    assert_close(watched.steps[0].attended.pattern.received(), expected.sum(dim=2))
    assert len(watched.steps) == 2


def test_changes_and_chosen_layers_hold_with_statistics(minilm):
    options = {"tokenizer": minilm.tokenizer, "changes": [regard.Silence("L1H2")], "layers": [1]}
    whole = regard.trace(llama(), TEXT, **options)
    answered = regard.trace(llama(), TEXT, ask=Ask(), **options)
    assert list(answered.decoder) == [1]
    assert_close(answered.output, whole.output, atol=1e-4, rtol=1e-4)
    assert_close(answered.decoder[1].received(), whole.decoder[1].received(), atol=1e-5, rtol=1e-4)
    assert answered.decoder[1].received()[0, 2].abs().max() == 0


def test_only_the_layers_that_are_watched_are_asked(minilm):
    model = llama()
    ids = minilm.tokenizer(TEXT, return_tensors="pt").input_ids
    with regard.watching(model, layers=[2], ask=Ask()) as watched, torch.no_grad():
        model(input_ids=ids)
    assert [step.layer for step in watched.steps] == [2]


def test_nan_in_a_model_is_named_without_its_weights(minilm):
    model = llama()
    with torch.no_grad():
        model.layers[1].self_attn.v_proj.weight.fill_(float("nan"))

    def read():
        regard.trace(model, TEXT, tokenizer=minilm.tokenizer, ask=Ask())

    assert refusal(InputError, read) == (
        "LlamaModel gives NaN in the value of decoder layer 1; its parameters are damaged, or too small a number type "
        "overflows: load it in float32."
    )
