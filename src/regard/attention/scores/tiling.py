"""Scores with a hidden layer of queries × keys × d_hidden numbers, which is computed block by block (in tiles).

The hidden layer is never stored as a whole, and the backward pass recomputes each tile. A single query, as in a
decoding step, needs no tiles: its hidden layer is no larger than the keys, keys × d_hidden numbers.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.gradients import checkpointed
from regard.attention.grid.grid import is_symbolic

TILE_NUMBERS = 2**18
"""The largest number of entries of a hidden layer that are computed at one time: 1 MiB of float32."""


def in_tiles(
    scores_of: Callable[..., Tensor],
    query: Float[Tensor, "batch heads queries d_hidden"],
    key: Float[Tensor, "batch heads keys d_hidden"],
    *parameters: Tensor,
) -> Float[Tensor, "batch heads queries keys"]:
    """Return scores_of(query, key, *parameters), computed for one block of queries × keys at a time.

    The score of a query and a key must not depend on other queries or keys. Parameters are not divided into blocks. A
    program exported for any number of queries (a symbolic number) cannot loop over blocks, and computes them at once.
    """
    if is_symbolic(query.shape[2]) or query.shape[2] == 1:
        return scores_of(query, key, *parameters)
    scores_at_once = TILE_NUMBERS // max(1, query.shape[0] * query.shape[1] * query.shape[3])
    # Of all tiles with the same number of scores, a square has the fewest queries and keys. The backward pass then has
    # the fewest gradients to add up.
    side = max(1, math.isqrt(scores_at_once))
    queries, keys = torch.split(query, side, dim=2), torch.split(key, side, dim=2)
    rows = [torch.cat([checkpointed(scores_of, q, k, *parameters) for k in keys], dim=3) for q in queries]
    return torch.cat(rows, dim=2)
