"""What blocks are multiplied from: queries and keys in float32; and scores that are more than their products.

Half types are turned into float32 some heads at a time. Scores with a bias, and those of other kinds than products, are
made by torch's operations before the weights are computed from them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid import side_by_side
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot
from regard.attention.statistics.blocks import Block, Limits

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

READY_AT_MOST = 2**24
"""Numbers of half types that are turned into float32 at a time: 64 MiB."""

LARGEST = torch.finfo(torch.float32).max
"""The largest number that scores may be multiplied by."""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Blocks that are gone through together, and their heads made ready for the products, in float32.

    Attributes:
        numbers: which of all blocks these are.
        query: of the batch items from `batch` on and the heads from `head` on; one item may serve all.
        key: likewise, of the heads from `key_head` on, as value.
    """

    numbers: slice
    query: Float[Tensor, "_batch heads queries d_query"]
    key: Float[Tensor, "_batch key_heads keys d_key"]
    value: Float[Tensor, "_batch key_heads keys d_value"] | None
    batch: int = 0
    head: int = 0
    key_head: int = 0

    def of(self, block: Block) -> tuple[Float[Tensor, "queries d_query"], Float[Tensor, "keys d_key"]]:
        """The queries of a block, and its keys."""
        group = self.query.shape[1] // self.key.shape[1]
        head = block.head - self.head
        query, key = (
            part[0 if len(part) == 1 else block.batch - self.batch, number]
            for part, number in ((self.query, head), (self.key, head // group))
        )
        return query[block.queries.start : block.queries.stop], key[block.keys.start : block.keys.stop]


def rounds_of(pattern: "Pattern", blocks: Sequence[Block], contexts: bool) -> Iterator[Round]:
    """All blocks in one round; half types in as many as it takes to keep what they are turned into small."""
    query, key, value = pattern.query, pattern.key, pattern.value if contexts else None
    if query.dtype == torch.float32:
        yield Round(slice(0, len(blocks)), ready(query), ready(key), None if value is None else ready(value))
        return
    group, tokens = pattern.grid.heads // key.shape[1], query.shape[2] * query.shape[3]
    of_head = group * tokens + key.shape[2] * (key.shape[3] + (0 if value is None else value.shape[3]))
    at_once, first = max(1, READY_AT_MOST // of_head), 0
    for (batch, number), some in groupby(blocks, lambda block: (block.batch, block.head // group // at_once)):
        key_heads, last = slice(number * at_once, (number + 1) * at_once), first + len(list(some))
        heads = slice(key_heads.start * group, key_heads.stop * group)
        yield Round(
            slice(first, last),
            ready(item(query, batch)[:, heads]),
            ready(item(key, batch)[:, key_heads]),
            None if value is None else ready(item(value, batch)[:, key_heads]),
            batch,
            heads.start,
            key_heads.start,
        )
        first = last


def item(part: Float[Tensor, "_batch heads tokens d"], number: int) -> Float[Tensor, "1 heads tokens d"]:
    """One item of a batch; a batch of 1 serves every item."""
    return part if len(part) == 1 else part[number : number + 1]


def ready(part: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The same in float32, the numbers of a vector side by side."""
    return side_by_side(part.float())


@dataclass(frozen=True, slots=True)
class Products:
    """How scores follow from the products of queries and keys: multiplied, and with a softcap once more."""

    scale: float
    softcap: float | None

    @classmethod
    def of(cls, pattern: "Pattern") -> "Products | None":
        """Those of a pattern; None where its score is more than that."""
        score, normalise = pattern.score, pattern.normalise
        assert isinstance(normalise, Softmax)
        if not isinstance(score, ScaledDot) or score.bias is not None:
            return None
        scale = finite(score.factor(pattern.key.shape[-1]) / (score.softcap or normalise.temperature))
        return cls(scale, score.softcap and finite(score.softcap / normalise.temperature))

    @property
    def enough(self) -> bool:
        """Whether the scores are products, multiplied, and no more."""
        return self.softcap is None


def finite(factor: float) -> float:
    """A factor that float32 can hold, so that 0 times it is 0."""
    return min(max(factor, -LARGEST), LARGEST)


def scores_into(
    scores: Float[Tensor, "queries keys"],
    pattern: "Pattern",
    block: Block,
    part: Round,
    products: Products | None,
    limits: Limits | None,
) -> None:
    """Write the scores of a block; what `limits` bars is left to `rows.h`."""
    if products is not None:
        query, key = part.of(block)
        scores.addmm_(query, key.T, beta=0, alpha=products.scale)
        if products.softcap is not None:
            scores.tanh_().mul_(products.softcap)
    else:
        assert isinstance(pattern.normalise, Softmax)
        torch.div(pattern._scores(block.tile(pattern.grid))[0, 0], pattern.normalise.temperature, out=scores)
    tile = block.tile(pattern.grid)
    by_mask = None if pattern.mask is None or limits is not None else pattern.mask.keep(tile, pattern.device)
    for keep in (by_mask, pattern.score.keep(tile)):
        if keep is not None:
            scores.masked_fill_(~keep[0, 0], -math.inf)
