"""Masks as ranges of keys, which a kernel can compare with: no matrix, two numbers a query.

Causal, windows, chunks, padding and documents keep one range of keys for each query. Joined they still keep ranges:

    (a & b)    each range of a within each range of b
    ~a         what lies before a range and what lies after it, for all ranges at once
    (a | b)    a, and b where a is not
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid

Limits = Int[Tensor, "_ranges #batch #heads #queries"]


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """For each query the keys that it may attend to: those from a start up to a stop, in ranges that never overlap."""

    starts: Limits
    stops: Limits
    n_keys: int

    @classmethod
    def of(cls, start: int | Tensor, stop: int | Tensor, grid: Grid, device: torch.device) -> "Ranges":
        """One range for each query; the limits broadcast to [batch heads queries] and may lie beyond the keys."""
        limits = (torch.as_tensor(limit, device=device).long().clamp(0, grid.keys) for limit in (start, stop))
        starts, stops = (limit[(None,) * (4 - limit.ndim)] for limit in limits)
        stops = torch.maximum(starts, stops)
        return cls(starts.expand_as(stops), stops, grid.keys)

    def __and__(self, other: "Ranges") -> "Ranges":
        starts = torch.maximum(self.starts[:, None], other.starts[None]).flatten(0, 1)
        stops = torch.minimum(self.stops[:, None], other.stops[None]).flatten(0, 1)
        return Ranges(starts, torch.maximum(starts, stops), self.n_keys)

    def __or__(self, other: "Ranges") -> "Ranges":
        return self.beside(other & ~self)

    def __invert__(self) -> "Ranges":
        first, *others = (self._around(n) for n in range(len(self.starts)))
        for other in others:
            first = (first & other).some()
        return first

    def beside(self, other: "Ranges") -> "Ranges":
        """These ranges and others, none of which overlaps with one of them."""
        return Ranges(joined(self.starts, other.starts), joined(self.stops, other.stops), self.n_keys)

    def some(self) -> "Ranges":
        """Without those that are empty for every query; one of them stays if all are."""
        filled: Bool[Tensor, " ranges"] = (self.starts < self.stops).flatten(1).any(dim=1)
        numbers = filled.nonzero().flatten() if bool(filled.any()) else torch.zeros_like(filled[:1], dtype=torch.int64)
        return Ranges(self.starts[numbers], self.stops[numbers], self.n_keys)

    def keep(self) -> Bool[Tensor, "#batch #heads #queries keys"]:
        """The same as a matrix: True where a query may attend to a key."""
        key = torch.arange(self.n_keys, device=self.starts.device)
        return ((key >= self.starts[..., None]) & (key < self.stops[..., None])).any(dim=0)

    def _around(self, n: int) -> "Ranges":
        start, stop = self.starts[n], self.stops[n]
        starts = torch.stack([torch.zeros_like(start), stop])
        return Ranges(starts, torch.stack([start, torch.full_like(stop, self.n_keys)]), self.n_keys)


def joined(one: Limits, other: Limits) -> Limits:
    """Limits one after the other, over the grid that both broadcast to."""
    shape = (one[0] + other[0]).shape
    return torch.cat([one.expand(-1, *shape), other.expand(-1, *shape)])
