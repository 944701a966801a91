"""Tests of the C kernel for statistics: sizes, extreme scores, NaN, numbers of threads, calls it does not support.

test_definition.py compares its statistics with their definitions.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard import Ask, Causal, Padding, ScaledDot, Sigmoid, Softmax, Window, attend, use_backend
from regard.attention.statistics.cpu import engine, plan
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of

B, H, KEY_HEADS, Q, K, D = 2, 4, 2, 37, 53, 7

PER_QUERY = "entropy", "distance", "first", "own", "previous", "groups"


def everything(reduce="mean"):
    groups = torch.rand(3, K, generator=torch.Generator().manual_seed(7)) < 0.3
    return Ask(own=True, previous=True, groups=groups, top=8, pooled=(11, 17), reduce=reduce)


def inputs(dtype=torch.float32, seed=5):
    random = torch.Generator().manual_seed(seed)
    shapes = (B, H, Q, D), (B, KEY_HEADS, K, D), (1, KEY_HEADS, K, D + 2)
    return [torch.randn(shape, generator=random).to(dtype) for shape in shapes]


def rows_in_a_block(patch, rows, keys=17):
    """Make the kernel process `rows` queries in a block, and `keys` keys at a time."""
    patch.setattr(plan, "BLOCK_QUERIES", rows)
    patch.setattr(plan, "SCORES_IN_CACHE", rows * keys)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make the kernel use blocks of a few queries and keys, so that every sum is over several blocks."""
    rows_in_a_block(monkeypatch, 5)
    assert engine.c_function("regard_attention") is not None, "these tests need a C compiler"


def truth(query, key, value, ask, **call):
    """Return context and statistics computed in float64 by torch's operations."""
    seen = attend(query.double(), key.double(), value.double(), **call)
    assert engine.unsupported_reason(seen.pattern.call) is not None
    return seen.context, gather_statistics(
        blocks_of(seen.pattern.call), seen.pattern.grid, seen.pattern.call.empty(), ask
    )


def same(found, expected, largest=1.0):
    """Fail unless two summaries agree up to float32 rounding; top keys are compared by their weights."""
    has_weight = expected.top.weights[..., 0] > torch.finfo(torch.float32).tiny  # beside a large sink float32 has 0
    expected = replace(expected, distance=expected.distance.where(has_weight, 0.0))
    for name in PER_QUERY:
        scale = K if name == "distance" else 1
        assert_close(getattr(found, name).double(), getattr(expected, name), rtol=1e-5, atol=4e-6 * scale * largest)
    assert_close(found.received.double(), expected.received, rtol=1e-5, atol=1e-5 * largest)
    assert_close(found.pooled.double(), expected.pooled, rtol=1e-5, atol=2e-6 * largest)
    assert_close(found.top.weights.double(), expected.top.weights, rtol=1e-5, atol=2e-6 * largest)


sizes = st.integers(1, 40)


@settings(max_examples=60)
@given(
    heads=st.sampled_from([(1, 1), (3, 1), (4, 2)]), queries=sizes, keys=sizes, width=st.integers(1, 9),
    most=st.integers(1, 9), part=sizes, top=st.integers(1, 9), rows=sizes, columns=sizes, mask=st.sampled_from(
        [None, Causal(), Causal(2), Window(3, 1), Window(0, 4) | Causal(-5), ~Window(2, 2)]
    ), reduce=st.sampled_from(["mean", "max", "sum"]), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_size_equals_float64(heads, queries, keys, width, most, part, top, rows, columns, mask, reduce, seed):
    random = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(2, h, n, width, generator=random) for h, n in zip(heads, (queries, keys), strict=True))
    ask = Ask(top=top, pooled=(min(rows, queries), min(columns, keys)), reduce=reduce, own=True)
    with pytest.MonkeyPatch.context() as patch:
        rows_in_a_block(patch, most, part)
        seen = attend(query, key, key, mask=mask, ask=ask)
    known, of_float64 = seen.pattern.statistics, attend(query.double(), key.double(), key.double(), mask=mask)
    exact = of_float64.pattern
    assert_close(seen.context.double(), of_float64.context, rtol=1e-5, atol=1e-5)
    expected = gather_statistics(blocks_of(exact.call), exact.grid, exact.call.empty(), ask)
    for name in ("received", "entropy", "distance", "first", "own", "pooled"):
        assert_close(getattr(known, name).double(), getattr(expected, name), rtol=1e-5, atol=1e-4)
    assert_close(known.top.weights.double(), expected.top.weights, rtol=1e-5, atol=1e-5)
    assert torch.equal(known.top.keys == -1, expected.top.keys == -1)


def test_every_length_of_row_and_exponent_is_right():
    """Row lengths around the CPU's vector sizes; scores from the largest down to those whose weight is 0."""
    for keys in (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100):
        scores = torch.linspace(0, -100, keys).flip(0).expand(3, -1) + torch.tensor([[0.0], [700.0], [-3e4]])
        query, key = torch.eye(3)[None, None], scores[None, None].mT.contiguous()
        known = attend(query, key, key, score=ScaledDot(scale=1.0), ask=Ask(top=keys)).pattern.statistics
        weights = scores.double().softmax(dim=-1)
        found = known.top.weights[0, 0].double()
        assert_close(found, weights.sort(dim=-1, descending=True).values, rtol=3e-5, atol=1e-37)  # e^x of |x| to 3e4
        assert_close(known.entropy[0, 0].double(), -torch.xlogy(weights, weights).sum(-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [1, 5])
def test_sums_over_very_many_keys_keep_their_digits(normal, monkeypatch, width):
    rows_in_a_block(monkeypatch, 256, 2**11)  # as they are outside of these tests
    n_keys = 2**19
    key, value = torch.ones(1, 1, n_keys, 1), normal(1, 1, n_keys, width).abs()
    groups = torch.arange(n_keys)[None] % 3 == 0
    pattern = attend(torch.ones(1, 1, 1, 1), key, value).pattern
    context, found, _ = engine.context_and_statistics(pattern.call, Ask(groups=groups), contexts=True)
    assert_close(context.double(), value.double().mean(dim=2, keepdim=True), rtol=3e-6, atol=0)
    assert_close(found.groups.double(), groups.double().mean(dim=1)[None, None, None], rtol=3e-6, atol=0)


def test_a_key_of_nan_shows_in_the_queries_that_see_it_and_in_no_others():
    query, key, value = inputs()
    key[1, 0, 40:] = math.nan
    seen = attend(query, key, value, mask=Padding(torch.tensor([53, 40])), ask=everything())
    assert bool(seen.pattern.statistics.received.isfinite().all())
    key, mask = key.clone(), Causal()
    seen = attend(query, key, value, mask=mask, ask=everything("max"))
    sees = torch.arange(Q) + (K - Q) >= 40
    for name in ("entropy", "distance", "first"):
        found = getattr(seen.pattern.statistics, name)[1, 0]
        assert found.isnan().tolist() == sees.tolist(), name
    assert seen.pattern.statistics.top.weights[1, 0].isnan().any(dim=-1).tolist() == sees.tolist()
    assert bool(seen.pattern.statistics.received[1, 0].isnan().all())
    assert bool(seen.pattern.statistics.pooled[1, 1].isnan().any())  # heads 0 and 1 share a head of keys
    assert bool(seen.pattern.statistics.received[1, 2].isfinite().all())


@pytest.mark.parametrize("row", [0, 3, Q - 1])
@pytest.mark.parametrize("reduce", ["mean", "max", "sum"])
def test_nan_stays_in_the_cells_of_its_row(row, reduce):
    query, key, value = inputs()
    query[0, 1, row] = math.nan
    pooled = attend(query, key, value, ask=everything(reduce)).pattern.statistics.pooled
    truth_of = truth(query, key, value, everything(reduce))[1].pooled
    assert truth_of.isnan().any(dim=-1).sum() == 1
    assert_close(pooled.double(), truth_of, rtol=1e-5, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_torchs_default_type_and_device_change_nothing(dtype, default_type):
    """The C kernel's result tensors are float32 on the CPU, whatever torch's default type and device are."""
    (query, key, value), ask = inputs(), everything()
    expected = attend(query, key, value, mask=Causal(), ask=ask).pattern
    random = torch.random.get_rng_state()
    with default_type(dtype), torch.device("meta"):
        found = attend(query, key, value, mask=Causal(), ask=ask).pattern
        later = attend(query, key, value, mask=Causal()).pattern.answer(ask)
    assert torch.equal(torch.random.get_rng_state(), random)
    for name in (*PER_QUERY, "received", "pooled"):
        assert_close(getattr(found.statistics, name), getattr(expected.statistics, name), rtol=0, atol=0)
        assert_close(getattr(later, name), getattr(expected.statistics, name), rtol=1e-5, atol=1e-5)


def test_top_keys_are_right_where_the_processor_flushes_subnormal_numbers():
    """If the CPU treats subnormal numbers as 0, a threshold just below 0 would become 0."""
    query, key = torch.zeros(1, 1, 2, 5), torch.ones(1, 1, 40, 5)
    there = torch.set_flush_denormal(True)
    try:
        top = attend(query, key, key).pattern.top(3)
    finally:
        torch.set_flush_denormal(False)
    assert there, "this processor can"
    assert_close(top.weights, torch.full((1, 1, 2, 3), 1 / 40))
    assert all(len(set(keys)) == 3 and min(keys) >= 0 for keys in top.keys[0, 0].tolist())


@pytest.mark.parametrize("rising", [True, False])
def test_scores_that_rise_or_fall_without_end_from_part_to_part(rising):
    """The sums of earlier parts are scaled down, at times to 0; a part whose keys are all masked out has no effect."""
    random = torch.Generator().manual_seed(3)
    query, key = torch.zeros(1, 1, 6, 5), torch.zeros(1, 1, 90, 5)
    query[..., 0], key[..., 0] = torch.tensor([0.1, 1, 3, 10, 100, 1e4]), torch.linspace(-1, 1, 90)
    key, value = (key if rising else key.flip(2)), torch.randn(1, 1, 90, 4, generator=random)
    groups = torch.rand(3, 90, generator=random) < 0.5
    ask = Ask(own=True, previous=True, groups=groups, top=20, pooled=(6, 11), reduce="sum")
    for mask in (None, Window(40, 0), ~Window(30, 0)):
        for normalise in (Softmax(), Softmax(sinks=torch.tensor([50.0]))):
            call = {"mask": mask, "normalise": normalise}
            seen = attend(query, key, value, ask=ask, **call)
            context, expected = truth(query, key, value, ask, **call)
            assert_close(seen.context.double(), context, rtol=1e-4, atol=1e-6)
            same(seen.pattern.statistics, expected, largest=10)


def test_an_answer_that_is_known_is_not_computed_again(monkeypatch):
    query, key, value = inputs()
    ask = Ask(top=5, pooled=(3, 4), reduce="max")
    asked, plain = (attend(query, key, value, mask=Causal(), ask=a).pattern for a in (ask, None))
    expected = plain.received(), plain.entropy(), plain.top(3), plain.pooled(3, 4, "max"), plain.pooled(3, 4)

    def read(*arguments, **options):
        raise RuntimeError("computed again")

    monkeypatch.setattr(engine, "context_and_statistics", read)
    assert_close(asked.received(), expected[0])
    assert_close(asked.entropy(), expected[1])
    assert_close(asked.top(3).weights, expected[2].weights)
    assert_close(asked.pooled(3, 4, "max"), expected[3])
    for question in (lambda: asked.top(6), lambda: asked.pooled(3, 4), lambda: plain.received()):
        with pytest.raises(RuntimeError, match="computed again"):
            question()


def test_torchs_operations_compute_the_statistics_that_the_kernel_does_not_support(monkeypatch):
    query, key, value = inputs()
    for call in ({"normalise": Sigmoid()}, {"normalise": Softmax(0.0)}):
        seen = attend(query, key, value, ask=everything(), **call)
        reason = engine.unsupported_reason(seen.pattern.call)
        assert reason == "the kernel computes only softmax with a temperature above 0"
        same(seen.pattern.statistics, truth(query, key, value, everything(), **call)[1], largest=10)
    reason = engine.unsupported_reason(attend(query.double(), key.double(), value.double()).pattern.call)
    assert reason == "the kernel computes only in float32, and the weights are float64"
    reason = engine.unsupported_reason(attend(*torch.empty(3, 1, 1, 2, 4, device="meta")).pattern.call)
    assert reason == "the kernel reads only tensors on a CPU, and the query is on meta"
    monkeypatch.setattr(engine, "c_function", lambda name: None)
    seen = attend(query, key, value, mask=Causal(), ask=everything())
    assert seen.backend == "fused"
    assert engine.unsupported_reason(seen.pattern.call) == "no C kernels were built when regard was installed"
    same(seen.pattern.statistics, truth(query, key, value, everything(), mask=Causal())[1])


def test_a_context_with_gradients_or_dropout_is_left_to_the_fused_or_math_backend():
    query, key, value = inputs()
    seen = attend(query.requires_grad_(), key, value, ask=Ask())
    assert seen.backend == "fused"
    seen.context.sum().backward()
    assert query.grad is not None
    assert seen.pattern.statistics.entropy.requires_grad
    query = query.detach()
    assert attend(query, key, value, dropout=0.5, ask=Ask()).backend == "math"
    with use_backend("fused"):
        assert attend(query, key, value, ask=Ask()).backend == "fused"


def test_a_context_of_inference_mode_may_be_used_in_training():
    with torch.inference_mode():
        seen = attend(*inputs(), ask=Ask())
    weight = torch.ones(D + 2, requires_grad=True)
    (seen.context * weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("queries", "keys", "d_value"), [(0, 5, 3), (5, 0, 3), (0, 0, 3), (5, 7, 0)])
def test_empty_tensors(queries, keys, d_value, dtype):
    query, key, value = (torch.ones(1, 2, n, d, dtype=dtype) for n, d in ((queries, 3), (keys, 3), (keys, d_value)))
    seen = attend(query, key, value, ask=Ask(own=True, previous=True))
    assert torch.equal(seen.context, torch.zeros(1, 2, queries, d_value, dtype=dtype))
    weights = torch.full((queries, keys), 1 / max(keys, 1))
    assert_close(seen.pattern.received(), weights.sum(dim=0).expand(1, 2, -1))
    assert_close(seen.pattern.entropy(), torch.special.entr(weights).sum(dim=1).expand(1, 2, -1))


@pytest.mark.parametrize("parallel", [True, False], ids=["torch's threads", "Python's"])
def test_the_number_of_threads_does_not_change_a_single_bit(monkeypatch, parallel):
    query, key, value = inputs()
    monkeypatch.setattr(engine, "WEIGHTS_PER_THREAD", 1)
    if not parallel:
        monkeypatch.setattr(engine, "gnu_openmp_parallel", lambda: None)
    found = []
    before = torch.get_num_threads()
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        try:
            found.append(attend(query, key, value, mask=Causal(), ask=everything()))
        finally:
            assert torch.get_num_threads() == n
            torch.set_num_threads(before)
    for other in found[1:]:
        assert torch.equal(other.context, found[0].context)
        for name in (*PER_QUERY, "received", "pooled"):
            assert torch.equal(getattr(other.pattern.statistics, name), getattr(found[0].pattern.statistics, name))
        assert torch.equal(other.pattern.statistics.top.keys, found[0].pattern.statistics.top.keys)


@pytest.mark.parametrize("keys", [2048, 8192])
@pytest.mark.parametrize("first", [0.0, 0.3])
def test_sums_of_thousands_of_equal_numbers_keep_their_digits(keys, first):
    query, key = torch.ones(1, 1, 4, 8), torch.zeros(1, 1, keys, 8)
    key[0, 0, 0] = first
    value = torch.tensor([0.1, 1 / 3, 0.7, 1.3, 3e-3, 5.1, 0.9, 1.1]).expand(1, 1, keys, 8).contiguous()
    seen = attend(query, key, value, ask=Ask(received=True, entropy=True, first=True, distance=True))
    exact = attend(query.double(), key.double(), value.double()).pattern.summary()
    assert_close(seen.context, value[:, :, :4], rtol=5e-6, atol=0)
    for name in ("received", "entropy", "first", "distance"):
        assert_close(getattr(seen.pattern.statistics, name).double(), getattr(exact, name), rtol=5e-6, atol=0)


def test_tensors_whose_negative_bit_is_set_are_read_with_their_sign(normal):
    numbers = torch.complex(normal(1, 2, 37, 8), normal(1, 2, 37, 8))
    query, key, value = numbers.conj().imag, numbers.real, numbers.conj().imag
    assert query.is_neg()
    seen = attend(query, key, value, mask=Window(3, 0), ask=Ask(top=2, received=True))
    plain = attend(query.clone(), key.clone(), value.clone(), mask=Window(3, 0))
    assert_close(seen.context, plain.context)
    assert_close(seen.pattern.received(), plain.pattern.received())
    assert_close(seen.pattern.top(2).weights, plain.pattern.top(2).weights)


def test_the_distance_is_a_weighted_mean_if_weights_do_not_sum_to_1(normal):
    query, key = normal(1, 2, 6, 8), normal(1, 2, 6, 8)
    far = (torch.arange(6) - torch.arange(6)[:, None]).abs()
    for normalise in (Sigmoid(bias=3.0), Softmax(sinks=torch.tensor([2.0, -1.0]))):
        for one in (query, query.double()):
            pattern = attend(one, key.to(one), key.to(one), normalise=normalise).pattern
            weights = pattern.dense().double()
            expected = (weights * far).sum(-1) / weights.sum(-1)
            assert_close(pattern.summary().distance.double(), expected, rtol=1e-5, atol=1e-5)
            assert float(pattern.summary().distance.max()) <= 5
