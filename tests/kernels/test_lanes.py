"""The kernels, compiled for processors with wide registers and with narrow ones: the same numbers by all."""

import pytest
import torch
from loud import loud, small
from model_laws import texts
from torch.testing import assert_close

from regard import Ask, Causal, ScaledDot, attend
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of
from regard.kernels import library
from regard.kernels.build import levels
from regard.kernels.library import c_function, loaded_library, processor_level
from regard.kernels.top_tokens import top_tokens
from regard.transformer.model import Transformer

RUNNABLE = [level for level in levels() if level <= str(processor_level())]


@pytest.fixture(autouse=True, params=RUNNABLE)
def level(request, monkeypatch):
    """Make the library of one processor level be loaded, as on a processor without higher levels."""
    monkeypatch.setattr(library, "processor_level", lambda: request.param)
    for function in (c_function, loaded_library):
        function.cache_clear()
    assert loaded_library() is not None, "these tests need a C compiler"
    yield
    for function in (c_function, loaded_library):
        function.cache_clear()


@pytest.mark.parametrize("keys", [5, 37, 64])
def test_statistics_equal_float64(normal, keys):
    query, key = normal(2, 4, 37, 16), normal(2, 4, keys, 16)
    ask = Ask(own=True, previous=True, top=5, pooled=(7, 3))
    found = attend(query, key, key, mask=Causal(), ask=ask).pattern.statistics
    exact = attend(query.double(), key.double(), key.double(), mask=Causal()).pattern
    expected = gather_statistics(blocks_of(exact.call), exact.grid, exact.call.empty(), ask)
    for name in ("received", "entropy", "distance", "first", "own", "previous", "pooled"):
        assert_close(getattr(found, name).double(), getattr(expected, name).double(), rtol=1e-5, atol=1e-4)
    assert_close(found.top.weights.double(), expected.top.weights, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("widths", [(16, 16), (7, 21), (64, 100)])
def test_contexts_with_softcap_bias_and_mask_equal_float64(normal, widths):
    d_key, d_value = widths
    query, key, value = normal(2, 4, 37, d_key), normal(2, 2, 53, d_key), normal(2, 2, 53, d_value)
    call, bias = {"mask": normal(2, 1, 37, 53) > -0.5}, normal(4, 37, 53)
    seen = attend(query, key, value, score=ScaledDot(softcap=1.5, bias=bias), ask=Ask(), **call)
    wide = [part.double() for part in (query, key, value)]
    exact = attend(*wide, score=ScaledDot(softcap=1.5, bias=bias.double()), ask=Ask(), **call)
    assert_close(seen.context.double(), exact.context, rtol=1e-5, atol=1e-5)
    assert_close(seen.pattern.statistics.received.double(), exact.pattern.statistics.received, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_encoded_sources_and_decoding_steps_equal_float64(norm, positions):
    model = loud(Transformer(small(d_model=96, d_ff=48, n_key_heads=2, positions=positions, norm=norm))).float()
    source, lengths, target = texts([7, 5, 3], 31), torch.tensor([7, 5, 3]), texts([21] * 3, 37, seed=1)
    with torch.inference_mode():
        decoding = model.compiled_decoding(source, lengths, most_rows=3, most_tokens=21)
        for tokens in target.T.tolist():
            decoding.read(tokens, range(3))
        chosen = top_tokens(decoding.logits, 5, [2])[1]
        # decoding step, projection, top tokens and, without rotary positions, the encoder; each with its `_error`
        assert c_function.cache_info().currsize == (6 if positions == "rotary" else 8)
        expected = model.double()(source, lengths, target).logits[:, -1]
        assert_close(decoding.logits.double(), expected, rtol=1e-4, atol=1e-4)
        expected[:, 2] = -torch.inf
        assert chosen == expected.topk(5).indices.tolist()
