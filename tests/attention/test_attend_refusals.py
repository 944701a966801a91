"""What `attend` refuses: arguments that do not fit together or have a wrong type; the whole text of each message."""

import math
import warnings

import pytest
import torch
from refusals import refusal

from regard import (
    Causal,
    LatentAttention,
    MultiHeadAttention,
    Padding,
    ScaledDot,
    Softmax,
    attend,
    explain_backend,
)

QUERY, KEY, VALUE = TENSORS = torch.zeros(2, 6, 5, 11), torch.zeros(2, 3, 7, 11), torch.zeros(2, 3, 7, 13)

FLOATS = "attend takes float16, bfloat16, float32 or float64; convert it with .to(…)."
DENSE = "attend takes dense tensors; convert it with .to_dense()."
ONE_TENSOR = (
    "attend takes one tensor [batch heads tokens width]; "
    "pad the items to one length, and give their lengths: mask=Padding(lengths)."
)


def nested(tensor, layout):
    with warnings.catch_warnings(action="ignore"):  # torch's own, of a prototype
        return torch.nested.nested_tensor(list(tensor), layout=layout)


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (QUERY[0], KEY, VALUE),
            "query has shape [6, 5, 11]; attend takes four axes, [batch heads tokens width]; "
            "add the missing ones with unsqueeze.",
        ),
        (
            (QUERY, KEY, VALUE[0, 0]),
            "value has shape [7, 13]; attend takes four axes, [batch heads tokens width]; "
            "add the missing ones with unsqueeze.",
        ),
        ((QUERY, KEY.long(), VALUE), f"key has dtype torch.int64; {FLOATS}"),
        ((QUERY.bool(), KEY, VALUE), f"query has dtype torch.bool; {FLOATS}"),
        ((QUERY.to(torch.complex64), KEY, VALUE), f"query has dtype torch.complex64; {FLOATS}"),
        (tuple(x.to(torch.float8_e4m3fn) for x in TENSORS), f"query has dtype torch.float8_e4m3fn; {FLOATS}"),
        ((QUERY, KEY, VALUE.to(torch.float8_e5m2)), f"value has dtype torch.float8_e5m2; {FLOATS}"),
        (tuple(x.to_sparse() for x in TENSORS), f"query has layout torch.sparse_coo; {DENSE}"),
        ((QUERY, KEY.to_sparse(), VALUE), f"key has layout torch.sparse_coo; {DENSE}"),
        ((QUERY, KEY, VALUE.to_mkldnn()), f"value has layout torch._mkldnn; {DENSE}"),
        (tuple(nested(x, torch.jagged) for x in TENSORS), f"query is a nested tensor; {ONE_TENSOR}"),
        (tuple(nested(x, torch.strided) for x in TENSORS), f"query is a nested tensor; {ONE_TENSOR}"),
        ((QUERY, nested(KEY, torch.strided), VALUE), f"key is a nested tensor; {ONE_TENSOR}"),
        (
            (QUERY, KEY.half(), VALUE),
            "query, key and value must share one dtype: query torch.float32, key torch.float16, value torch.float32; "
            "convert them with .to(…).",
        ),
        (
            (QUERY, KEY, VALUE.to("meta")),
            "query, key and value must share one device: query cpu, key cpu, value meta; convert them with .to(…).",
        ),
        (
            (QUERY[..., :5], KEY, VALUE),
            "query has width 5 and key has width 11; their product needs one width, so project them to the same d_key.",
        ),
        (
            (QUERY, KEY, VALUE[:, :, :5]),
            "key has 3 heads of 7 tokens and value has 3 heads of 5 tokens; every key needs its value, "
            "so they must be the same.",
        ),
        (
            (QUERY, KEY, VALUE[:, :1]),
            "key has 3 heads of 7 tokens and value has 1 heads of 7 tokens; every key needs its value, "
            "so they must be the same.",
        ),
        (
            (QUERY[:, :5], KEY, VALUE),
            "query has 5 heads and key has 3; each key head serves a group of query heads, "
            "so it must be one of [1, 5].",
        ),
        (
            (QUERY, KEY[:, :0], VALUE[:, :0]),
            "query has 6 heads and key has 0; each key head serves a group of query heads, "
            "so it must be one of [1, 2, 3, 6].",
        ),
        (
            (QUERY, KEY.repeat(3, 1, 1, 1)[:5], VALUE[:1]),
            "batch sizes do not fit together: query 2, key 5, value 1; each must be the same or 1.",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(arguments, message):
    assert refusal(ValueError, lambda: attend(*arguments)) == message


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("dropout", [-0.1, 1.0, math.nan, "0.1"])
def test_a_dropout_that_is_no_probability_is_refused(dropout):
    assert refusal(ValueError, lambda: attend(QUERY, KEY, VALUE, dropout=dropout)) == (
        f"dropout={dropout!r} must be the probability that a weight is dropped, at least 0 and below 1."
    )


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mask": Causal() & Padding(torch.tensor([1, 2, 3]))},
            "Padding was given 3 lengths for a batch of 2; give one for each item.",
        ),
        (
            {"score": ScaledDot(bias=torch.zeros(3, 1, 5, 7))},
            "bias of shape [3, 1, 5, 7] does not broadcast to [2, 6, 5, 7] (batch, heads, queries, keys); "
            "every axis must have that size or 1.",
        ),
        (
            {"normalise": Softmax(sinks=torch.zeros(3))},
            "sinks of shape [3] with 6 heads; give one number for each head.",
        ),
    ],
    ids=["mask", "score", "normalise"],
)
def test_a_choice_that_does_not_fit_is_refused(options, message):
    assert refusal(ValueError, lambda: attend(QUERY, KEY, VALUE, **options)) == message


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"score": "dot"}, "score is 'dot'; it takes an object such as ScaledDot()."),
        ({"score": Softmax()}, "score is Softmax(); it takes an object such as ScaledDot()."),
        ({"normalise": Softmax}, "normalise is the class Softmax; it takes an object such as Softmax()."),
        ({"normalise": torch.softmax}, "normalise is the function softmax; it takes an object such as Softmax()."),
    ],
)
def test_a_stage_that_is_no_object_is_refused(normal, without_type_checks, stage, message):
    assert refusal(TypeError, lambda: attend(normal(1, 1, 2, 3), normal(1, 1, 5, 3), normal(1, 1, 5, 3), **stage)) == (
        message
    )


@pytest.mark.parametrize("name", ["query", "key", "value"])
@pytest.mark.parametrize(("given", "kind"), [(torch.zeros(1, 1, 2, 3).numpy(), "a ndarray"), (None, "None")])
def test_what_is_no_tensor_of_vectors_is_refused(normal, without_type_checks, name, given, kind):
    vectors = {"query": normal(1, 1, 2, 3), "key": normal(1, 1, 5, 3), "value": normal(1, 1, 5, 3)} | {name: given}
    assert refusal(TypeError, lambda: attend(**vectors)) == (
        f"{name} is {kind}; attend takes tensors, and torch.as_tensor makes one of an array or a list."
    )


def test_what_asks_nothing_is_refused(normal, without_type_checks):
    assert (
        refusal(TypeError, lambda: attend(normal(1, 1, 2, 3), normal(1, 1, 5, 3), normal(1, 1, 5, 3), ask={"top": 3}))
        == "ask is a dict; it takes an object such as Ask(top=8)."
    )


def test_vectors_without_numbers_are_refused(normal):
    assert refusal(ValueError, lambda: attend(normal(1, 1, 2, 0), normal(1, 1, 5, 0), normal(1, 1, 5, 3))) == (
        "query has width 0; a query needs at least one number to be matched with keys."
    )


@pytest.mark.parametrize("function", [attend, explain_backend])
@pytest.mark.parametrize(
    ("arguments", "options", "advice"),
    [
        (
            (None, 0.0),
            {"is_causal": True, "scale": 1.0, "enable_gqa": True},
            "after query, key and value write names, such as mask=Causal(); for is_causal=True write mask=Causal(); "
            "for scale write score=ScaledDot(scale=scale); leave out enable_gqa, because key and value may always have "
            "fewer heads than query",
        ),
        (
            (),
            {"attn_mask": torch.ones(5, 7), "dropout_p": 0.1},
            "for a boolean attn_mask write mask=attn_mask, for numbers score=ScaledDot(bias=attn_mask); for dropout_p "
            "write dropout",
        ),
    ],
)
def test_arguments_of_sdpa_are_refused_with_what_to_write_instead(
    without_type_checks, function, arguments, options, advice
):
    assert refusal(TypeError, lambda: function(*TENSORS, *arguments, **options)) == (
        f"{function.__name__} has other arguments than F.scaled_dot_product_attention: {advice}."
    )


def test_an_unknown_argument_is_refused(without_type_checks):
    message = "attend has no argument 'maks'; nearest: mask."
    assert refusal(TypeError, lambda: attend(*TENSORS, maks=Causal())) == message


def test_the_result_is_not_unpacked_as_a_pair():
    def unpacked(pair):
        context, weights = pair
        return context, weights

    layer, x = MultiHeadAttention(8, 2), torch.zeros(2, 5, 8)
    advice = "is one object and cannot be unpacked as a pair; give it a name, such as seen, and read"
    query = torch.zeros(1, 2, 5, 7)
    assert refusal(TypeError, unpacked, attend(query, query, query)) == (
        f"Attended {advice} seen.context and seen.pattern."
    )
    assert refusal(TypeError, unpacked, layer(x)) == f"MultiHeadRead {advice} seen.output and seen.pattern."
    assert refusal(TypeError, unpacked, LatentAttention(8, 2, d_latent=3, d_rotary=2)(x)) == (
        f"LatentRead {advice} seen.output and seen.pattern."
    )
