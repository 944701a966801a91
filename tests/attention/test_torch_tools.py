"""PyTorch's tools work with every kind of attention: compile, export, autocast, state_dict, deepcopy and to.

Compiling and exporting run in another process without the checks of shapes, which would be traced too.
"""

import copy
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from kinds import D_MODEL, EVERY, MODULES, STAGES, USUAL, built, normal, products, title
from safetensors.torch import load, save
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing import assert_close

from regard import (
    Alibi,
    Ask,
    Causal,
    Dilated,
    Documents,
    Global,
    Grid,
    GumbelSoftmax,
    Keep,
    Mask,
    Padding,
    Prefix,
    ScaledDot,
    Sparsemax,
    Window,
    attend,
    mask_mod,
    use_backend,
)
from regard.attention.stages import instances_in

KINDS = [(stage, name) for stage, name in EVERY if stage != "positions"]
PARAMETRIC = [(stage, name) for stage, name in KINDS if STAGES[stage][name].parametric]
CALLS = {
    title(names): names
    for names in (
        *products("compiled", stages=("score", "mask", "normalise")),
        *(USUAL | {"mask": name} for name in ("none", "Keep", "Both", "Either")),  # which the fused kernel computes
        *(USUAL | {"score": name} for name in ("ScaledDot, bias", "ScaledDot, Alibi", "ScaledDot, RelativeBias")),
    )
}
"""Calls to compile, in which every kind comes at least once."""

LENGTHS = (17, 1, 2, 300)

every_module = pytest.mark.parametrize("name", MODULES)


def tokens(length=17):
    """Return the vectors of two texts."""
    return normal(2, length, D_MODEL).float()


# Functions that the other process runs, by name


def compiled(*calls: Mapping[str, str]) -> None:
    """Compile attend to one graph, forward and backward; several calls compile faster in one program."""
    cases = [built(call | {"positions": "none"}) for call in calls]

    def contexts(inputs):
        return [
            attend(*vectors, score=case.score, mask=case.mask, normalise=case.normalise).context
            for case, vectors in zip(cases, inputs, strict=True)
        ]

    def leaves():
        return [[x.clone().requires_grad_() for x in (case.query, case.key, case.value)] for case in cases]

    inputs, expected_inputs = leaves(), leaves()
    found = torch.compile(contexts, backend="eager", fullgraph=True)(inputs)
    expected = contexts(expected_inputs)
    assert_close(found, expected)
    for context in (found, expected):
        sum(part.square().sum() for part in context).backward()
    for one, other in zip(chain(*inputs), chain(*expected_inputs), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            assert_close(one.grad, other.grad)


def errors_of_calls(size: int = 9) -> dict[str, str]:
    """Return the error of each call, empty if it compiles; the calls of a group that fails are compiled one by one."""
    errors, every = {}, list(CALLS)
    for group in (every[start : start + size] for start in range(0, len(every), size)):
        together = error_of(compiled, *(CALLS[name] for name in group))
        for name in group:
            errors[name] = error_of(compiled, CALLS[name]) if together else ""
        if together and not any(errors[name] for name in group):
            errors[group[0]] = f"with others of its group: {together}"
    return errors


def compiled_module(name: str) -> None:
    """Compile a layer to one graph whose pattern can be used afterwards."""
    module, x = MODULES[name](), tokens()
    there = torch.compile(module, backend="eager", fullgraph=True)(x, mask=Causal())
    here = module(x, mask=Causal())
    assert_close(there.output, here.output)
    assert_close(there.pattern.dense(), here.pattern.dense())
    there.output.sum().backward()
    assert all(parameter.grad is not None for parameter in module.to_output.parameters())


def compiled_without_a_backward_pass() -> None:
    """Compile attend and a layer without graph breaks under no_grad and inference_mode."""
    module, x = MODULES["MultiHeadAttention, Rotary"](), tokens()
    program = torch.compile(module, backend="eager", fullgraph=True)

    def tiled(x):
        capped = attend(x, x, x, score=ScaledDot(softcap=2.0)).context  # long enough for the compiled pass
        return capped + attend(x, x, x, normalise=Sparsemax()).context

    def asked(x):
        seen = attend(x, x, x, mask=Causal(), ask=Ask())
        return seen.context, seen.pattern.entropy(), seen.pattern.received()

    with torch.no_grad():
        assert_close(torch.compile(asked, backend="eager")(tokens(300)[None]), asked(tokens(300)[None]))
    tiled_program = torch.compile(tiled, backend="eager", fullgraph=True)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_close(program(x, mask=Causal()).output, module(x, mask=Causal()).output)
            assert_close(tiled_program(tokens(300)[None]), tiled(tokens(300)[None]))


def compiled_in_grad_mode(requires_grad: bool) -> None:
    """Compile calls that run in blocks, in grad mode, with and without tensors that require gradients.

    Inductor compiles only the calls without, since g++ takes two seconds for each of its kernels;
    `compiled_to_machine_code` has gradients.
    """
    x = normal(1, 2, 600, 8).float().requires_grad_(requires_grad)

    def contexts(x):
        scores = ScaledDot(bias=Alibi()), ScaledDot(softcap=5.0)
        return [attend(x, x, x, score=score, mask=Causal()).context for score in scores]

    backend = "aot_eager" if x.requires_grad else "inductor"
    expected, found = contexts(x), torch.compile(contexts, backend=backend, fullgraph=True)(x)
    assert_close(found, expected, rtol=1e-4, atol=1e-4)
    if x.requires_grad:
        gradients = (torch.autograd.grad(torch.stack(part).sum(), x)[0] for part in (found, expected))
        assert_close(*gradients, rtol=1e-4, atol=1e-3)


def compiled_for_any_length() -> None:
    module = MODULES["MultiHeadAttention, Rotary"]()
    made = []

    def count(graph, _):
        made.append(graph)
        return graph.forward

    program = torch.compile(module, backend=count, fullgraph=True, dynamic=True)
    for length in (17, 19, 31):
        assert_close(program(tokens(length), mask=Causal()).output, module(tokens(length), mask=Causal()).output)
    assert len(made) == 1


def compiled_with_symbolic_numbers(name: str, mask: Mask) -> None:
    """Compile a layer whose sizes, and the numbers in its normaliser, are symbolic."""
    module = MODULES[name]()
    program = torch.compile(module, backend="eager", fullgraph=True, dynamic=True)
    for length in (17, 31):
        assert_close(program(tokens(length), mask=mask).output, module(tokens(length), mask=mask).output)


def compiled_to_machine_code() -> None:
    """Compile a fused and a tiled call with Inductor and compare gradients; then a call with random numbers."""

    def both(x):
        return attend(x, x, x, mask=Causal()).context + attend(x, x, x, normalise=Sparsemax()).context

    x = normal(1, 2, 19, 8)
    there, here = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.compile(both)(there).square().sum().backward()
    both(here).square().sum().backward()
    assert_close(there.grad, here.grad)

    def by_chance(x):
        return attend(x, x, x, normalise=GumbelSoftmax(seed=7)).context

    x = normal(2, 2, 50, 8)  # several vector registers of keys, and a part of one
    assert_close(torch.compile(by_chance, fullgraph=True)(x), by_chance(x))


def compiled_backend_by_name() -> None:
    """A compiled program follows use_backend."""
    program = torch.compile(lambda x: attend(x, x, x).backend, backend="eager")
    x = torch.ones(1, 1, 3, 4)
    assert program(x) == "fused"
    with use_backend("tiled"):
        assert program(x) == "tiled"
    assert program(x) == "fused"


def compiled_flex_attention() -> None:
    """Compile PyTorch's FlexAttention with a mask that joins every kind of rule."""
    query, key, value = normal(3, 2, 3, 17, 16).float().unbind()
    keep, ids = normal(2, 1, 17, 17) < 0.5, torch.arange(17) // 5
    mask = (Causal() & Documents(ids)) | Global([3]) | (Dilated(8, 0, 2) & ~Keep(keep)) | Prefix(torch.tensor([2, 3]))
    mask = mask & Padding(torch.tensor([17, 13]), side="left")
    block_mask = create_block_mask(mask_mod(mask, Grid(2, 3, 17, 17)), 2, 3, 17, 17, device="cpu")
    compiled = torch.compile(flex_attention, backend="aot_eager", fullgraph=True)
    assert_close(compiled(query, key, value, block_mask=block_mask), attend(query, key, value, mask=mask).context)


class Output(nn.Module):
    """A layer that returns its output alone, since an exported program returns tensors."""

    def __init__(self, module: nn.Module, mask: Callable[[torch.Tensor], Mask | None]) -> None:
        super().__init__()
        self.module, self.mask = module, mask

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.module(x, mask=self.mask(lengths)).output


EXPORTED_MASKS: dict[str, Callable[[torch.Tensor], Mask | None]] = {
    "none": lambda lengths: None,
    "causal": lambda lengths: Causal(),
    "window": lambda lengths: Window(3, 0) & Padding(lengths) | Global([0]),
    "rows": lambda lengths: Keep(torch.ones(17, 17).tril().bool()),
}


def exported(name: str, strict: bool, mask: str) -> None:
    """Export a layer, for any number of texts of any length unless its mask fixes the length."""
    layer = Output(MODULES[name]().eval(), EXPORTED_MASKS[mask])
    items, length = torch.export.Dim("items", max=64), torch.export.Dim("tokens", max=4096)
    dynamic = mask != "rows"
    shapes = {"x": {0: items, 1: length}, "lengths": {0: items}} if dynamic else None
    with torch.no_grad():
        given = tokens(), torch.tensor([17, 5])
        program = torch.export.export(layer, given, strict=strict, dynamic_shapes=shapes)
        for n_tokens in LENGTHS if dynamic else (17,):
            x = normal(3 if dynamic else 2, n_tokens, D_MODEL).float()
            lengths = torch.arange(len(x)) * n_tokens // 2
            assert_close(program.module()(x, lengths), layer(x, lengths), rtol=1e-4, atol=1e-5)
        if mask == "causal":
            there = io.BytesIO()
            torch.export.save(program, there)
            there.seek(0)
            assert_close(torch.export.load(there).module()(*given), layer(*given))


class OneQuery(nn.Module):
    """Attention of one query, the newest token, to all keys."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return attend(query, key, value, mask=Causal()).context


def exported_for_any_number_of_keys() -> None:
    """Export attention of one query to any number of keys, as in incremental decoding."""
    keys = {2: torch.export.Dim("keys", max=4096)}
    query = normal(2, 3, 1, 5)
    given = query, normal(2, 3, 11, 5), normal(2, 3, 11, 7)
    program = torch.export.export(OneQuery(), given, dynamic_shapes=({}, keys, keys), strict=False).module()
    for n_keys in LENGTHS:
        key, value = normal(2, 3, n_keys, 5), normal(2, 3, n_keys, 7)
        assert_close(program(query, key, value), attend(query, key, value).context)


class Biased(nn.Module):
    """Attention with a bias tensor, over so many tokens that it runs in blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = normal(3, 300, 300)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the contexts under a mask that is a rule, and under a mask that is a tensor."""
        masks = Causal() & Padding(lengths), Keep(keep)
        rule, tensor = (attend(x, x, x, mask=mask, score=ScaledDot(bias=self.bias)).context for mask in masks)
        return rule, tensor


def exported_for_any_batch() -> None:
    """Export attention for any number of texts of a fixed length."""
    items = {0: torch.export.Dim("items", max=4096)}
    given = normal(2, 3, 300, 5), torch.tensor([300, 40]), normal(2, 1, 1, 300) > 0
    program = torch.export.export(Biased(), given, dynamic_shapes=(items,) * 3, strict=False).module()
    for n_items in (2, 31):  # few and many numbers, where masks and bias are one
        x, lengths, keep = normal(n_items, 3, 300, 5), torch.arange(n_items) + 1, normal(n_items, 1, 1, 300) > 0
        assert_close(program(x, lengths, keep), Biased()(x, lengths, keep))


def exported_with_gradients() -> None:
    """Export a layer that recomputes weights in the backward pass."""
    layer, given = Output(MODULES["MultiHeadAttention"](), lambda lengths: Causal()), (tokens(), torch.tensor([17, 5]))
    layer.module.normalise = Sparsemax()  # type: ignore[assignment]
    assert_close(torch.export.export(layer, given, strict=True).module()(*given), layer(*given))


def recorded(tool: str) -> None:
    """Record a small call, and a call large enough for the C kernel, whose work the tools do not see."""

    def contexts(x, lengths):
        biased = attend(x, x, x, score=ScaledDot(bias=Alibi()), mask=Causal())
        return attend(x, x, x, mask=Padding(lengths)).context, biased.context

    for n_tokens in (7, 600):
        given, other = normal(2, 2, 2, n_tokens, 8).float().unbind()
        short, long = torch.tensor([[3, 4], [n_tokens, 5]])
        by_jit = tool == "torch.jit.trace"
        program = torch.jit.trace(contexts, (given, short)) if by_jit else make_fx(contexts)(given, short)
        assert_close(program(other, long), contexts(other, long))


EVERY_CHECK: list[tuple[Any, ...]] = [
    *((compiled_module, name) for name in MODULES if not name.endswith(("Cosine", "Distance"))),
    (compiled_without_a_backward_pass,),
    (compiled_in_grad_mode, False),
    (compiled_in_grad_mode, True),
    (compiled_for_any_length,),
    (compiled_with_symbolic_numbers, "MultiHeadAttention", Window(1, 0) | Global([0, 3])),
    (compiled_with_symbolic_numbers, "MultiHeadAttention, Softmax, sinks", Causal()),
    (compiled_to_machine_code,),
    (compiled_backend_by_name,),
    (compiled_flex_attention,),
    (exported_for_any_number_of_keys,),
    (exported_for_any_batch,),
    (exported_with_gradients,),
    (recorded, "torch.jit.trace"),
    (recorded, "make_fx"),
    *((exported, name, False, mask) for name, mask in zip(MODULES, cycle(EXPORTED_MASKS), strict=False)),
    *((exported, "MultiHeadAttention", True, mask) for mask in ("causal", "rows")),
]
CHECKS = {" ".join([check.__name__, *map(str, given)]): (check, given) for check, *given in EVERY_CHECK}
"""By the name of a test: a function that compiles, exports or records, and its arguments."""


@pytest.fixture(scope="module")
def errors():
    """The error of everything that the other process compiles, exports and records; empty = no error."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"JAXTYPING_DISABLE": "1", "PYTHONPATH": paths}
    run = subprocess.run([sys.executable, __file__], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [*CALLS, *CHECKS])
@pytest.mark.slow
def test_compiling_exporting_and_recording_raise_no_error(errors, name):
    assert errors[name] == ""


def error_of(check: Callable[..., None], *what: object) -> str:
    """Return the error that a function raises, or an empty text."""
    torch._dynamo.reset()
    try:
        check(*what)
    except Exception as error:  # the test shows it, whatever it is
        return f"{type(error).__name__}: {error}"
    return ""


# Autocast


@pytest.mark.parametrize(
    ("stage", "name", "dtype"),
    [(*kind, torch.float32) for kind in KINDS] + [(*kind, torch.bfloat16) for kind in PARAMETRIC],
)
def test_autocast_changes_nothing_inside_attention(stage, name, dtype):
    case = built({stage: name})
    query, key, value = (x.to(dtype) for x in (case.query, case.key, case.value))
    vector = query[..., 0]

    def read():
        seen = case.attend(query=query, key=key, value=value)
        pattern = seen.pattern
        steps = pattern.steps(1, 2)
        found = (pattern.dense(), pattern.scores(), pattern.received(), pattern.back(vector), pattern.apply(value))
        return seen.context, *found, steps.products, steps.context

    here = read()
    with torch.autocast("cpu", torch.bfloat16):
        there = read()
    assert [x.dtype for x in there] == [x.dtype for x in here]
    assert (there[0].dtype, there[1].dtype) == (dtype, torch.float32)
    for one, other in zip(there, here, strict=True):
        assert_close(one, other, rtol=1e-6, atol=1e-6)


@every_module
def test_a_layer_under_autocast_has_the_pattern_of_its_context(name):
    module, x = MODULES[name](), tokens()
    with torch.autocast("cpu", torch.bfloat16):
        read = module(x, mask=Causal())
        inside = read.pattern.dense()
    pattern = read.pattern
    assert (read.output.dtype, read.attended.context.dtype) == (torch.bfloat16, torch.bfloat16)
    assert pattern.dtype == inside.dtype == torch.float32
    assert_close(inside, pattern.dense())
    value = pattern.value.repeat_interleave(pattern.n_heads // pattern.value.shape[1], 1)
    assert_close(read.attended.context.float(), inside @ value.float(), rtol=2e-2, atol=2e-2)
    read.output.float().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in module.parameters() if parameter.grad is not None)


# Devices


@every_module
def test_the_default_device_changes_nothing(name):
    module, x = MODULES[name](), tokens()
    here = module(x, mask=Causal())
    with torch.device("meta"):
        there = module(x, mask=Causal())
        assert_close(there.pattern.dense(), here.pattern.dense())
    assert_close(there.output, here.output)


@pytest.mark.parametrize("name", ["ScaledDot, Alibi", "ScaledDot, RelativeBias"])
def test_weights_with_a_bias_rule_do_not_depend_on_the_default_device(name):
    pattern = built({"score": name}).attend().pattern
    here = pattern.dense()
    with torch.device("meta"):
        assert_close(pattern.dense(), here)


# Saving, copying, moving


@pytest.mark.parametrize(("stage", "name"), PARAMETRIC, ids=lambda word: word)
def test_parameters_are_saved_copied_and_moved(stage, name):
    case = built({stage: name})
    part = case.score if stage == "score" else case.normalise
    twin = copy.deepcopy(part)
    (module,), (other,) = instances_in(part, torch.nn.Module), instances_in(twin, torch.nn.Module)
    numbers = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    assert numbers
    before = case.attend().context.detach()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not torch.allclose(case.attend(**{stage: twin}).context, before)
    assert_close(case.attend().context, before)  # a copy shares nothing
    other.load_state_dict(load(save(module.state_dict())))
    assert_close(case.attend(**{stage: twin}).context, before)
    other.float()
    assert {parameter.dtype for parameter in other.parameters()} == {torch.float32}
    assert_close(case.attend(**{stage: twin}).context, before, rtol=1e-5, atol=1e-5)
    assert_close(module.state_dict(), numbers)


@every_module
def test_a_layer_is_saved_copied_and_moved(name):
    module, x = MODULES[name](), tokens()
    before = module(x, mask=Causal()).output.detach()
    twin = copy.deepcopy(module)
    assert twin.state_dict().keys() == module.state_dict().keys()
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
    assert not torch.allclose(twin(x, mask=Causal()).output, before)
    assert_close(module(x, mask=Causal()).output, before)
    twin.load_state_dict(load(save(module.state_dict())))
    assert_close(twin(x, mask=Causal()).output, before)
    assert_close(twin.double()(x.double(), mask=Causal()).output, before.double(), rtol=1e-5, atol=1e-5)
    stored = io.BytesIO()
    torch.save(module.state_dict(), stored)
    stored.seek(0)
    fresh = MODULES[name]()
    fresh.load_state_dict(torch.load(stored, weights_only=True))  # tensors alone: nothing is unpickled
    assert_close(fresh(x, mask=Causal()).output, before)


def test_a_bias_that_is_a_parameter_gets_its_gradient():
    bias = nn.Parameter(normal(3, 5, 7))
    seen = attend(*(normal(1, 3, n, 5) for n in (5, 7, 7)), score=ScaledDot(bias=bias))
    seen.context.sum().backward()
    assert bias.grad.any()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({name: error_of(check, *given) for name, (check, given) in CHECKS.items()} | errors_of_calls()))
