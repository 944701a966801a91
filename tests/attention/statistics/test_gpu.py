"""Tests of the GPU kernels against float64 statistics by PyTorch's operations, over masks, scores, types, layouts.

No GPU is needed. One process runs the kernels in Triton's interpreter (TRITON_INTERPRET must be set before the import);
another process compiles them for a GPU that the machine does not have. If there is a GPU, a third process runs them on
it. Each process prints its results as JSON.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from regard import (
    Alibi,
    Ask,
    Causal,
    Dilated,
    Distance,
    Documents,
    Entmax,
    Global,
    Keep,
    Padding,
    RelativeBias,
    ScaledDot,
    Softmax,
    Window,
    attend,
)
from regard.attention.statistics.choose import find_engine
from regard.attention.statistics.gpu import arguments, engine
from regard.attention.statistics.gpu import pytorch_forward as forward
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of, context_of

if sys.argv[1:] == ["on_gpu"]:
    torch.set_default_device("cuda")  # before the tensors of the calls below are made

H, KEY_HEADS, Q, K, D = 2, 1, 19, 37, 7
"""Sizes of a call: two tiles of 16 queries and three of 16 keys, the last of each nearly empty."""

STATISTICS = "entropy", "distance", "first", "own", "previous", "received", "pooled"


def relative():
    """Return T5's relative biases with large random numbers; a few keys share the last bucket."""
    bias = RelativeBias(H, n_buckets=8, max_distance=11, offset=3)
    random = torch.randn(bias.by_bucket.shape, generator=torch.Generator().manual_seed(2), device="cpu")
    bias.by_bucket.data.copy_(random)
    return bias


def everything(reduce="mean", **options):
    return Ask(**{"own": True, "previous": True, "pooled": (3, 5), "reduce": reduce, **options})


SLOPES = torch.tensor([0.7, 0.03])
BARRED = (
    torch.zeros(H, Q, K).index_fill(2, torch.tensor([0, 17]), -math.inf).index_fill(1, torch.tensor([4]), -math.inf)
)
SINKS = torch.tensor([0.3, 5.0])
CALLS = {
    "full": {},
    "causal": {"mask": Causal(), "ask": everything("max")},
    "causal behind": {"mask": Causal(-3)},
    "window": {"mask": Window(9, 2), "ask": everything("sum", pooled=(3, 37))},
    "padding": {"mask": Padding(torch.tensor([21, 0])), "items": 2},
    "causal and padding": {"mask": Causal() & Padding(torch.tensor([20, 33])), "ask": everything("max"), "items": 2},
    "documents by item": {"mask": Documents(torch.stack([torch.arange(K) // 11, torch.arange(K) // 23])), "items": 2},
    "longformer": {"mask": (Window(5, 1) | Global([3])), "ask": everything("sum")},
    "negative": {"score": ScaledDot(scale=-0.7)},
    "alibi": {"score": ScaledDot(scale=3.1, bias=Alibi()), "mask": Causal(0), "ask": everything("sum")},
    "hardly capped": {"score": ScaledDot(softcap=1e6), "mask": Causal()},
    "capped and alibi": {"score": ScaledDot(softcap=2.0, bias=Alibi(SLOPES, offset=2))},
    "barred by bias": {"score": ScaledDot(bias=BARRED), "ask": everything("max")},
    "sinks": {"normalise": Softmax(temperature=1.7, sinks=SINKS), "mask": Causal(-3)},
    "capped, biased, with sinks": {
        "score": ScaledDot(softcap=2.0, bias=relative()),
        "normalise": Softmax(temperature=0.6, sinks=SINKS),
        "mask": Window(12, 3),
    },
    "float16": {"mask": Window(9, 2), "dtype": torch.float16},
    "bfloat16 and alibi": {"score": ScaledDot(bias=Alibi(SLOPES)), "mask": Causal(), "dtype": torch.bfloat16},
    "one query": {"mask": Causal(), "queries": 1, "ask": everything(pooled=(1, 5))},
    "one key": {"keys": 1, "queries": 3, "mask": Causal(), "ask": everything(pooled=(2, 1))},
    "more queries than keys": {"keys": 5, "mask": Causal(), "ask": everything(pooled=(4, 3))},
    "nothing by query": {
        "ask": Ask(entropy=False, distance=False, first=False, pooled=(3, 5)),
        "width": 8,
    },
    "column sums alone, as many queries as keys": {
        "ask": Ask(entropy=False, distance=False, first=False),
        "mask": Causal(),
        "queries": 37,
        "width": 8,
        "key_heads": 2,
    },
    "groups and strongest": {"ask": everything(top=3, groups=torch.arange(K) % 3 == torch.arange(2)[:, None])},
    "more strongest than keys": {"ask": everything(top=K + 5)},
}
SQUARE = CALLS["column sums alone, as many queries as keys"]


def inputs(items=1, dtype=torch.float32, key_heads=KEY_HEADS, queries=Q, keys=K, width=D):
    """Yield query, key and value as parts of larger tensors in which NaN follows the last token; value has one item."""
    random = torch.Generator().manual_seed(5)
    value_width = width if width % 8 == 0 else width + 2
    for shape in ((items, queries, H, width), (items, keys, key_heads, width), (1, keys, key_heads, value_width)):
        room = torch.full((shape[0], shape[1] + 3, *shape[2:]), math.nan)
        room[:, : shape[1]] = torch.randn(shape, generator=random, device="cpu")
        yield room.to(dtype)[:, : shape[1]].transpose(1, 2)


def split(call):
    """Return the tensors of a call, its score, mask and normaliser, and the statistics to compute."""
    sizes = {name: call[name] for name in ("items", "dtype", "key_heads", "queries", "keys", "width") if name in call}
    how = {name: call[name] for name in ("score", "mask", "normalise") if name in call}
    return list(inputs(**sizes)), how, call.get("ask", everything())


def truth(call):
    """Return context and statistics in float64 by PyTorch's operations, with the bias rounded to the input's type."""
    vectors, how, ask = split(call)
    rounded = attend(*vectors, **how).pattern.score
    exact = attend(*(part.double() for part in vectors), **how).pattern.call.changed(score=rounded)
    return context_of(exact, dropout=0.0), gather_statistics(blocks_of(exact), exact.grid, exact.empty(), ask)


def by_kernels(call):
    vectors, how, ask = split(call)
    pattern = attend(*vectors, **how).pattern
    assert engine.unsupported_reason(pattern.call) is None, engine.unsupported_reason(pattern.call)
    return engine.context_and_statistics(pattern.call, ask, contexts=True)[:2]


def errors(call, expected):
    """Return the largest error and the largest value of each statistic."""
    (context, found), (exact_context, exact) = by_kernels(call), expected
    pairs = {name: (getattr(found, name), getattr(exact, name)) for name in (*STATISTICS, "groups")}
    pairs |= {"context": (context, exact_context)}
    if found.top is not None:
        pairs["top"] = found.top.weights, exact.top.weights
    given = {name: pair for name, pair in pairs.items() if pair[1] is not None}
    assert all(mine.shape == exact.shape for mine, exact in given.values())
    return {
        name: [(mine.double() - exact).abs().max().item(), exact.abs().max().item()]
        for name, (mine, exact) in given.items()
    }


def mend_bfloat16():
    """Make Triton 3.9's interpreter round to bfloat16 as a GPU does: it truncates, and multiplies the bits."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    cast, create_dot = InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot

    def rounded(self, number, to):
        if (number.dtype.scalar, to.scalar) != (tl.float32, tl.bfloat16):
            return cast(self, number, to)
        return TensorHandle(torch.tensor(number.data).bfloat16().view(torch.uint16).numpy(), to.scalar)

    def multiplied(self, a, b, *given):
        wide = (cast(self, part, tl.float32) if part.dtype.scalar == tl.bfloat16 else part for part in (a, b))
        return create_dot(self, *wide, *given)

    InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot = rounded, multiplied


def patch_once():
    """Let Triton's interpreter replace the functions of triton.language once for each module, not at every call."""
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set()

    def patch_module(function):
        if function.__module__ not in patched:
            patched.add(function.__module__)
            patch(function)
        return interpreter._LangPatchScope()

    interpreter._patch_lang = patch_module


def interpreted():
    """Return the errors of all calls by the interpreted kernels, and what the other tests need."""
    mend_bfloat16()
    patch_once()
    arguments.tile_sizes = lambda width, *, half: (16, 16)
    found = {name: errors(how, truth(how)) for name, how in CALLS.items()}
    found["repeats"] = repetitions()
    found["nan"] = nan_places()
    found["forward"] = log_sums()
    found["progress"] = progress_calls()
    found["chosen"] = chosen_engines()
    return found


def on_gpu():
    """Return the errors of all calls by the kernels on the GPU, with the tiles that they have there."""
    return {name: errors(how, truth(how)) for name, how in CALLS.items()}


def repetitions():
    """Return whether a call repeats bit by bit, and the largest difference to the same call with other tiles."""
    call = CALLS["causal behind"]
    one, same = (by_kernels(call)[1] for _ in range(2))
    arguments.tile_sizes = lambda width, *, half: (32, 16)
    other = by_kernels(call)[1]
    arguments.tile_sizes = lambda width, *, half: (16, 16)
    return {
        "same bits": all(torch.equal(getattr(one, name), getattr(same, name)) for name in STATISTICS),
        "other tiles": max((getattr(one, name) - getattr(other, name)).abs().max().item() for name in STATISTICS),
    }


def nan_places():
    """Return which statistics are NaN if a key is NaN, and if a key that the mask bars is NaN."""
    query, key, value = (part.clone() for part in inputs(items=2))
    key[1, 0, 30] = math.nan
    _, found, _ = engine.context_and_statistics(
        attend(query, key, value, mask=Causal()).pattern.call, everything("max"), contexts=True
    )
    rows = {name: getattr(found, name)[1, 0].isnan().tolist() for name in ("entropy", "distance", "first")}
    columns = {"received": found.received.isnan().flatten(1).any(dim=1).tolist()}
    columns["pooled"] = found.pooled.isnan().flatten(1).any(dim=1).tolist()
    cut = attend(query, key, value, mask=Padding(torch.tensor([37, 31]))).pattern
    _, found, _ = engine.context_and_statistics(cut.call, Ask(own=True), contexts=False)
    rows |= {"own": found.own[1, 0].isnan().tolist()}
    value[:, :, 21:] = math.nan
    key[:, :, 21:] = math.nan
    barred = attend(query, key, value, mask=Padding(torch.tensor([21, 0]))).pattern
    context, found, _ = engine.context_and_statistics(barred.call, everything(), contexts=True)
    numbers = [context, *(getattr(found, name) for name in STATISTICS)]
    return rows | columns | {"barred": any(bool(part.isnan().any()) for part in numbers)}


def log_sums():
    """Return whether the kernels use PyTorch's log-sum-exp where it is right, and only there."""
    tensors, _, ask = split(SQUARE)
    square, oblong = (attend(*split(call)[0], mask=Causal()).pattern.call for call in (SQUARE, CALLS["full"]))
    kind = torch.device("cpu"), torch.float32, 1, 8, True
    strides = []

    def changed_log_sum(change):
        def kernel(*given):
            context, log_sum = forward.flash_for_cpu(*given)
            return context, change(log_sum)

        return kernel

    def with_strides(*given):
        strides.extend(tensor.stride(-1) for tensor in given[:3])
        return forward.flash_for_cpu(*given)

    forward.KERNELS["cpu"] = (with_strides,)
    apart = attend(*(tensor.mT.contiguous().mT for tensor in tensors), mask=Causal()).pattern.call
    found, expected = (engine.context_and_statistics(call, ask, contexts=True)[:2] for call in (apart, square))
    forward.KERNELS["cpu"] = (forward.flash_for_cpu,)
    with torch.device("meta"):
        with_another_default_device = forward.trusted(forward.flash_for_cpu, *kind, tokens=139)
    wrong = {
        "another base": changed_log_sum(lambda log_sum: log_sum / math.log(2)),
        "another type": changed_log_sum(torch.Tensor.double),
        "another shape": changed_log_sum(lambda log_sum: torch.nn.functional.pad(log_sum, (0, 23))),
        "no such kernel": forward.cudnn,
    }
    return {
        "contiguous vectors": set(strides) == {1},
        "equal results": torch.equal(found[0], expected[0]) and torch.equal(found[1].received, expected[1].received),
        "trusted": [forward.trusted(forward.flash_for_cpu, *kind), with_another_default_device],
        "wrongly trusted": [name for name, kernel in wrong.items() if forward.trusted(kernel, *kind)],
        "square": forward.context_and_log_sum(square) is not None,
        "oblong": forward.context_and_log_sum(oblong) is not None,
        "sinks": forward.context_and_log_sum(square.changed(normalise=Softmax(sinks=SINKS))) is not None,
    }


def progress_calls():
    """Return the calls of the progress callback in a pass of several steps."""
    done = []
    engine.WEIGHTS_AT_ONCE = Q * K
    engine.context_and_statistics(
        attend(*inputs(items=2)).pattern.call, Ask(), contexts=False, report=lambda n, of: done.append([n, of])
    )
    return done


def chosen_engines():
    """Return which engine a pattern and attend use if the CPU kernel is not available."""
    from regard.attention.statistics.cpu import engine as cpu_engine

    cpu_engine.c_function = lambda name: None
    seen = attend(*inputs(), mask=Causal(), ask=Ask())
    dilated = attend(*inputs(), mask=Dilated(5, 0, 2)).pattern
    return [find_engine(seen.pattern.call) is engine, seen.backend, find_engine(dilated.call) is None]


HOOKED = f"""
import runpy, sys
sys.path.append({str(Path(__file__).parents[2])!r})
import checked_calls
from jaxtyping import install_import_hook
install_import_hook("regard", "beartype.beartype")
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program that runs a file with the runtime checks of shapes and types of all tests."""


def in_process(what, *checks, **environment):
    """Run a function of this file in a process of its own, behind the words of `checks`; return what it prints."""
    if find_spec("triton") is None:
        pytest.skip("there is no Triton for this system")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_CACHE_DIR": cache, **environment}
        run = subprocess.run([sys.executable, *checks, __file__, what], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found():
    return in_process("interpreted", "-c", HOOKED, TRITON_INTERPRET="1")


@pytest.fixture(scope="module", params=["interpreter", *["GPU"] * torch.cuda.is_available()])
def found_by_each(request):
    return in_process("on_gpu") if request.param == "GPU" else request.getfixturevalue("found")


@pytest.mark.parametrize("name", CALLS)
def test_every_statistic_equals_that_of_float64(found_by_each, name):
    found = found_by_each
    last_digit = torch.finfo(CALLS[name].get("dtype", torch.float32)).eps
    for statistic, (error, largest) in found[name].items():
        rounding = max(last_digit, 3e-6) if statistic == "context" else 3e-6
        assert error <= rounding * max(1, largest), (statistic, error, largest)
    asked = CALLS[name].get("ask", everything())
    assert {n for n in STATISTICS if getattr(asked, n)} <= set(found[name])


def test_every_run_gives_the_same_bits_and_other_tiles_change_only_rounding(found):
    assert found["repeats"]["same bits"]
    assert found["repeats"]["other tiles"] < 1e-5


def test_a_key_of_nan_shows_in_the_queries_that_see_it_and_in_their_sums_alone(found):
    sees = [i + K - Q >= 30 for i in range(Q)]  # key 30 under Causal()
    for name in ("entropy", "distance", "first"):
        assert found["nan"][name] == sees, name
    assert found["nan"]["own"] == [True] * Q  # also where the key at its position is barred, as in any row of NaN
    assert found["nan"]["received"] == found["nan"]["pooled"] == [False, True]
    assert not found["nan"]["barred"]


def test_the_log_sum_of_torchs_kernel_is_used_only_once_it_is_known_to_be_right(found):
    assert found["forward"] == {
        "contiguous vectors": True,
        "equal results": True,
        "trusted": [True, True],
        "wrongly trusted": [],
        "square": True,
        "oblong": False,
        "sinks": False,
    }


def test_progress_is_reported_after_each_head_of_each_item(found):
    assert found["progress"] == [[n * Q * K, 2 * H * Q * K] for n in range(1, 2 * H + 1)]


def test_a_pattern_uses_the_kernels_where_the_cpu_kernel_is_not_available(found):
    assert found["chosen"] == [True, "tiled", True]


# Compiled for a GPU that is not there


def compiled_for_hopper():
    """Compile the kernels for a Hopper GPU; return name, shared memory and program size of each."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class Absent:
        """A driver without a GPU, with the functions that compiling needs."""

        def get_current_target(self):
            return GPUTarget("cuda", 90, 32)

        def get_current_device(self):
            return 0

        def get_current_stream(self, device):
            return 0

    kernels, run = [], JITFunction.run
    driver.set_active(Absent())
    JITFunction.run = lambda self, *given, grid, warmup, **options: kernels.append(
        run(self, *given, grid=grid, warmup=True, **options)
    )
    engine.is_interpreted = lambda: True
    how = {"score": ScaledDot(softcap=2.0, bias=Alibi()), "mask": Window(3, 3) | Global([0])}
    usual = {"normalise": Softmax(sinks=SINKS), "ask": everything("max")}
    by_kernels(how | usual | {"dtype": torch.bfloat16, "width": 128})
    return [[kernel.metadata.name, kernel.metadata.shared, len(kernel.asm["cubin"])] for kernel in kernels]


@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu_and_fit_into_it():
    kernels = in_process("compiled_for_hopper")
    assert [name for name, *_ in kernels] == ["forward", "single_keys", "read_weights"]
    for name, shared_bytes, program_bytes in kernels:
        assert shared_bytes <= 99 * 1024, name  # what the smallest GPU since 2020 has for a program
        assert program_bytes > 0


# Calls that the kernels do not support


@pytest.fixture
def anywhere(monkeypatch):
    """Pretend that the kernels are interpreted, so that no refusal is due to the missing GPU."""
    monkeypatch.setattr(engine, "is_interpreted", lambda: True)
    monkeypatch.setattr(engine, "triton_is_installed", lambda: True)


RANGES = "the kernels take only masks that allow each query at most 16 ranges of keys"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"normalise": Entmax()}, "the kernels compute only softmax with a temperature above 0"),
        ({"normalise": Softmax(0.0)}, "the kernels compute only softmax with a temperature above 0"),
        ({"score": Distance()}, "the kernels compute only scaled dot products"),
        ({"mask": Dilated(5, 0, 2)}, RANGES),
        ({"mask": Keep(torch.ones(K).bool())}, RANGES),
        ({"mask": Global(range(0, K, 2))}, RANGES),
        ({"dtype": torch.float64}, "the kernels compute only in float32, and the weights are float64"),
        ({"width": 129}, "in float32 the kernels take widths up to 128"),
        ({"width": 264, "dtype": torch.float16}, "in float16 the kernels take widths up to 256"),
        ({"mask": Global([0, 2, 4])}, None),
        ({"mask": Documents(torch.arange(0)), "queries": 0, "keys": 0}, None),
        ({"width": 256, "dtype": torch.bfloat16}, None),
    ],
)
def test_calls_that_the_kernels_do_not_support_have_a_reason(anywhere, how, reason):
    vectors, how, _ = split(how)
    assert engine.unsupported_reason(attend(*vectors, **how).pattern.call) == reason


def test_the_ranges_of_a_mask_are_counted_for_one_query_alone(anywhere, monkeypatch):
    asked, ranges = [], Global.ranges
    monkeypatch.setattr(Global, "ranges", lambda self, grid, device: asked.append(grid) or ranges(self, grid, device))
    assert engine.unsupported_reason(attend(*inputs(), mask=Global(range(0, K, 2))).pattern.call) is not None
    assert [grid.queries for grid in asked] == [1]


def test_without_a_gpu_or_triton_there_is_a_reason(monkeypatch):
    pattern = attend(*inputs()).pattern
    assert engine.unsupported_reason(pattern.call) == "the kernels run only on a GPU, and the query is on cpu"
    monkeypatch.setattr(engine, "is_interpreted", lambda: True)
    monkeypatch.setattr(engine, "triton_is_installed", lambda: False)
    assert engine.unsupported_reason(pattern.call) == "triton is not installed"


if __name__ == "__main__":
    import numpy

    numpy.seterr(all="ignore")  # the interpreter computes both sides of every choice
    torch.set_num_threads(1)
    with torch.no_grad():
        print(json.dumps(globals()[sys.argv[1]]()))
