"""Compare the attention that regard records of a model with the attention weights that the model itself returns.

The reference is the same model with attn_implementation="eager" and output_attentions=True: the weights in its outputs,
and those that its attention modules return.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import regard

TOLERANCE = 1e-4
NAMED_ATTENTION = re.compile("attention|attn", re.IGNORECASE)


@dataclass
class Reference:
    """Attention weights that a model returned, with the path of the module; None = not known."""

    path: str | None
    weights: Tensor


@dataclass
class Comparison:
    """The recorded attention compared with the reference.

    Attributes:
        n_equal: the number of reference weight tensors that equal a recorded one.
        worst: the largest difference among the equal ones, within the tolerance.
        differing: for the module path of each reference that differs from what was recorded, the difference.
        missing: the module path of each reference for which nothing was recorded.
    """

    n_equal: int = 0
    worst: float = 0.0
    differing: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def tensors_of(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_of(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_of(part)


def attentions_of(outputs: Any) -> list[Any]:
    """Return the attention weights or patterns in a model's outputs."""
    attentions: list[Any] = []

    def visit(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                visit(str(key), part)
        elif isinstance(value, list | tuple):
            for part in value:
                visit(name, part)
        elif "attention" in name and (isinstance(value, regard.Pattern) or is_weights(value)):
            attentions.append(value)

    visit("", outputs)
    return attentions


def is_weights(value: Any) -> bool:
    """Return whether a value can be attention weights: its rows sum to 1, or to less with a sink or padding."""
    if not isinstance(value, Tensor) or value.ndim < 3 or not value.is_floating_point() or not value.numel():
        return False
    sums = value.sum(dim=-1)
    return bool(value.min() >= 0 and sums.max() <= 1 + 1e-3 and sums.median() > 0.3)


@contextmanager
def returned_weights(model: nn.Module) -> Iterator[list[Reference]]:
    """Collect the weights that the attention modules of a model return during the with-block."""
    references: list[Reference] = []

    def collect(module: nn.Module, args: Any, output: Any, path: str) -> None:
        for part in output[1:] if isinstance(output, tuple) else ():
            if is_weights(part) and not any(part is reference.weights for reference in references):
                references.append(Reference(path, part))

    with ExitStack() as hooks:
        for path, module in model.named_modules():
            if NAMED_ATTENTION.search(type(module).__name__):
                hooks.callback(module.register_forward_hook(partial(collect, path=path)).remove)
        yield references


@torch.no_grad()
def references(run: Callable[..., Any], model: nn.Module) -> list[Reference]:
    """Return all weights that a model or one of its attention modules returns."""
    with returned_weights(model) as of_modules:
        in_outputs = attentions_of(run_for_weights(run, model))
    if len(in_outputs) <= len(of_modules):
        return of_modules
    known = [reference.weights for reference in of_modules]
    only_in_outputs = [
        weights
        for weights in in_outputs
        if not any(
            weights is other or (weights.shape == other.shape and torch.equal(other, weights)) for other in known
        )
    ]
    return [*of_modules, *(Reference(None, weights) for weights in only_in_outputs)]


def run_for_weights(run: Callable[..., Any], model: nn.Module) -> Any:
    """Run a model with output_attentions=True, or without it if the model has no such option."""
    try:
        return run(model, output_attentions=True)
    except TypeError as error:
        if "output_attentions" not in str(error):
            raise
        return run(model)


def difference(ours: Tensor, theirs: Tensor, padding: Tensor) -> float | None:
    """Return the largest difference of two tensors of weights, without queries that are padding; None = other shape."""
    if theirs.ndim == 3 and ours.shape[0] == theirs.shape[0] and ours.shape[1] > 1:
        ours = ours.mean(dim=1, keepdim=True)  # as nn.MultiheadAttention returns them
    elif theirs.ndim == 5 and theirs.shape[1] == ours.shape[1]:  # [batch heads windows queries keys], as in Hiera
        theirs = theirs.transpose(1, 2).flatten(0, 1)
    elif ours.shape == theirs.shape and theirs.shape[1] > 1 and torch.equal(theirs, theirs[:, :1].expand_as(theirs)):
        ours = ours.mean(dim=1, keepdim=True).expand_as(ours)  # the same, repeated for each head
    if ours.shape[-2:] != theirs.shape[-2:] or ours.numel() != theirs.numel():
        return None
    ours = without_sinks(ours.reshape(theirs.shape), theirs)
    distance = (ours - theirs).abs().amax(dim=-1)
    batch, tokens = padding.shape
    if theirs.shape[0] == batch and theirs.shape[-2] == tokens:
        is_token = padding.bool().reshape(batch, *[1] * (theirs.ndim - 3), tokens)
        distance = distance[is_token.expand_as(distance)]
    elif not bool(padding.all()):  # windows and chunks: a query that sees nothing is padding
        distance = distance[ours.sum(dim=-1) != 0]
    return float(distance.max()) if distance.numel() else 0.0


def part_difference(ours: Tensor, theirs: Tensor, padding: Tensor) -> float | None:
    """Return `difference`, over the tokens of `theirs` alone if the model returns only a part of the weights.

    The part may be the first keys, the last keys, or the last queries and keys.
    """
    n_queries, n_keys = theirs.shape[-2:]
    if ours.shape[-2] > n_queries == n_keys:
        return difference(ours[..., -n_queries:, -n_keys:], theirs, padding)
    if ours.shape[:-1] != theirs.shape[:-1] or ours.shape[-1] <= n_keys:
        return difference(ours, theirs, padding)
    first_keys, last_keys = ours[..., :n_keys], ours[..., -n_keys:]
    distances = [difference(part, theirs, padding) for part in (first_keys, last_keys)]
    return min(distance for distance in distances if distance is not None)


def without_sinks(ours: Tensor, theirs: Tensor) -> Tensor:
    """Scale the rows of `ours` to sum 1 if they have a sink and the rows of `theirs`, without the sink, sum to 1."""
    our_sums, their_sums = ours.sum(dim=-1, keepdim=True), theirs.sum(dim=-1, keepdim=True)
    has_sink = ((our_sums > 0) & (our_sums < 1 - TOLERANCE)).any()
    if has_sink and (their_sums - 1).abs().max() < TOLERANCE:
        return torch.where(our_sums > 0, ours / our_sums, ours)
    return ours


def compare_steps(steps: Sequence[Any], expected: Sequence[Reference], padding: Tensor) -> Comparison:
    """Compare recorded steps with the reference weights of the same module; of any module, if its path is None."""
    result = Comparison()
    unmatched = list(steps)
    for reference in expected:
        # A step with more keys can hold the weights of two references side by side, as in T5Gemma 2.
        longer = [step for step in steps if step.attended.pattern.shape[-1] > reference.weights.shape[-1]]
        path = reference.path
        candidates = [step for step in [*unmatched, *longer] if path is None or related(step.path, path)]
        candidates.sort(key=lambda step: step.attended.pattern.shape != reference.weights.shape)
        smallest, nearest_step = math.inf, None
        for step in candidates:
            distance = part_difference(step.attended.pattern.dense(), reference.weights, padding)
            if distance is not None and (nearest_step is None or distance < smallest):
                smallest, nearest_step = distance, step
            if distance is not None and distance <= TOLERANCE:
                break
        name = path or "outputs"
        if nearest_step is None:
            result.missing.append(name)
        elif smallest <= TOLERANCE:
            result.n_equal += 1
            result.worst = max(result.worst, smallest)
            unmatched = [step for step in unmatched if step is not nearest_step]
        else:
            result.differing[name] = smallest
    return result


def inside(path: str, outer: str) -> bool:
    """Return whether the module at `path` is the module at `outer`, or inside it."""
    return path == outer or path.startswith(f"{outer}.")


def related(path: str, other: str) -> bool:
    return inside(path, other) or inside(other, path)


def compare_patterns(patterns: Sequence[Any], expected: Sequence[Tensor], padding: Tensor) -> Comparison:
    """Compare the patterns in a model's outputs with the weights in the outputs of the reference, in their order."""
    result = Comparison()
    for number, weights in enumerate(expected):
        pattern = patterns[number] if number < len(patterns) else None
        distance = None
        if pattern is not None:
            dense = pattern.dense() if isinstance(pattern, regard.Pattern) else pattern
            distance = difference(dense, weights, padding)
        if distance is None or not isinstance(pattern, regard.Pattern):
            result.missing.append(f"attentions[{number}]")
        elif distance <= TOLERANCE:
            result.n_equal += 1
            result.worst = max(result.worst, distance)
        else:
            result.differing[f"attentions[{number}]"] = distance
    return result


class SoftmaxRecorder(torch.overrides.TorchFunctionMode):
    """Records the modules that compute a softmax: evidence of attention that is independent of regard."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.running_paths = [""]
        """The path of the module that runs, after the paths of the modules that have called it."""
        self.softmax_paths, self.called_paths = set[str](), set[str]()
        self.model = model

    def __enter__(self) -> "SoftmaxRecorder":
        self.hooks = list[Any]()
        for path, module in self.model.named_modules():
            self.hooks.append(module.register_forward_pre_hook(lambda *_, path=path: self.enter(path)))
            self.hooks.append(module.register_forward_hook(lambda *_: self.leave(), always_call=True))
        return super().__enter__()  # type: ignore[no-untyped-call]

    def enter(self, path: str) -> None:
        self.running_paths.append(path)
        self.called_paths.add(path)

    def leave(self) -> None:
        self.running_paths.pop()

    def __exit__(self, *error: Any) -> None:
        for hook in self.hooks:
            hook.remove()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in ("softmax", "scaled_dot_product_attention") and result.ndim > 2 and result.shape[-1] > 1:
            self.softmax_paths.add(self.running_paths[-1])
        return result
