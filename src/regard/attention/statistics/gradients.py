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
    numbers = floats_of(summary)
    differentiable = Statistics.apply(call, summary.ask, numbers, *call.tensors)  # type: ignore[no-untyped-call]
    found = dict(zip(numbers, differentiable, strict=True))
    if summary.top is not None:
        found["top"] = replace(summary.top, weights=found["top"])
    return replace(summary, **found)


def floats_of(summary: Summary) -> dict[str, Tensor]:
    present = {name: getattr(summary, name) for name in summary.__slots__ if name != "ask"}
    if summary.top is not None:
        present["top"] = summary.top.weights  # the keys are integers, without gradients
    return {name: numbers for name, numbers in present.items() if numbers is not None}


class Statistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, ask: Ask, numbers: dict[str, Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors of `numbers`, the computed statistics, as outputs with a backward pass."""
        ctx.call, ctx.ask, ctx.names = call, ask, list(numbers)
        return tuple(numbers.values())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        call, ask, names = ctx.call, ctx.ask, ctx.names
        given = dict(zip(names, gradients, strict=True))
        needed = [x for x in dict.fromkeys(call.tensors) if x.requires_grad]  # key and value may be one tensor
        totals = [torch.zeros_like(tensor, dtype=call.weights_dtype) for tensor in needed]
        has_maximum = ask.pooled is not None and ask.reduce == "max"
        with torch.no_grad():
            largest = pooled_map(call, ask) if has_maximum else None
        for tile in block_tiles(call, call.grid.whole()):
            with torch.enable_grad():
                block = Block(tile, *weights_and_keep(call, tile))
                numbers = floats_of(gather_statistics([block], call.grid, call.empty(), ask))
            block_gradients = {
                name: given[name] if name in FOR_ALL_QUERIES else entries_at(given[name], 2, tile.queries)
                for name in names
            }
            if has_maximum:  # a cell's gradient goes to the block that has its largest weight
                block_gradients["pooled"] = block_gradients["pooled"] * (numbers["pooled"] == largest)
            found = torch.autograd.grad(
                [numbers[name] for name in names],
                needed,
                [block_gradients[name] for name in names],
                allow_unused=True,
                create_graph=torch.is_grad_enabled(),  # for second derivatives
            )
            totals = [total if part is None else total + part for total, part in zip(totals, found, strict=True)]
        of_tensors = dict(zip(needed, totals, strict=True))  # below, pop gives a repeated tensor its gradient only once
        return None, None, None, *(of_tensors.pop(x).to(x.dtype) if x in of_tensors else None for x in call.tensors)


def pooled_map(call: Call, ask: Ask) -> Tensor | None:
    """Return the pooled map with the same bits as in the backward pass, which finds the largest weights by `==`."""
    pooled = replace(NOTHING, pooled=ask.pooled, reduce=ask.reduce)
    return gather_statistics(blocks_of(call), call.grid, call.empty(), pooled).pooled
