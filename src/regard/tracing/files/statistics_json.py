"""Converts attention calls of which only statistics were recorded to JSON and back, for trace files."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.attention.ask import PER_QUERY, Ask, Summary, Top
from regard.attention.attend import Attended
from regard.attention.grid.grid import Grid
from regard.json_file import Json
from regard.tracing.watching.answered_pattern import AnsweredPattern, CallWithoutTensors, statistic_names
from regard.typed_fields import check_fields


def statistics_to_json(attended: Attended, pattern: AnsweredPattern, add: Callable[[Tensor], str]) -> Json:
    """Return an attention call with recorded statistics as JSON; `add` stores a tensor and returns its name."""
    stored = pattern.statistics
    ask = {name: getattr(stored.ask, name) for name in Ask.__slots__ if name != "groups"}
    statistics: dict[str, Json] = {}
    for name in statistic_names(stored):
        part = getattr(stored, name)
        statistics[name] = [add(part.weights), add(part.keys)] if isinstance(part, Top) else add(part)
    return {
        "backend": attended.backend,
        "grid": list(pattern.shape),
        "d_value": attended.context.shape[3],
        "dtype": str(pattern.dtype).removeprefix("torch."),
        "ask": ask,
        "groups": None if stored.ask.groups is None else add(stored.ask.groups),  # the only tensor in `ask`
        "statistics": statistics,
    }


def statistics_from_json(document: Json, tensors: Mapping[str, Tensor]) -> Attended:
    """Return context and statistics from JSON that `statistics_to_json` wrote; raise an exception if it is damaged."""
    grid = Grid(*map(positive, document["grid"]))
    dtype = {"float32": torch.float32, "float64": torch.float64}[document["dtype"]]
    groups = None if document["groups"] is None else tensors[document["groups"]]
    pooled = None if document["ask"]["pooled"] is None else tuple(map(positive, document["ask"]["pooled"]))
    asked = document["ask"] | {"pooled": pooled, "groups": groups}
    check_fields(Ask, asked)
    ask = Ask(**asked)
    ask.check(grid)
    shapes = shapes_of(ask, grid)
    if not shapes or document["statistics"].keys() != shapes.keys():
        raise ValueError("the statistics are not those that `ask` requests.")
    parts: dict[str, Any] = {}
    for name, shape in shapes.items():
        # "top" is stored as two tensors, so it has a pair of names; any other statistic has one name
        tensor_names = document["statistics"][name]
        if name == "top":
            weights, keys = (checked(tensors[tensor], shape) for tensor in tensor_names)
            # the key -1 fills the list of a query that may attend to fewer keys
            if keys.dtype != torch.long or not bool(((keys >= -1) & (keys < grid.keys)).all()):
                raise ValueError("the strongest keys are not positions of keys.")
            parts[name] = Top(weights, keys)
        else:
            parts[name] = checked(tensors[tensor_names], shape)
    # the context is not stored; only its shape is known
    context = torch.empty(*grid.shape[:3], positive(document["d_value"]), device="meta")
    pattern = AnsweredPattern(CallWithoutTensors(grid, dtype, torch.device("cpu")), Summary(ask=ask, **parts))
    return Attended(context=context, pattern=pattern, backend=document["backend"])


def shapes_of(ask: Ask, grid: Grid) -> dict[str, tuple[int, ...]]:
    """Return, by name, the shape of each statistic that `ask` requests."""
    lead = grid.batch, grid.heads
    shapes: dict[str, tuple[int, ...]] = {name: (*lead, grid.queries) for name in PER_QUERY if getattr(ask, name)}
    if ask.received:
        shapes["received"] = (*lead, grid.keys)
    if ask.groups is not None:
        shapes["groups"] = (*lead, grid.queries, len(ask.groups))
    if ask.top is not None:
        shapes["top"] = (*lead, grid.queries, ask.top)
    if ask.pooled is not None:
        shapes["pooled"] = (*lead, *ask.pooled)
    return shapes


def checked(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(tensor.shape) != shape:
        raise ValueError(f"a statistic has shape {list(tensor.shape)} and not {list(shape)}.")
    return tensor


def positive(number: Json) -> int:
    if type(number) is not int or number < 1:
        raise TypeError(f"{number!r:.40} is not a size.")
    return number
