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
        return KeyValue(
            key=with_cached("keys", self.key, tokens.key, axis=2),
            value=with_cached("values", self.value, tokens.value, axis=2),
        )

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValue":
        """Return the keys and values of the batch items with the indices `rows`, in the order of `rows`."""
        return KeyValue(key=self.key.index_select(0, rows), value=self.value.index_select(0, rows))


def with_cached(name: str, cached: Tensor, new: Tensor, axis: int) -> Tensor:
    """Return the vectors of cached tokens, followed by the vectors of new tokens, along the tokens' axis.

    Raises:
        ValueError: the shapes differ in another axis.
    """
    if cached.shape[:axis] != new.shape[:axis] or cached.shape[axis + 1 :] != new.shape[axis + 1 :]:
        raise ValueError(
            f"the cache has {name} of shape {list(cached.shape)}, and those of the new tokens have shape "
            f"{list(new.shape)}; only the numbers of tokens (axis {axis}) may differ: give the cache that this layer "
            "returned for the same batch items."
        )
    return torch.cat([cached, new], dim=axis)
