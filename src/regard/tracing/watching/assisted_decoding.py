"""Patterns in the outputs of `generate` with assisted decoding (an assistant model, or prompt lookup).

The model then reads several candidate tokens in one call, and transformers divides the attention of the call into one
part for each token, by indexing. Indexing a `Pattern` would compute the weights; here each part is a `Pattern` too.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, wraps
from typing import Any

from torch import Tensor

from regard.attention.call import Call
from regard.attention.masks import Causal, Keep
from regard.attention.masks.mask import keep_of_tile
from regard.attention.pattern import Pattern
from regard.attention.scores.biases.bias import numbers_of_bias
from regard.attention.scores.dot import ScaledDot


@cache  # so that further calls change nothing
def divide_patterns_by_token() -> None:
    """Make transformers' _split_model_outputs, which divides attention tensors by token, divide patterns, too."""
    from transformers.generation import utils

    divide = utils._split_model_outputs

    @wraps(divide)
    def divide_patterns(outputs: Any, new_outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        layers = (Divisible(layer) if isinstance(layer, Pattern) else layer for layer in new_outputs)
        return divide(outputs, tuple(layers), *args, **kwargs)

    utils._split_model_outputs = divide_patterns


class Divisible:
    """Wraps a pattern so that the index [..., queries, keys], which transformers uses, gives a pattern, not weights."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern, self.shape = pattern, pattern.shape

    def __getitem__(self, index: tuple[Any, slice, slice]) -> Pattern | Tensor:
        return part_of(self.pattern, *index[1:])


def part_of(pattern: Pattern, queries: slice, keys: slice) -> Pattern | Tensor:
    """Return `pattern[..., queries, keys]` as a pattern if possible; `keys` starts at 0.

    Return weights if a query may also attend to later keys: a pattern without these keys would have larger weights.
    """
    call, grid = pattern.call, pattern.grid
    rows, columns = range(grid.queries)[queries], range(grid.keys)[keys]
    part = grid.whole().part(queries=rows, keys=columns)
    if left_out := range(columns.stop, grid.keys):
        keep = call.keep(grid.whole().part(queries=rows, keys=left_out))
        if keep is None or bool(keep.any()):
            return pattern[..., queries, keys]
    score, mask = call.score, call.mask
    if isinstance(score, ScaledDot) and score.bias is not None:
        score = replace(score, bias=numbers_of_bias(score.bias, part, call.device))
    if isinstance(mask, Causal):
        first_query_position = grid.first_position(mask.offset) + rows.start  # counted in keys
        mask = Causal(offset=first_query_position, own=mask.own)
    elif mask is not None:
        mask = Keep(keep_of_tile(mask, part, call.device))
    query, key, value = call.query[:, :, queries], call.key[:, :, keys], call.value[:, :, keys]
    return Pattern(Call.of(query, key, value, score, mask, call.normalise))
