"""The cached keys and values of earlier target tokens, so that no token is projected twice."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue


@dataclass(frozen=True, slots=True, eq=False)
class BlockCache:
    """The cached keys and values of the target tokens so far: one `KeyValue` for each decoder block."""

    blocks: tuple[KeyValue, ...]

    @property
    def n_tokens(self) -> int:
        """The number of cached tokens of each target text."""
        return self.blocks[0].n_tokens

    @property
    def rows(self) -> int:
        """The number of target texts in the batch."""
        return len(self.blocks[0].key)

    def select(self, rows: Int[Tensor, " rows"]) -> "BlockCache":
        """Return the cache of the target texts with the indices `rows`, in the order of `rows`."""
        return BlockCache(tuple(block.select(rows) for block in self.blocks))
