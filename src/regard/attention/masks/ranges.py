"""Masks as ranges of keys: kernels read the start and stop of each query's ranges instead of a boolean matrix.

(a & b)    the overlap of each range of a with each range of b
~a         the keys outside of all ranges of a
(a | b)    the ranges of a, and the parts of the ranges of b outside of the ranges of a
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, with_four_axes

Limits = Int[Tensor, "_ranges #batch #heads #queries"]
"""The starts of all key ranges, or the stops; index r along axis 0 is range r of each query."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """The keys that each query may attend to, as ranges: range r has the keys from starts[r] to stops[r] - 1.

    The ranges of one query do not overlap. A range may be empty.
    """

    starts: Limits
    stops: Limits
    n_keys: int

    @classmethod
    def of(cls, start: int | Tensor, stop: int | Tensor, grid: Grid, device: torch.device) -> "Ranges":
        """Return one range of keys for each query, from `start` to `stop` - 1; both broadcast to [batch heads queries].

        Numbers below 0 or above the number of keys are clamped. A stop below its start gives an empty range.
        """
        limits = (torch.as_tensor(limit, device=device).long().clamp(0, grid.keys) for limit in (start, stop))
        starts, stops = map(with_four_axes, limits)  # [ranges batch heads queries], with one range
        stops = torch.maximum(starts, stops)
        return cls(starts.expand_as(stops), stops, grid.keys)

    def __and__(self, other: "Ranges") -> "Ranges":
        # all pairs of a range of `self` and a range of `other`, as one axis of ranges
        starts = torch.maximum(self.starts[:, None], other.starts[None]).flatten(0, 1)
        stops = torch.minimum(self.stops[:, None], other.stops[None]).flatten(0, 1)
        return Ranges(starts, torch.maximum(starts, stops), self.n_keys)

    def __or__(self, other: "Ranges") -> "Ranges":
        return self.with_disjoint(other & ~self)

    def __invert__(self) -> "Ranges":
        # De Morgan: the complement of a union is the intersection of the complements
        complement = self._complement(0)
        for n in range(1, len(self.starts)):
            # a complement has two ranges, so `&` doubles the number of ranges; most of them are empty
            complement = (complement & self._complement(n)).without_empty()
        return complement

    def with_disjoint(self, other: "Ranges") -> "Ranges":
        """Return the ranges of `self` and of `other`; no two ranges of a query may overlap."""
        return Ranges(concatenated(self.starts, other.starts), concatenated(self.stops, other.stops), self.n_keys)

    def without_empty(self) -> "Ranges":
        """Return a copy without the ranges that are empty for every query.

        If all are empty, the first is kept, because kernels read range 0 of every query.
        """
        is_filled: Bool[Tensor, " ranges"] = (self.starts < self.stops).flatten(1).any(dim=1)
        if not bool(is_filled.any()):
            return Ranges(self.starts[:1], self.stops[:1], self.n_keys)
        return Ranges(self.starts[is_filled], self.stops[is_filled], self.n_keys)

    def keep(self) -> Bool[Tensor, "#batch #heads #queries keys"]:
        key = torch.arange(self.n_keys, device=self.starts.device)
        return ((key >= self.starts[..., None]) & (key < self.stops[..., None])).any(dim=0)

    def _complement(self, n: int) -> "Ranges":
        """Return, for each query, the two ranges of keys outside of its n-th range: before and after it."""
        start, stop = self.starts[n], self.stops[n]
        starts = torch.stack([torch.zeros_like(start), stop])
        return Ranges(starts, torch.stack([start, torch.full_like(stop, self.n_keys)]), self.n_keys)


def concatenated(first: Limits, second: Limits) -> Limits:
    """Return the ranges of `first`, followed by those of `second`; the axes batch, heads and queries are broadcast."""
    shape = torch.broadcast_shapes(first.shape[1:], second.shape[1:])  # type: ignore[no-untyped-call]
    return torch.cat([first.expand(-1, *shape), second.expand(-1, *shape)])
