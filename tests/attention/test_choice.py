"""The choice of a backend is visible, can be made by name, and is never made silently."""

from typing import Any

import pytest
import torch
from oracle import Largest
from refusals import refusal
from torch.testing import assert_close

import regard.attention.backends.choose as choice
import regard.attention.weights as weights_module
from regard import (
    Alibi,
    Ask,
    Causal,
    Distance,
    MultiHeadAttention,
    RelativeBias,
    ScaledDot,
    Sigmoid,
    Softmax,
    Sparsemax,
    attend,
    explain_backend,
    use_backend,
)
from regard.attention.pattern import Pattern


def test_a_backend_by_name_holds_within_its_block_alone(normal):
    x = normal(1, 2, 19, 3)
    fused = attend(x, x, x, mask=Causal())
    with use_backend("tiled"):
        tiled = attend(x, x, x, mask=Causal())
        with use_backend("fused"):
            assert attend(x, x, x).backend == "fused"
        assert attend(x, x, x).backend == "tiled"
    assert (fused.backend, tiled.backend) == ("fused", "tiled")
    assert attend(x, x, x).backend == "fused"
    assert_close(tiled.context, fused.context)


def test_a_backend_by_name_is_used_inside_modules(normal):
    module = MultiHeadAttention(6, 2)
    with use_backend("tiled"):
        assert module(normal(1, 5, 6)).attended.backend == "tiled"


def test_an_error_in_the_block_ends_the_use_of_a_backend(normal):
    with pytest.raises(ZeroDivisionError), use_backend("tiled"):
        _ = 1 / 0
    assert attend(*normal(3, 1, 1, 2, 3)).backend == "fused"


def test_an_unknown_backend_is_refused(without_type_checks):
    with pytest.raises(ValueError) as refusal, use_backend("flash"):
        pass
    assert str(refusal.value) == "no backend 'flash'; there are fused, math, tiled, flex and reference."


def test_the_choice_is_explained(normal):
    x = normal(1, 2, 5, 3)
    assert explain_backend(x, x, x, mask=Causal()) == "fused: the fastest, and exact for this call"
    assert explain_backend(x, x, x, normalise=Softmax(temperature=0.0)) == (
        "tiled: the fused kernel divides by the temperature, which is 0"
    )
    assert explain_backend(x, x, x, dropout=0.1) == "math: on a CPU the fused kernel has no dropout"
    with use_backend("tiled"):
        assert explain_backend(x, x, x) == "tiled: set by use_backend"


ONE_PASS = "tiled: it computes the statistics that `ask` names and the context in one pass"


@pytest.mark.parametrize(
    ("options", "explained"),
    [
        ({}, ONE_PASS),
        ({"score": ScaledDot(softcap=2.0)}, ONE_PASS),
        ({"dropout": 0.5}, "math: on a CPU the fused kernel has no dropout"),
        ({"normalise": Sparsemax()}, "tiled: the fused kernel normalises by softmax, not Sparsemax"),
    ],
    ids=str,
)
def test_asking_for_statistics_changes_the_choice(normal, options, explained):
    x = normal(1, 2, 19, 3)
    assert explain_backend(x, x, x, ask=Ask(top=2), **options) == explained
    assert attend(x, x, x, ask=Ask(top=2), **options).backend == explained.split(":")[0]


@pytest.mark.parametrize("name", ["fused", "tiled"])
def test_asking_for_statistics_does_not_change_a_backend_set_by_name(normal, name):
    x = normal(1, 2, 19, 3)
    with use_backend(name):
        assert explain_backend(x, x, x, ask=Ask()) == f"{name}: set by use_backend"
        assert attend(x, x, x, ask=Ask()).backend == name


# Weights that a kernel would build


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dropout": 0.25}, "on a CPU the fused kernel has no dropout"),
        (
            {"score": ScaledDot(bias=torch.zeros(1, requires_grad=True))},
            "on a CPU the fused kernel has no gradient of a bias",
        ),
        ({"score": ScaledDot(bias=RelativeBias(2))}, "on a CPU the fused kernel has no gradient of a bias"),
    ],
    ids=["dropout", "trained bias", "trained rule"],
)
def test_few_weights_are_computed_by_math_and_many_by_tiles(normal, monkeypatch, options, reason):
    x = normal(1, 2, 31, 5)
    assert attend(x, x, x, **options).backend == "math"
    assert explain_backend(x, x, x, **options) == f"math: {reason}"
    monkeypatch.setattr(choice, "BLOCK_WEIGHTS", 2 * 31 * 31 - 1)
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 2 * 31 * 3)
    with Largest() as built:
        assert attend(x, x, x, **options).backend == "tiled"
    assert built.numbers < 2 * 31 * 31 / 2
    assert explain_backend(x, x, x, **options) == (
        f"tiled: {reason}, and 1,922 weights are too many for the math backend, which stores them"
    )
    with use_backend("fused"):
        message = refusal(ValueError, lambda: attend(x, x, x, **options))
    assert message == (
        f"the fused backend, set by use_backend, does not support this call: {reason}; use_backend('tiled') "
        "supports every call, or let attend choose a backend."
    )


def test_a_bias_without_gradients_is_fused(normal):
    x = normal(1, 2, 31, 5)
    with torch.no_grad():
        assert attend(x, x, x, score=ScaledDot(bias=RelativeBias(2))).backend == "fused"
    assert attend(x, x, x, score=ScaledDot(bias=torch.zeros(1))).backend == "fused"


def test_the_reference_backend_computes_contexts_in_the_type_of_the_call(normal):
    query, key, value = normal(1, 4, 7, 5), normal(2, 2, 11, 5), normal(1, 2, 11, 3)
    options = {
        "score": ScaledDot(softcap=2.0, bias=Alibi()),
        "mask": Causal(2),
        "normalise": Softmax(temperature=0.7, sinks=torch.tensor([0.5, -1.0, 0.0, 2.0])),
    }
    with use_backend("reference"):
        looped = attend(query, key, value, **options)
    assert (looped.backend, looped.context.dtype, looped.context.shape) == ("reference", torch.float32, (2, 4, 7, 3))
    assert_close(looped.context, attend(query, key, value, **options).context)


REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "fused": [
        ({"score": ScaledDot(softcap=30.0)}, "the fused kernel has no softcap"),
        ({"score": Distance()}, "the fused kernel computes dot products, not Distance"),
        ({"normalise": Softmax(sinks=torch.zeros(2))}, "the fused kernel has no sinks"),
        ({"normalise": Softmax(0.0)}, "the fused kernel divides by the temperature, which is 0"),
    ],
    "flex": [
        ({"score": Distance()}, "the flex backend computes dot products, not Distance"),
        ({"score": ScaledDot(bias=Alibi())}, "the flex backend has no bias"),
        ({"normalise": Sigmoid()}, "FlexAttention normalises by softmax, not Sigmoid"),
        ({"normalise": Softmax(sinks=torch.zeros(2))}, "FlexAttention has no sinks"),
        ({"normalise": Softmax(0.0)}, "FlexAttention divides by the temperature, which is 0"),
        ({"dropout": 0.1}, "FlexAttention has no dropout"),
        ({"dtype": torch.float64}, "FlexAttention has no float64"),
        ({"grad": True}, "FlexAttention computes no gradients on a CPU"),
    ],
    "reference": [
        ({"score": Distance()}, "the reference computes only the softmax of scaled dot products"),
        ({"normalise": Sigmoid()}, "the reference computes only the softmax of scaled dot products"),
        ({"dropout": 0.1}, "the reference has no dropout"),
        ({"grad": True}, "the reference computes no gradients"),
    ],
    "math": [({"score": Distance(), "normalise": Sigmoid()}, "the fused kernel normalises by softmax, not Sigmoid")],
}


@pytest.mark.parametrize(("name", "options", "reason"), [(n, *case) for n, cases in REFUSED.items() for case in cases])
def test_a_backend_says_what_it_cannot_do(normal, name, options, reason):
    options = dict(options)
    x = normal(1, 2, 5, 3, dtype=options.pop("dtype", torch.float32)).requires_grad_(options.pop("grad", False))
    with use_backend(name):
        message = refusal(ValueError, lambda: attend(x, x, x, **options))
    assert message == (
        f"the {name} backend, set by use_backend, does not support this call: {reason}; use_backend('tiled') "
        "supports every call, or let attend choose a backend."
    )


def test_a_changed_call_is_computed_by_the_formula_of_its_new_parts():
    query, key, value = torch.randn(3, 1, 2, 5, 4, generator=torch.Generator().manual_seed(3))
    call = attend(query, key, value).pattern.call
    changed = call.changed(normalise=Softmax(temperature=0.5), mask=Causal())
    assert (changed.softmax_formula.temperature, call.softmax_formula.temperature) == (0.5, 1.0)
    expected = attend(query, key, value, normalise=Softmax(temperature=0.5), mask=Causal()).pattern
    assert torch.equal(Pattern(changed).dense(), expected.dense())
