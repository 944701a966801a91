"""Tests of the checks that the numbers of a worked example fit together: the whole text of every refusal."""

import numpy as np
import pytest
from refusals import refusal

from regard import InputError
from regard.by_hand.example_inputs import ExampleInputs
from regard.tracing.tokens.readable_tokens import Token

CHOOSE = "give x with W_q, W_k and W_v, or Q, K and V themselves"


def zeros(**sizes):
    return {name: np.zeros(size) for name, size in sizes.items()}


def named(count):
    return tuple(Token(text=str(n), piece=str(n)) for n in range(count))


PROJECTED = {"x": (3, 4), "W_q": (4, 2), "W_k": (4, 2), "W_v": (4, 6)}
DIRECT = {"Q": (3, 2), "K": (3, 2), "V": (3, 6)}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"x": (3, 3), "W_q": (4, 4), "W_k": (4, 4), "W_v": (4, 4)},
            "W_q is 4 x 4, but x is 3 x 3: W_q must have 3 rows, one for each number of a token's embedding "
            "(3 x 4 would fit).",
        ),
        (
            PROJECTED | {"W_k": (5, 2)},
            "W_k is 5 x 2, but x is 3 x 4: W_k must have 4 rows, one for each number of a token's embedding "
            "(4 x 2 would fit).",
        ),
        (
            PROJECTED | {"memory": (7, 1)},
            "W_k is 4 x 2, but memory is 7 x 1: W_k must have 1 row, one for each number of a token's embedding "
            "(1 x 2 would fit).",
        ),
        (
            PROJECTED | {"W_k": (4, 3)},
            "W_k is 4 x 3, but W_q is 4 x 2: W_k must have 2 columns, so that each query can be multiplied with each "
            "key (4 x 2 would fit).",
        ),
        (
            PROJECTED | {"b_v": (1, 5)},
            "b_v is 1 x 5, but W_v is 4 x 6: b_v must have 6 columns, one for each column of W_v (1 x 6 would fit).",
        ),
        (
            PROJECTED | {"W_o": (5, 4)},
            "W_o is 5 x 4, but the context is 3 x 6: W_o must have 6 rows, one for each number of a context "
            "(6 x 4 would fit).",
        ),
        (
            DIRECT | {"K": (3, 4)},
            "K is 3 x 4, but Q is 3 x 2: K must have 2 columns, so that each query can be multiplied with each key "
            "(3 x 2 would fit).",
        ),
        (
            DIRECT | {"V": (2, 6)},
            "V is 2 x 6, but K is 3 x 2: V must have 3 rows, one for each key (3 x 6 would fit).",
        ),
        ({"x": (3, 4), "W_v": (4, 2)}, f"W_q and W_k are missing; {CHOOSE}."),
        ({"Q": (3, 4), "K": (3, 4)}, f"V is missing; {CHOOSE}."),
        ({}, f"x, W_q, W_k and W_v are missing; {CHOOSE}."),
        (DIRECT | {"x": (3, 2)}, f"Q, K and V are given and so is x; {CHOOSE}, not both."),
        (PROJECTED | {"V": (3, 2)}, f"V is given and so are x, W_q, W_k and W_v; {CHOOSE}, not both."),
    ],
)  # fmt: skip
def test_matrices_that_do_not_fit_are_refused(sizes, message):
    assert refusal(InputError, ExampleInputs, title="", matrices=zeros(**sizes)) == message


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"n_heads": 3},
            "n_heads = 3 does not split Q's 2 columns and V's 6 columns into equal parts; head counts that do: 1, 2.",
        ),
        ({"tokens": named(2)}, "tokens has 2 names, but Q has 3 rows; give one name for each row."),
        ({"memory_tokens": named(1)}, "memory_tokens has 1 name, but K has 3 rows; give one name for each row."),
        (
            {"mask": np.ones((2, 3), dtype=bool)},
            "mask is 2 x 3, but there are 3 queries and 3 keys: it must be 3 x 3, one row for each query.",
        ),
        (
            {"mask": "causal", "memory_tokens": named(3)},
            "a causal mask needs queries and keys to be the same tokens in the same order, and here the keys are other "
            "tokens; leave the mask out, or give a matrix of true and false.",
        ),
    ],
)
def test_choices_that_do_not_fit_are_refused(choices, message):
    assert refusal(InputError, ExampleInputs, title="", matrices=zeros(**DIRECT), **choices) == message


def test_names_for_a_memory_that_is_not_there_are_refused():
    assert refusal(InputError, ExampleInputs, title="", matrices=zeros(**PROJECTED), memory_tokens=named(3)) == (
        "memory_tokens names the rows of memory, but there is no memory; give it, or leave them out."
    )


@pytest.mark.parametrize("temperature", [-0.5, float("inf"), float("nan")])
def test_a_temperature_that_is_below_0_or_too_small_for_float32_is_refused(temperature):
    numbers = ExampleInputs(title="", matrices=zeros(**DIRECT))
    assert refusal(InputError, numbers.changed, temperature=temperature) == (
        f"temperature={temperature} divides the scores, so it must be 0 (all weight on the largest) or above."
    )
    assert refusal(InputError, numbers.changed, temperature=1e-39) == (
        "temperature=1e-39 is so small that scores divided by it are infinite in float32; take 0 for all weight on the "
        "largest."
    )


def test_changes_keep_the_rest():
    keep = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1]], dtype=bool)
    changed = ExampleInputs(title="t", matrices=zeros(**DIRECT), mask=keep).changed(temperature=2.0, causal=True)
    assert changed.temperature == 2.0
    assert changed.keep.tolist() == [[True, False, False], [False, True, False], [True, False, True]]
    assert changed.title == "t"
    again = changed.changed()
    assert (again.temperature, again.mask) == (changed.temperature, changed.mask)
    assert ExampleInputs(title="t", matrices=zeros(**DIRECT)).changed(causal=True).mask == "causal"


def test_more_scores_than_can_be_read_are_refused_before_they_are_computed():
    matrices = zeros(Q=(100_000, 2), K=(100_000, 2), V=(100_000, 2))
    assert refusal(InputError, ExampleInputs, title="", matrices=matrices, n_heads=2) == (
        "100,000 queries and 100,000 keys in 2 heads give 20,000,000,000 scores; a worked example has at most "
        "16,777,216 (4,096 x 4,096); give fewer tokens."
    )


def test_tokens_have_names_where_none_are_given():
    numbers = ExampleInputs(title="", matrices=zeros(Q=(2, 2), K=(3, 2), V=(3, 2)))
    assert [token.text for token in numbers.queries] == ["x1", "x2"]
    assert [token.text for token in numbers.keys] == ["m1", "m2", "m3"]
    assert (
        ExampleInputs(title="", matrices=zeros(**DIRECT)).keys
        == ExampleInputs(title="", matrices=zeros(**DIRECT)).queries
    )
