"""One head of a model as numbers to work out by hand: its input x, its parameters W_q, W_k, W_v, or else Q, K and V.

No model is known by name. While one runs, the linear layers right inside each attention module are listened to. Columns
of a layer's output that are the head's queries are x W_q + b_q: x is that layer's input, and W_q these columns of its
parameters. Where there are none (rotary positions, normalised queries), the numbers start from Q, K and V.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import Keep, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot
from regard.by_hand.numbers import Numbers, joined_names
from regard.errors import InputError
from regard.tracing.focus import Focus, focus_on
from regard.tracing.head import Head, TokenReference
from regard.tracing.huggingface import RECORDING
from regard.tracing.loading import load
from regard.tracing.run import trace
from regard.tracing.trace import Trace

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Matrix = Float[Tensor, "_ _"]


@dataclass(frozen=True, slots=True, eq=False)
class LinearCall:
    """A linear layer that ran: output = source W + b."""

    layer: nn.Module
    source: Tensor
    output: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The columns of a linear layer that made one head's queries, keys or values: source @ parameters + bias."""

    source: Float[Tensor, "tokens d_model"]
    parameters: Float[Tensor, "d_model d_head"]
    bias: Float[Tensor, "1 d_head"] | None


def model_numbers(
    model: "PreTrainedModel | str | None",
    text: str,
    *,
    head: str | None = None,
    token: TokenReference | None = None,
    target: str | None = None,
    tokenizer: Any = None,
    truncate: bool = False,
) -> tuple[Numbers, int]:
    """The numbers of one head of a model while it reads a text, and the position of the token to look at.

    Args:
        model: a loaded model, or the name or folder of one; None = MiniLM.
        head: its name, "L3H1"; None = the most telling one.
        token: None = the most telling one.
        target: the text on the decoder's side, for encoder-decoders.
        tokenizer: None = the one that belongs to the model's name.
        truncate: read only as much of the text as the model takes, instead of refusing.

    Raises:
        InputError: as `trace` and `focus_on` do; attention that is no softmax of products.
    """
    if model is None or isinstance(model, str):
        loaded = load(model)
        model, tokenizer = loaded.model, tokenizer or loaded.tokenizer
    with linear_calls_by_step(model) as heard, torch.no_grad():
        seen = trace(model, text, target=target, tokenizer=tokenizer, truncate=truncate)
        focus = focus_on(seen, token, head)
        attended = seen.attended[focus.head.kind][focus.head.layer]
        return head_numbers(focus, heard.get(id(attended), []), title_of(seen, focus)), focus.query


def title_of(seen: Trace, focus: Focus) -> str:
    """Which head of which model it is; its kind is said where there are several."""
    kind = f"{focus.head.kind} " if len(seen.kinds) > 1 else ""
    return f"{seen.model} · {kind}{focus.head.name}"


@contextmanager
def linear_calls_by_step(model: "PreTrainedModel") -> Iterator[dict[int, list[LinearCall]]]:
    """Within this, the linear layers that ran in the module of each attention step, by the id of the recorded step."""
    from transformers.pytorch_utils import Conv1D

    heard: dict[int, list[LinearCall]] = {}
    handles = []
    for module in model.modules():
        if layers := [child for child in module.children() if isinstance(child, nn.Linear | Conv1D)]:
            handles += add_hooks(module, layers, heard)
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def linear_calls(modules: Iterable[nn.Module]) -> Iterator[list[LinearCall]]:
    """Within this, every linear layer among some modules that ran."""
    heard: list[LinearCall] = []

    def ran(layer: nn.Module, inputs: Any, output: Any) -> None:
        heard.append(LinearCall(layer, inputs[0], output))

    handles = [layer.register_forward_hook(ran) for layer in modules if isinstance(layer, nn.Linear)]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


def add_hooks(module: nn.Module, layers: Sequence[nn.Module], heard: dict[int, list[LinearCall]]) -> list[Any]:
    """Note what runs in a module for the attention steps that happen in it; the innermost module has the say."""
    calls: list[tuple[int, list[LinearCall]]] = []

    def begin(module: nn.Module, inputs: Any) -> None:
        calls.append((len(RECORDING.get() or ()), []))

    def ran(layer: nn.Module, inputs: Any, output: Any) -> None:
        if calls and inputs and isinstance(output, Tensor):
            calls[-1][1].append(LinearCall(layer, inputs[0], output))

    def end(module: nn.Module, inputs: Any, output: Any) -> None:
        before, layers_ran = calls.pop()
        for step in (RECORDING.get() or [])[before:]:
            heard.setdefault(id(step.attended), layers_ran)

    return [
        module.register_forward_pre_hook(begin),
        *(layer.register_forward_hook(ran) for layer in layers),
        module.register_forward_hook(end),
    ]


def head_numbers(focus: Focus, ran: Sequence[LinearCall], title: str) -> Numbers:
    """One head's numbers, from x and its parameters where they are found."""
    head = focus.head
    steps = head.pattern.steps(0, head.head)
    parts = {"Q": steps.query, "K": steps.key, "V": steps.value}
    projections = {name: find_projection(part, ran) for name, part in parts.items()}
    matrices = projected_matrices(projections)
    notes: tuple[str, ...] = ()
    if matrices is None:
        matrices = {name: part.cpu().double() for name, part in parts.items()}
        notes = (direct_note(projections),)
    crosses = head.kind == "cross"
    return Numbers(
        title=title,
        source="one head of a model, recomputed in float64 from what it was given",
        matrices=matrices,
        tokens=head.queries,
        memory_tokens=head.keys if crosses else None,
        score=score_of(head),
        mask=mask_of(head),
        normalise=normalise_of(head),
        notes=notes,
    )


def projected_matrices(projections: dict[str, Projection | None]) -> dict[str, Matrix] | None:
    """x, memory, W and b; None unless all three projections are known and keys and values have one source."""
    query, key, value = (projections[name] for name in "QKV")
    if query is None or key is None or value is None or not torch.equal(key.source, value.source):
        return None
    matrices = {"x": query.source}
    if not torch.equal(query.source, key.source):
        matrices["memory"] = key.source
    for letter, projection in (("q", query), ("k", key), ("v", value)):
        matrices[f"W_{letter}"] = projection.parameters
        if projection.bias is not None:
            matrices[f"b_{letter}"] = projection.bias
    return matrices


def direct_note(projections: dict[str, Projection | None]) -> str:
    """Why the numbers start from Q, K and V, in one line."""
    unknown = [name for name, projection in projections.items() if projection is None]
    why = "K and V come from different inputs here"
    if unknown:
        are = "is not a plain product" if len(unknown) == 1 else "are not plain products"
        why = f"{joined_names(unknown)} {are} x W here (positions or norms come in between)"
    return f"{why}, so the numbers start from Q, K and V as the attention got them."


def find_projection(part: Float[Tensor, "tokens d_head"], ran: Sequence[LinearCall]) -> Projection | None:
    """The linear layer and its columns whose output is this part; None if there are none."""
    n_tokens, d_head = part.shape
    for candidate in ran:
        source = candidate.source.reshape(-1, candidate.source.shape[-1])
        output = candidate.output.reshape(-1, candidate.output.shape[-1])
        if not len(source) == len(output) == n_tokens:
            continue
        for start in range(0, output.shape[1] - d_head + 1, d_head):
            columns = slice(start, start + d_head)
            if torch.allclose(output[:, columns].to(part), part):
                found = projection_of(candidate.layer, source, columns)
                if found is not None and reproduces(found, part, candidate.output.dtype):
                    return found
    return None


def projection_of(layer: nn.Module, source: Tensor, columns: slice) -> Projection | None:
    """Some columns of a linear layer, in float64; Conv1D keeps its parameters the other way round."""
    weight, bias = layer.weight, layer.bias
    if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.ndim != 2:
        return None
    parameters = weight.detach().T if isinstance(layer, nn.Linear) else weight.detach()
    if parameters.shape[0] != source.shape[1]:
        return None
    return Projection(
        source=source.detach().cpu().double(),
        parameters=parameters[:, columns].cpu().double(),
        bias=bias.detach()[None, columns].cpu().double() if isinstance(bias, Tensor) else None,
    )


def reproduces(found: Projection, part: Float[Tensor, "tokens d_head"], dtype: torch.dtype) -> bool:
    """Whether source @ parameters + bias is this part, but for the rounding of the type that it was computed in."""
    bias = torch.zeros(()) if found.bias is None else found.bias
    largest = found.source.abs() @ found.parameters.abs() + bias.abs()
    error = (found.source @ found.parameters + bias - part.cpu().double()).abs()
    return bool((error <= 16 * torch.finfo(dtype).eps * largest).all())


# The three stages of one head


def score_of(head: Head) -> ScaledDot:
    """The head's own scale and softcap, and its part of the bias."""
    score = head.pattern.score
    if not isinstance(score, ScaledDot):
        raise InputError(
            f"{head.name} scores by {type(score).__name__}, and explain works out products of queries and keys divided "
            "by a number; `regard look` shows its weights."
        )
    d_key = head.pattern.query.shape[-1]
    usual = score.scale is None or abs(score.scale * d_key**0.5 - 1) < 1e-6
    grid, device = head.pattern.grid, head.pattern.device
    bias = None if score.bias is None else head_part(head, score.biases(grid.whole(), device)).double()
    return ScaledDot(scale=None if usual else score.scale, softcap=score.softcap, bias=bias)


def mask_of(head: Head) -> Mask | None:
    """Which key each query may look at; None where every one may."""
    if head.pattern.mask is None:
        return None
    keep = head_part(head, head.pattern.mask.keep(head.pattern.grid.whole(), head.pattern.device))
    return None if bool(keep.all()) else Keep(keep)


def normalise_of(head: Head) -> Softmax:
    """The head's own sink, where it has one."""
    normalise = head.pattern.normalise
    if not isinstance(normalise, Softmax):
        raise InputError(
            f"{head.name} weighs by {normalise!r}; explain works out softmax. `regard look` shows its weights."
        )
    sinks = normalise.sinks
    return Softmax() if sinks is None else Softmax(sinks=sinks[[head.head]].detach().cpu().double())


def head_part(head: Head, tensor: Tensor) -> Tensor:
    """The queries × keys of one head, of a tensor that broadcasts to the whole grid."""
    grid = head.pattern.grid
    return tensor.detach().expand(grid.shape)[0, head.head].cpu()
