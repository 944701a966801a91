"""Masks as ranges of keys, which a kernel can compare with: no matrix, two numbers for each query and range.

Causal masks, windows, chunks, padding and documents keep one range of keys for each query. Joined masks keep several:

    (a & b)    the overlap of each range of a with each range of b
    ~a         the keys before a range and the keys after it, for all ranges of a at once
    (a | b)    the ranges of a, and the ranges of b outside them
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid

Limits = Int[Tensor, "_ranges #batch #heads #queries"]


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """The keys that each query may attend to, as ranges from a start up to a stop; no two of a query overlap."""

    starts: Limits
    stops: Limits
    n_keys: int

    @classmethod
    def of(cls, start: int | Tensor, stop: int | Tensor, grid: Grid, device: torch.device) -> "Ranges":
        """Return one range for each query; limits broadcast to [batch heads queries] and may lie beyond the keys."""
        limits = (torch.as_tensor(limit, device=device).long().clamp(0, grid.keys) for limit in (start, stop))
        starts, stops = (limit[(None,) * (4 - limit.ndim)] for limit in limits)
        stops = torch.maximum(starts, stops)
        return cls(starts.expand_as(stops), stops, grid.keys)

    def __and__(self, other: "Ranges") -> "Ranges":
        starts = torch.maximum(self.starts[:, None], other.starts[None]).flatten(0, 1)
        stops = torch.minimum(self.stops[:, None], other.stops[None]).flatten(0, 1)
        return Ranges(starts, torch.maximum(starts, stops), self.n_keys)

    def __or__(self, other: "Ranges") -> "Ranges":
        return self.with_disjoint(other & ~self)

    def __invert__(self) -> "Ranges":
        complement, *others = (self._complement(n) for n in range(len(self.starts)))
        for other in others:
            complement = (complement & other).without_empty()
        return complement

    def with_disjoint(self, other: "Ranges") -> "Ranges":
        """Return these ranges and other ranges, none of which overlaps with one of these."""
        return Ranges(concatenated(self.starts, other.starts), concatenated(self.stops, other.stops), self.n_keys)

    def without_empty(self) -> "Ranges":
        """Return the ranges that are not empty for every query, at least one."""
        filled: Bool[Tensor, " ranges"] = (self.starts < self.stops).flatten(1).any(dim=1)
        numbers = filled.nonzero().flatten() if bool(filled.any()) else torch.zeros_like(filled[:1], dtype=torch.int64)
        return Ranges(self.starts[numbers], self.stops[numbers], self.n_keys)

    def keep(self) -> Bool[Tensor, "#batch #heads #queries keys"]:
        """Return the mask as a matrix: True where a query may attend to a key."""
        key = torch.arange(self.n_keys, device=self.starts.device)
        return ((key >= self.starts[..., None]) & (key < self.stops[..., None])).any(dim=0)

    def _complement(self, n: int) -> "Ranges":
        start, stop = self.starts[n], self.stops[n]
        starts = torch.stack([torch.zeros_like(start), stop])
        return Ranges(starts, torch.stack([start, torch.full_like(stop, self.n_keys)]), self.n_keys)


def concatenated(first: Limits, second: Limits) -> Limits:
    """Return limits of two numbers of ranges, concatenated over the grid that both broadcast to."""
    shape = (first[0] + second[0]).shape
    return torch.cat([first.expand(-1, *shape), second.expand(-1, *shape)])
