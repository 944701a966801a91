"""The choice of a backend is visible, can be made by name, and is never made silently."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, MultiHeadAttention, ScaledDot, Softmax, attend, explain_backend, use_backend


def test_the_fastest_that_is_exact_is_chosen(normal):
    x = normal(1, 2, 5, 3)
    assert attend(x, x, x).backend == "fused"
    assert attend(x, x, x, score=ScaledDot(softcap=2.0)).backend == "tiled"


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


def test_it_reaches_into_modules(normal):
    module = MultiHeadAttention(6, 2)
    with use_backend("tiled"):
        assert module(normal(1, 5, 6)).attended.backend == "tiled"


def test_an_error_within_the_block_ends_it(normal):
    with pytest.raises(ZeroDivisionError), use_backend("tiled"):
        _ = 1 / 0
    assert attend(*normal(3, 1, 1, 2, 3)).backend == "fused"


def test_what_cannot_be_done_as_asked_is_refused(normal):
    x = normal(1, 2, 5, 3)
    with use_backend("fused"), pytest.raises(ValueError) as refusal:
        attend(x, x, x, normalise=Softmax(sinks=torch.zeros(2)))
    assert str(refusal.value) == (
        "the fused backend was asked for and cannot do this call: the fused kernel has no sinks; "
        "use_backend('tiled') can, as can leaving the choice to attend."
    )


def test_an_unknown_backend_is_refused(unhooked):
    with pytest.raises(ValueError) as refusal, use_backend("flash"):
        pass
    assert str(refusal.value) == "no backend 'flash'; there are fused and tiled."


def test_the_choice_is_explained():
    assert explain_backend() == "fused: the fastest, and exact for this kind"
    assert explain_backend(normalise=Softmax(temperature=0.0)) == (
        "tiled: the fused kernel divides by the temperature, which is 0"
    )
    with use_backend("tiled"):
        assert explain_backend() == "tiled: asked for by name"
