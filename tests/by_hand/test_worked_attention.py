"""Attention by hand against numpy written out, torch's own softmax, and the numbers of the classroom."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import InputError, Keep, ScaledDot, Softmax, attend
from regard.by_hand import examples
from regard.by_hand.example_inputs import ExampleInputs
from regard.by_hand.work_out import work_out, worked_example
from regard.by_hand.worked_json import worked_json
from regard.tracing.tokens.readable_tokens import Token

X = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], dtype=float)
W_Q = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]], dtype=float)
W_K = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]], dtype=float)
W_V = np.array([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]], dtype=float)


def softmax(scores):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def direct(query, key, value, **choices):
    matrices = {"Q": query.double().numpy(), "K": key.double().numpy(), "V": value.double().numpy()}
    return ExampleInputs(title="direct", matrices=matrices, **choices)


def matrix(stage):
    return torch.from_numpy(stage.matrix)


def named(*texts):
    return tuple(Token(text=text, piece=text) for text in texts)


# The numbers of systems.md, S4 and S5


def test_self_attention_comes_out_as_in_the_articles():
    worked = worked_example("self-attention")
    assert worked["products"].matrix.tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert [[f"{weight:.4e}" for weight in row] for row in worked["weights"].matrix.tolist()] == [
        ["1.3613e-01", "4.3194e-01", "4.3194e-01"],
        ["8.9045e-04", "9.0884e-01", "9.0267e-02"],
        ["7.4449e-03", "7.5471e-01", "2.3785e-01"],
    ]
    assert [[f"{number:.4f}" for number in row] for row in worked["context"].matrix.tolist()] == [
        ["1.8639", "6.3194", "1.7042"],
        ["1.9991", "7.8141", "0.2735"],
        ["1.9926", "7.4796", "0.7359"],
    ]


def test_self_attention_has_every_stage_with_its_formula_and_shape():
    assert [(stage.name, stage.formula, stage.shape) for stage in worked_example("self-attention").stages] == [
        ("x", "", "3 tokens × 4"),
        ("W_q", "", "4 × 3"),
        ("W_k", "", "4 × 3"),
        ("W_v", "", "4 × 3"),
        ("Q", "x W_q", "3 tokens × 3"),
        ("K", "x W_k", "3 tokens × 3"),
        ("V", "x W_v", "3 tokens × 3"),
        ("products", "Q Kᵀ", "3 tokens × 3 tokens"),
        ("scores", "products / √d_k, d_k = 3", "3 tokens × 3 tokens"),
        ("weights", "softmax(scores), row by row", "3 tokens × 3 tokens"),
        ("context", "weights V", "3 tokens × 3"),
    ]


def test_every_stage_is_what_numpy_makes_of_it():
    worked = worked_example("self-attention")
    query, key, value = X @ W_Q, X @ W_K, X @ W_V
    scores = query @ key.T / np.sqrt(3)
    expected = {
        "x": X, "W_q": W_Q, "W_k": W_K, "W_v": W_V, "Q": query, "K": key, "V": value,
        "products": query @ key.T, "scores": scores, "weights": softmax(scores), "context": softmax(scores) @ value,
    }  # fmt: skip
    assert {stage.name for stage in worked.stages} == set(expected)
    for name, numbers in expected.items():
        assert_close(matrix(worked[name]), torch.from_numpy(numbers), rtol=1e-14, atol=1e-14)


def test_causal_hides_what_comes_later():
    worked = worked_example("causal")
    scores = X @ W_Q @ (X @ W_K).T / np.sqrt(3)
    masked = np.where(np.tri(3, dtype=bool), scores, -np.inf)
    assert_close(matrix(worked["masked"]), torch.from_numpy(masked))
    assert worked["masked"].formula == "scores, −∞ where not allowed"
    assert worked["weights"].formula == "softmax(masked), row by row"
    assert_close(matrix(worked["weights"]), torch.from_numpy(softmax(masked)))
    assert worked["weights"].matrix[0].tolist() == [1, 0, 0]
    assert_close(matrix(worked["context"]), torch.from_numpy(softmax(masked) @ X @ W_V))


def test_one_word_scores_itself_at_one_and_a_half_and_four_words_have_twelve_vectors():
    worked = worked_example("one-word", "I")
    assert worked["x"].matrix[0].tolist() == [1, 1, 1, 1]
    assert worked["scores"].matrix[0, 0] == 1.5
    assert sum(len(worked[name].matrix) for name in "QKV") == 12
    assert worked["Q"].section == "Queries, keys and values: 4 tokens × 3 roles = 12 vectors"


@pytest.mark.parametrize(("name", "n_heads"), [("multi-head", 4), ("two-tokens-eight-heads", 8)])
def test_heads_are_what_numpy_makes_of_their_columns(name, n_heads):
    worked = worked_example(name)
    given = {stage.name: stage.matrix for stage in worked.stages if not stage.formula}
    contexts = []
    for head in range(n_heads):
        query, key, value = (
            np.split(given["x"] @ given[f"W_{letter}"], n_heads, axis=1)[head] for letter in ("q", "k", "v")
        )
        contexts.append(softmax(query @ key.T / np.sqrt(query.shape[1])) @ value)
    together = np.concatenate(contexts, axis=1)
    assert_close(matrix(worked["concatenated"]), torch.from_numpy(together))
    assert_close(matrix(worked["output"]), torch.from_numpy(together @ given["W_o"]))
    assert worked["concatenated"].formula == f"[context_1, …, context_{n_heads}]"
    assert worked["weights_3"].formula == "softmax(scores_3), row by row"


def test_cross_is_one_step_of_a_recurrent_translator():
    worked = worked_example("cross")
    states = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]], dtype=float)
    scores = states @ np.array([1.0, 0, 2])
    assert worked["scores"].matrix.tolist() == [scores.tolist()]
    assert worked["scores"].formula == "products, not scaled"
    assert_close(matrix(worked["context"])[0], torch.from_numpy(softmax(scores) @ states))
    assert worked["weights"].rows == ("s_t",)
    assert worked["weights"].columns == ("I", "am", "a", "student")


def test_a_key_that_is_named_as_the_query_is_refused():
    assert refusal(InputError, worked_example, "cross", "am") == "'am' is a key here, not a query; queries: s_t"


@pytest.mark.parametrize("name", examples.NAMES)
def test_every_example_sums_to_one_row_by_row(name):
    weights = worked_example(name).weights
    np.testing.assert_allclose(weights.sum(axis=-1), np.ones(weights.shape[:2]))


# Each choice, against torch


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("mask", [None, "causal", np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)])
def test_temperature_and_mask_are_torchs_softmax(normal, temperature, mask):
    query, key, value = (normal(3, width, dtype=torch.float64) for width in (5, 5, 7))
    worked = work_out(direct(query, key, value, mask=mask, temperature=temperature))
    scores = query @ key.T / math.sqrt(5)
    if isinstance(mask, str):
        scores = scores.masked_fill(~torch.ones(3, 3).tril().bool(), -math.inf)
    elif mask is not None:
        scores = scores.masked_fill(~torch.from_numpy(mask), -math.inf)
    assert_close(matrix(worked["weights"]), torch.softmax(scores / temperature, dim=-1))
    assert_close(matrix(worked["context"]), torch.softmax(scores / temperature, dim=-1) @ value)
    names = [stage.name for stage in worked.stages]
    assert ("tempered" in names) == (temperature != 1)
    assert ("masked" in names) == (mask is not None)
    if temperature != 1:
        assert_close(matrix(worked["tempered"]), scores / temperature)


def test_temperature_0_gives_all_to_the_largest_and_ties_share():
    query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [2.0, 5.0], [1.0, 0.0]])
    worked = work_out(direct(query, key, key, temperature=0.0))
    assert worked["weights"].matrix.tolist() == [[0.5, 0.5, 0]]
    assert worked["weights"].formula == "all on the largest of scores, shared by equal ones"
    assert "tempered" not in [stage.name for stage in worked.stages]


def test_a_scale_a_softcap_and_a_bias(normal):
    query, key, value, bias = (normal(3, width, dtype=torch.float64) for width in (5, 5, 7, 3))
    worked = work_out(direct(query, key, value, scale=0.3, softcap=2.0, bias=bias.numpy()[None]))
    scores = 2 * torch.tanh(query @ key.T * 0.3 / 2) + bias
    assert_close(matrix(worked["scores"]), scores)
    assert_close(matrix(worked["weights"]), torch.softmax(scores, dim=-1))
    assert worked["scores"].formula == "2 · tanh(products · 0.3 / 2) + bias"
    for scale, formula in (
        (None, "2 · tanh(products / √d_k / 2) + bias, d_k = 5"),
        (1.0, "2 · tanh(products / 2) + bias, not scaled"),
    ):
        worked = work_out(direct(query, key, value, scale=scale, softcap=2.0, bias=bias.numpy()[None]))
        assert worked["scores"].formula == formula
    assert_close(matrix(worked["bias"]), bias)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("sinks", [None, (0.3, -1.7)])
@pytest.mark.parametrize("softcap", [None, 1.3])
def test_every_step_of_every_head_is_that_of_attend(normal, temperature, sinks, softcap):
    query, key, value = normal(3, 10), normal(5, 10), normal(5, 14)
    bias, keep = normal(2, 3, 5), torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    worked = work_out(
        direct(
            query, key, value, n_heads=2, softcap=softcap, bias=bias.double().numpy(), mask=keep.numpy(),
            temperature=temperature, sinks=sinks,
        )
    )  # fmt: skip
    split = [part.double().reshape(1, len(part), 2, -1).transpose(1, 2) for part in (query, key, value)]
    sink = None if sinks is None else torch.tensor(sinks, dtype=torch.float64)
    attended = attend(
        *split,
        score=ScaledDot(softcap=softcap, bias=bias.double()),
        mask=Keep(keep),
        normalise=Softmax(temperature=temperature, sinks=sink),
    )
    for head in (0, 1):
        steps = attended.pattern.steps(0, head)
        for name in ("products", "scores", "masked", "weights", "context"):
            assert_close(matrix(worked[f"{name}_{head + 1}"]), getattr(steps, name), rtol=1e-12, atol=1e-12)
        assert_close(matrix(worked[f"bias_{head + 1}"]), bias[head].double())
        assert worked[f"Q_{head + 1}"].formula == f"columns {5 * head + 1}–{5 * head + 5} of Q"


def test_memory_and_biases(normal):
    matrices = {
        "x": normal(3, 5, dtype=torch.float64), "memory": normal(7, 11, dtype=torch.float64),
        "W_q": normal(5, 2, dtype=torch.float64), "W_k": normal(11, 2, dtype=torch.float64),
        "W_v": normal(11, 13, dtype=torch.float64), "b_q": normal(1, 2, dtype=torch.float64),
        "b_k": normal(1, 2, dtype=torch.float64), "b_v": normal(1, 13, dtype=torch.float64),
    }  # fmt: skip
    worked = work_out(ExampleInputs(title="", matrices={name: matrix.numpy() for name, matrix in matrices.items()}))
    key = matrices["memory"] @ matrices["W_k"] + matrices["b_k"]
    value = matrices["memory"] @ matrices["W_v"] + matrices["b_v"]
    scores = (matrices["x"] @ matrices["W_q"] + matrices["b_q"]) @ key.T / math.sqrt(2)
    assert_close(matrix(worked["context"]), torch.softmax(scores, dim=-1) @ value)
    assert worked["K"].formula == "memory W_k + b_k"
    assert worked["K"].rows == ("m1", "m2", "m3", "m4", "m5", "m6", "m7")
    assert worked["Q"].section == "Queries, keys and values"


# The token of interest


@pytest.mark.parametrize(
    ("temperature", "formula", "note"),
    [
        (
            1.0,
            "softmax(scores and a sink), row by row",
            "A sink of 2.0000 takes part in each softmax and has no value.",
        ),
        (
            0.5,
            "softmax(tempered and a sink), row by row",
            "A sink of 2.0000 / 0.5 = 4.0000 takes part in each softmax and has no value.",
        ),
        (
            0.0,
            "all on the largest of scores and a sink, shared by equal ones",
            "A sink of 2.0000 takes part in each row, and gets all weight where it is the largest.",
        ),
    ],
)
def test_a_sink_is_tempered_as_the_scores_are(temperature, formula, note):
    query = key = value = torch.tensor([[1.0], [0.5]], dtype=torch.float64)
    worked = work_out(direct(query, key, value, temperature=temperature, sinks=(2.0,)))
    assert worked["weights"].formula == formula
    assert worked.notes == (note,)
    if temperature:
        row = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64) / temperature
        assert_close(matrix(worked["weights"])[0], row.softmax(0)[:2])
    else:
        assert not worked["weights"].matrix.any()  # the sink has it all, and yet no token sees nothing


def test_the_weighted_values_add_up_to_the_context():
    worked = worked_example("self-attention", "x2")
    weights, value = worked["weights"].matrix, worked["V"].matrix
    stage = worked["weighted values"]
    np.testing.assert_allclose(stage.matrix, weights[1][:, None] * value)
    np.testing.assert_allclose(stage.matrix.sum(axis=0), worked["context"].matrix[1])
    assert (stage.formula, stage.summed, stage.rows) == ("weights of x2 · rows of V", True, ("x1", "x2", "x3"))
    assert [stage.name for stage in worked.stages if stage.marked == 1] == [
        "x", "Q", "products", "scores", "weights", "context",
    ]  # fmt: skip
    assert worked.strongest == (1, 2, 0)


def test_each_head_has_its_weighted_values():
    worked = worked_example("multi-head", "x3")
    for head in (1, 2, 3, 4):
        assert_close(matrix(worked[f"weighted values_{head}"]).sum(dim=0), matrix(worked[f"context_{head}"])[2])


def test_without_a_token_nothing_is_marked():
    worked = worked_example("self-attention")
    assert worked.query is None
    assert worked.strongest == ()
    assert {stage.marked for stage in worked.stages} == {None}


def test_a_token_that_is_not_there_is_refused():
    assert (
        refusal(InputError, worked_example, "one-word", "stduent")
        == "no token 'stduent' in the text; nearest: student."
    )


# To ask and to keep


def test_a_stage_that_is_not_there_is_refused():
    assert (
        refusal(InputError, worked_example("self-attention").__getitem__, "weigths")
        == "no stage 'weigths'; nearest: weights."
    )


def test_they_introduce_themselves():
    worked = worked_example("multi-head")
    assert repr(worked) == (
        "WorkedAttention('Multi-head attention: 4 × 8 split over four heads', queries=4, keys=4, heads=4, stages=38)"
    )
    assert repr(worked["scores_1"]) == "Stage(scores_1 = products_1 / √d_k, d_k = 2, 4 tokens × 4 tokens)"


def test_json_has_every_number_with_all_its_digits():
    worked = worked_example("causal", "x2")
    facts = json.loads(worked_json(worked))
    assert [stage["name"] for stage in facts["stages"]] == [stage.name for stage in worked.stages]
    for told, stage in zip(facts["stages"], worked.stages, strict=True):
        again = np.array([[-math.inf if n is None else n for n in row] for row in told["matrix"]])
        assert np.array_equal(again, stage.matrix)
        assert told["shape"] == list(stage.matrix.shape)
        assert (told["formula"], told["rows"]) == (stage.formula, list(stage.rows))
    assert facts["query"] == 1
    assert facts["queries"] == facts["keys"] == ["x1", "x2", "x3"]
    assert None in facts["stages"][9]["matrix"][0]


def test_products_past_what_a_float64_holds_are_refused():
    huge = torch.tensor([[1e200]], dtype=torch.float64)
    assert refusal(InputError, work_out, direct(huge, huge, huge)) == (
        "products = Q Kᵀ is too large to compute with these numbers (a float64 ends at 1.8e308); make them smaller."
    )


def test_scores_past_what_a_float64_holds_are_refused_when_the_temperature_makes_them_so():
    query, key = torch.tensor([[-1e154]], dtype=torch.float64), torch.tensor([[1e154]], dtype=torch.float64)
    inputs = replace(direct(query, key, key), temperature=0.1)
    assert refusal(InputError, work_out, inputs) == (
        "tempered = scores / 0.1, the temperature is too large to compute with these numbers (a float64 ends at "
        "1.8e308); make them smaller."
    )


def test_a_bias_of_minus_infinity_bars_a_key(normal):
    query, key, value = (normal(2, 3, dtype=torch.float64) for _ in range(3))
    bias = np.array([[[0.0, -math.inf], [0.0, 0.0]]])
    worked = work_out(direct(query, key, value, bias=bias))
    assert worked["weights"].matrix[0].tolist() == [1, 0]


def test_tokens_name_the_rows(normal):
    query = normal(2, 3)
    worked = work_out(direct(query, query, query, tokens=named("snake", "it")), token="it")
    assert worked["products"].rows == worked["products"].columns == ("snake", "it")
    assert worked.query == 1


@pytest.mark.parametrize(
    ("mask", "notes"),
    [
        ("causal", ()),
        (np.array([[True, False], [False, False]]), ("x2 may attend to no key: its weights and its context are 0.",)),
    ],
)
def test_a_note_names_the_queries_without_keys_alone(normal, mask, notes):
    """With two heads: a query is named once."""
    query, key, value = (normal(2, 4) for _ in range(3))
    assert work_out(direct(query, key, value, n_heads=2, mask=mask)).notes == notes
