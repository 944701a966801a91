"""The cache of multi-head attention: the keys and values of earlier tokens."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.representation import Described


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class KeyValue(Described):
    """The keys and values of some tokens in every head, cached so that later calls need not compute them again."""

    key: Float[Tensor, "batch key_heads keys d_head"]
    value: Float[Tensor, "batch key_heads keys d_head"]

    @property
    def n_tokens(self) -> int:
        """The number of cached tokens."""
        return self.key.shape[2]

    def append(self, tokens: "KeyValue") -> "KeyValue":
        """Return the keys and values of this object, followed by the keys and values of `tokens`."""
        key, value = torch.cat([self.key, tokens.key], dim=2), torch.cat([self.value, tokens.value], dim=2)
        return KeyValue(key=key, value=value)

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValue":
        """Return the keys and values of the batch items with the indices `rows`, in the order of `rows`."""
        return KeyValue(key=self.key.index_select(0, rows), value=self.value.index_select(0, rows))
