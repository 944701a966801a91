"""Gradients of statistics: the backward pass computes the weights again, one block of queries at a time."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.ask import NOTHING, Ask, Summary
from regard.attention.call import Call
from regard.attention.grid.grid import entries_at
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import Block, block_tiles, blocks_of, weights_and_keep

FOR_ALL_QUERIES = "received", "pooled"
"""Statistics to which every query contributes; every other statistic has numbers for each query."""


def with_gradients(call: Call, summary: Summary) -> Summary:
    """Return a summary with the same numbers, from which gradients flow to the tensors of the call."""
    numbers = floats_of(summary)
    differentiable = Statistics.apply(call, summary.ask, numbers, *call.tensors)  # type: ignore[no-untyped-call]
    statistics = dict(zip(numbers, differentiable, strict=True))
    if summary.top is not None:
        statistics["top"] = replace(summary.top, weights=statistics["top"])
    return replace(summary, **statistics)


def floats_of(summary: Summary) -> dict[str, Tensor]:
    statistics = {name: getattr(summary, name) for name in summary.__slots__ if name != "ask"}
    if summary.top is not None:
        statistics["top"] = summary.top.weights  # the keys are integers, without gradients
    return {name: numbers for name, numbers in statistics.items() if numbers is not None}


class Statistics(torch.autograd.Function):
    """Connects statistics that are computed already with the tensors of a call, by a backward pass."""

    @staticmethod
    def forward(ctx: Any, call: Call, ask: Ask, numbers: dict[str, Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors of `numbers`, the computed statistics, as outputs with a backward pass."""
        ctx.call, ctx.ask, ctx.names = call, ask, list(numbers)
        return tuple(numbers.values())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        call, ask, names = ctx.call, ctx.ask, ctx.names
        output_gradients = dict(zip(names, gradients, strict=True))
        # dict.fromkeys, because key and value may be one tensor
        inputs = [tensor for tensor in dict.fromkeys(call.tensors) if tensor.requires_grad]
        totals = [torch.zeros_like(tensor, dtype=call.weights_dtype) for tensor in inputs]
        has_maximum = ask.pooled is not None and ask.reduce == "max"
        with torch.no_grad():
            largest = pooled_map(call, ask) if has_maximum else None
        for tile in block_tiles(call, call.grid.whole()):
            with torch.enable_grad():
                weights, keep = weights_and_keep(call, tile)
                block = Block(tile, weights, keep)
                numbers = floats_of(gather_statistics([block], call.grid, call.empty(), ask))  # of the tile's queries
            block_gradients = {
                name: gradient if name in FOR_ALL_QUERIES else entries_at(gradient, 2, tile.queries)
                for name, gradient in output_gradients.items()
            }
            if has_maximum:  # the gradient of a cell of the map goes to each block that has the cell's largest weight
                block_gradients["pooled"] = block_gradients["pooled"] * (numbers["pooled"] == largest)
            input_gradients = torch.autograd.grad(
                [numbers[name] for name in names],
                inputs,
                [block_gradients[name] for name in names],
                allow_unused=True,
                create_graph=torch.is_grad_enabled(),  # for second derivatives
            )
            totals = [
                total if gradient is None else total + gradient
                for total, gradient in zip(totals, input_gradients, strict=True)
            ]
        total_of = dict(zip(inputs, totals, strict=True))
        tensor_gradients = [  # by pop, a tensor that is both key and value gets its gradient once
            total_of.pop(tensor).to(tensor.dtype) if tensor in total_of else None for tensor in call.tensors
        ]
        no_gradients = None, None, None  # for call, ask and numbers
        return *no_gradients, *tensor_gradients


def pooled_map(call: Call, ask: Ask) -> Tensor | None:
    """Return the pooled map by torch operations, with the bits of the backward pass, which compares them by `==`.

    The map of the forward pass may come from a kernel, which rounds otherwise.
    """
    pooled = replace(NOTHING, pooled=ask.pooled, reduce=ask.reduce)
    return gather_statistics(blocks_of(call), call.grid, call.empty(), pooled).pooled
