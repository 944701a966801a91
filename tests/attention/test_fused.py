"""Tests of the fused backend: no tensor of size queries × keys, the same result for all block sizes, refusals."""

import math
import sys
import threading
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from oracle import HALF, Largest, Saved, correct, eager, matrix
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

import regard.attention.backends.fused as fused_backend
import regard.attention.weights as weights
from regard import Causal, Documents, Keep, Padding, ScaledDot, Softmax, Window, attend, explain_backend, use_backend
from regard.attention.backends.fused import unsupported_reason
from regard.attention.backends.reference import reference
from regard.attention.call import Call
from regard.attention.scores.biases.bias import Bias
from regard.attention.scores.score import Score


@pytest.fixture
def kernel_calls(monkeypatch):
    """Return the list of the arguments (query, key, value, mask, …) that PyTorch's kernel was given."""
    calls, kernel = [], fused_backend.kernel
    monkeypatch.setattr(fused_backend, "kernel", lambda *call, **more: calls.append(call) or kernel(*call, **more))
    return calls


LONG = 4099
RULES = {
    "none": None,
    "causal": Causal(),
    "causal from the start": Causal(0),
    "window": Window(61, 7),
    "padding": Padding(torch.tensor([4001])),
    "causal and padding": Causal() & Padding(torch.tensor([4001])),
    "window or first keys": Window(61, 0) | Padding(torch.tensor([3])),
    "opposite": ~Window(61, 7),
    "documents": Documents(torch.arange(LONG) // 1000),
    "keep by key": Keep(torch.arange(LONG) % 3 > 0),
}


@pytest.mark.parametrize(
    ("name", "queries", "dtype"),
    [(name, 3001, torch.float32) for name in RULES]
    + [(name, LONG, torch.bfloat16) for name in ("none", "causal", "documents")],
)
def test_the_matrix_is_never_built(normal, name, queries, dtype):
    query = normal(1, 1, queries, 5, dtype=dtype).requires_grad_()
    key, value = normal(1, 1, LONG, 5, dtype=dtype), normal(1, 1, LONG, 7, dtype=dtype)
    with Largest() as forward:
        seen = attend(query, key, value, mask=RULES[name])
    with Largest() as backward:
        seen.context.sum().backward()
    assert seen.backend == "fused"
    block = fused_backend.BLOCK_QUERIES * LONG
    assert forward.numbers <= block < queries * LONG / 11
    assert backward.numbers <= block
    with torch.no_grad(), Largest() as look:
        rows = seen.pattern[0, 0, [0, 17, queries - 1]]
    assert look.numbers <= 5 * LONG  # the keys in float32, and three rows
    truth = eager(*(x.detach().double() for x in (query[:, :, [0, 17, -1]], key, value)), keep=kept(name, queries))
    assert_close(rows, truth[1][0, 0].float())
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2  # torch's own for these types
    assert_close(seen.context[0, 0, [0, 17, -1]].double(), truth[0][0, 0], rtol=tolerance, atol=tolerance)


def kept(name, queries):
    """Return the rows 0, 17 and last of a mask of this file as booleans, computed in plain Python."""
    late = LONG - queries
    rules = {
        "none": lambda i, j: True,
        "causal": lambda i, j: j <= i + late,
        "causal from the start": lambda i, j: j <= i,
        "window": lambda i, j: -61 <= j - i - late <= 7,
        "padding": lambda i, j: j < 4001,
        "causal and padding": lambda i, j: j <= i + late and j < 4001,
        "window or first keys": lambda i, j: -61 <= j - i - late <= 0 or j < 3,
        "opposite": lambda i, j: not -61 <= j - i - late <= 7,
        "documents": lambda i, j: (i + late) // 1000 == j // 1000,
        "keep by key": lambda i, j: j % 3 > 0,
    }
    rows = [0, 17, queries - 1]
    return matrix(lambda b, h, i, j: rules[name](rows[i], j), 1, 1, 3, LONG)


@pytest.mark.parametrize("mask", [Causal(), Window(5, 0), Causal() & Padding(torch.tensor([25, 25]))], ids=repr)
def test_one_query_is_computed_without_a_mask_over_the_keys_that_it_sees(normal, kernel_calls, mask):
    query, key = normal(2, 3, 1, 5), normal(2, 3, 29, 5)
    seen = attend(query, key, key, mask=mask)
    [(_, keys, _, attn_mask, *_)] = kernel_calls
    assert attn_mask is None
    assert keys.shape[2] == int((seen.pattern.dense() > 0)[0, 0, 0].sum()) <= 29
    assert_close(seen.context, seen.pattern.dense() @ key)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_matrix_is_not_built_for_vectors_whose_numbers_lie_apart_in_memory(normal, which):
    tensors = [normal(1, 2, 300, 8) for _ in range(3)]
    expected = attend(*tensors).context
    tensors[which] = tensors[which].mT.contiguous().mT
    with Largest() as forward, use_backend("fused"):
        seen = attend(*tensors)
    assert forward.numbers < 300 * 300
    assert_close(seen.context, expected)


def in_many_threads(work):
    """Run `work` in four threads at once, which switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [work() for _ in range(300)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_torchs_switches_of_kernels_are_left_alone_in_every_thread(normal):
    few = normal(1, 2, 5, 8)  # fewer keys than fill a register

    def enabled():
        kinds = torch.backends.cuda
        return kinds.flash_sdp_enabled(), kinds.mem_efficient_sdp_enabled(), kinds.math_sdp_enabled()

    assert all(enabled())
    seen = set()
    in_many_threads(lambda: (attend(few, few, few), seen.add(enabled())))
    with use_backend("math"):
        in_many_threads(lambda: (attend(few, few, few), seen.add(enabled())))
    assert seen == {(True, True, True)}
    assert all(enabled())


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_bias_is_copied_for_a_temperature_alone(normal, kernel_calls, temperature):
    query, bias = normal(1, 2, 17, 8), normal(2, 17, 17)
    attend(query, query, query, score=ScaledDot(bias=bias), normalise=Softmax(temperature=temperature))
    [(_, _, _, attn_mask, *_)] = kernel_calls
    assert (attn_mask.data_ptr() == bias.data_ptr()) is (temperature == 1)


@pytest.mark.parametrize(
    ("mask", "bias"),
    [
        (Causal() & Padding(torch.tensor([700, 1009])), None),
        (Causal() & Keep(torch.arange(1009) % 3 > 0), None),
        (Padding(torch.tensor([700, 1009])), (1009, 1009)),
        (Keep((torch.arange(1009) % 3 > 0).expand(2, 1, 1, 1009)), (3, 1009, 1)),
    ],
    ids=["causal and padding", "causal and keep", "padding and a bias", "keep and a bias"],
)
def test_masks_of_blocks_are_not_stored_for_the_backward_pass(normal, monkeypatch, mask, bias):
    query, key, value = (normal(2, 3, 1009, 8).requires_grad_() for _ in range(3))
    score = ScaledDot(bias=None if bias is None else normal(*bias))

    def run():
        with Saved() as saved:
            context = attend(query, key, value, mask=mask, score=score).context
        return context, torch.autograd.grad(context.square().sum(), (query, key, value)), saved.bytes

    whole, whole_gradients, _ = run()
    monkeypatch.setattr(fused_backend, "BLOCK_WEIGHTS", 1009 * 1009)
    with Largest() as largest:
        in_blocks, gradients_in_blocks, n_bytes = run()
    assert largest.numbers <= 2 * 3 * fused_backend.BLOCK_QUERIES * 1009
    assert n_bytes <= 4 * 4 * query.numel()  # query, key, value and context
    assert_close(in_blocks, whole)
    assert_close(gradients_in_blocks, whole_gradients)


@pytest.mark.parametrize(
    "mask", [None, Keep(torch.arange(1009) % 3 > 0)], ids=["bias alone", "no larger than the bias"]
)
def test_a_bias_tensor_is_not_cut_into_blocks(normal, monkeypatch, kernel_calls, mask):
    monkeypatch.setattr(fused_backend, "BLOCK_WEIGHTS", 1009)
    query = normal(2, 3, 1009, 8)
    with use_backend("fused"):
        attend(query, query, query, mask=mask, score=ScaledDot(bias=normal(3, 1009, 1009)))
    assert [attn_mask.shape for _, _, _, attn_mask, *_ in kernel_calls] == [(1, 3, 1009, 1009)]


def test_queries_that_see_no_key_read_0_even_if_they_are_infinite(normal):
    query, key = normal(1, 1, 2, 3), normal(1, 1, 7, 3)
    query[:, :, 0] = math.inf
    query.requires_grad_()
    seen = attend(query, key, key, mask=Causal(-2))
    assert seen.backend == "fused"
    assert torch.equal(seen.context, torch.zeros(1, 1, 2, 3))
    seen.context.sum().backward()
    assert torch.equal(query.grad, torch.zeros_like(query))


@pytest.mark.parametrize("mask", [Keep(torch.zeros(2, 1, 1, 29).bool()), Window(3, 2, offset=40)], ids=repr)
def test_queries_that_see_no_key_read_0_even_by_a_kernel_whose_masks_are_finite_numbers(normal, monkeypatch, mask):
    torchs = F.scaled_dot_product_attention

    def cudnns(query, key, value, attn_mask, **options):  # on an H100, of half types
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -65504.0)
        return torchs(query, key, value, attn_mask, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", cudnns)
    query, key = normal(2, 3, 17, 5), normal(2, 3, 29, 5)
    seen = attend(query, key, key, mask=mask | Padding(torch.tensor([0, 23])))
    assert seen.backend == "fused"
    assert torch.equal(seen.context[0], torch.zeros(3, 17, 5))
    assert_close(seen.context, seen.pattern.dense() @ key)


@pytest.mark.parametrize(
    ("dtype", "width", "causal", "masked", "heads"),
    [
        (torch.float32, 8, False, False, 2),
        (torch.bfloat16, 8, False, False, 2),
        (torch.float32, 8, True, False, 6),
        (torch.bfloat16, 8, True, False, 2),
        (torch.bfloat16, 264, True, False, 6),
        (torch.bfloat16, 264, False, False, 2),
        (torch.float32, 8, False, True, 6),
        (torch.bfloat16, 8, False, True, 6),
    ],
)
def test_cuda_kernels_get_grouped_heads_in_a_form_they_support(
    normal, monkeypatch, dtype, width, causal, masked, heads
):
    query, key = normal(2, 6, 17, width).to(dtype), normal(2, 2, 17, width).to(dtype)
    value, mask = normal(2, 2, 17, width).to(dtype), torch.zeros(1, 1, 17, 1, dtype=dtype) if masked else None
    given, torchs = [], F.scaled_dot_product_attention

    def seen(*tensors, **options):
        given.append((*tensors, options["enable_gqa"]))
        return torchs(*tensors, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", seen)
    context = fused_backend.cuda_kernel(query, key, value, mask, 0.3, 0.0, causal)
    [(queries, keys, _, attn_mask, grouped)] = given
    assert keys.shape[1] == heads
    assert grouped is (queries.shape[1] != heads) is (causal and dtype != torch.float32 and width <= 256)
    assert attn_mask is None or attn_mask.stride(-1) == 1
    keep = torch.ones(17, 17, dtype=torch.bool).tril() if causal else None
    vectors = [part.double() for part in (query, key, value)]
    truth, _ = eager(*vectors, keep=keep, scale=0.3)
    correct(context, truth, eager(query, key, value, keep=keep, scale=0.3)[0])


def test_on_cuda_float64_is_not_fused():
    with FakeTensorMode():
        few, many = (torch.empty(1, 2, n, 8, dtype=torch.float64, device="cuda") for n in (5, 4099))
        assert explain_backend(few, few, few) == "math: on CUDA the fused kernels have no float64"
        assert explain_backend(many, many, many).startswith("tiled: on CUDA the fused kernels have no float64, and ")
        assert explain_backend(many.float(), many.float(), many.float()).startswith("fused: ")


def test_the_largest_tensor_of_plain_torch_is_the_matrix(normal):
    query = normal(1, 1, 211, 5)
    with Largest() as plain:
        eager(query, query, query)
    assert plain.numbers >= 211 * 211


def test_attend_computes_no_weights_of_the_pattern(normal, monkeypatch):
    looked = []
    for name in ("scores_of", "vectors_of", "block_tiles"):
        monkeypatch.setattr(weights, name, lambda *_, name=name: looked.append(name))
    query = normal(2, 3, 29, 5)
    for mask in RULES.values():
        if not isinstance(mask, Documents | Keep):
            attend(query, query, query, mask=mask, score=ScaledDot(bias=torch.zeros(29)), normalise=Softmax(0.5))
    assert looked == []


@dataclass(frozen=True)
class Table(Bias):
    """A bias whose numbers are looked up in a table."""

    numbers: torch.Tensor

    def __call__(self, tile, device, dtype=torch.float32):
        return tile.select(self.numbers).to(dtype)


@pytest.mark.parametrize("backend", ["fused", "math"])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("rule", [False, True])
def test_a_bias_is_rounded_once_whatever_the_temperature(normal, backend, dtype, rule):
    query, key, value = (normal(2, 3, n, 11).to(dtype) for n in (17, 23, 23))
    numbers = 9 * normal(3, 17, 23)
    score, normalise = ScaledDot(bias=Table(numbers) if rule else numbers), Softmax(temperature=0.7)
    with use_backend(backend):
        context = attend(query, key, value, score=score, normalise=normalise).context
    bias, wide = numbers.to(dtype).expand(2, -1, -1, -1), [part.float() for part in (query, key, value)]
    truth, _ = reference(*wide, bias=bias, temperature=0.7)
    control, _ = eager(*wide, bias=bias, temperature=0.7)
    correct(context, truth, control.to(dtype))


@pytest.mark.parametrize("scale", [0.0, -0.7])
def test_a_causal_mask_holds_whatever_the_scale(normal, scale):
    # torch's is_causal gives NaN, or shows the future, where the scale is not above 0
    query, key, value = normal(2, 6, 23, 11), normal(2, 6, 23, 11), normal(2, 6, 23, 13)
    keep = torch.ones(23, 23, dtype=torch.bool).tril()
    for mask in (Causal(), Causal(0)):
        context = attend(query, key, value, mask=mask, score=ScaledDot(scale=scale)).context
        assert_close(context, eager(query, key, value, keep=keep, scale=scale)[0])


class Distance(Score):
    """A score of the user's own: minus the squared distance of query and key."""

    def __call__(self, query, key, tile):
        return -torch.cdist(query, key).square()


def test_a_score_of_the_users_own_is_computed_by_the_tiled_backend(normal):
    query, key, value = normal(2, 6, 5, 11), normal(2, 3, 7, 11), normal(2, 3, 7, 13)
    reason = unsupported_reason(Call.of(query, key, value, Distance(), None, Softmax()), 0.0)
    assert reason == "the fused kernel computes dot products, not Distance"
    seen = attend(query, key, value, score=Distance(), mask=Causal())
    assert seen.backend == "tiled"
    keys, values = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
    scores = -(query[:, :, :, None] - keys[:, :, None]).square().sum(dim=-1)
    weights = scores.masked_fill(~torch.ones(5, 7).bool().tril(2), -math.inf).softmax(dim=-1)
    assert_close(seen.pattern.dense(), weights)
    assert_close(seen.context, weights @ values)
