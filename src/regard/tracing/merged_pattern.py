"""Patterns of words and patterns averaged over heads, both computed from another pattern when weights are read.

weight of a word on a word    the sum over the tokens of the key's word, the mean over those of the query's word
weight in the average head    the mean over the heads of the layer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.call import Call
from regard.attention.grid.grid import Tile, as_indices, entries_at
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.pattern import Pattern
from regard.attention.scores.score import Score
from regard.attention.weights import weights_of
from regard.tracing.patterns_by_layer import SIDES

Group = Sequence[int]
"""The positions of the tokens that are joined into one word."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MergedWeights(Score):
    """A score whose values are another pattern's weights, summed over groups of keys, averaged over groups of queries.

    The normaliser `Identity` returns these values as weights. `query_group` and `key_group` have the index of the group
    of each query and key of `source`; no group of queries is empty. If `averages_heads`, the score has one head, the
    mean over all heads.
    """

    source: Pattern
    query_group: Int[Tensor, " queries"]
    key_group: Int[Tensor, " keys"]
    averages_heads: bool

    def __call__(
        self, query: Float[Tensor, "batch heads queries 1"], key: Float[Tensor, "batch heads keys 1"], tile: Tile
    ) -> Float[Tensor, "batch heads queries keys"]:
        group_index, source_tile = self.source_tokens(tile)
        weights = weights_of(self.source.call, source_tile)
        if self.averages_heads:
            weights = weights.mean(dim=1, keepdim=True)
        merged = self.sum_by_group(weights, group_index, tile)
        group_sizes = torch.bincount(group_index, minlength=merged.shape[2])
        return merged / group_sizes.to(merged)[:, None]

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return the mask: True where any token of a query (a group) may attend to any token of a key (a group).

        If the heads are averaged, one head in which this is so suffices. None = True everywhere.
        """
        group_index, source_tile = self.source_tokens(tile)
        keep = self.source.keep(source_tile)
        if keep is None:
            return None
        allowed = keep.expand(source_tile.shape).float()
        if self.averages_heads:
            allowed = allowed.amax(dim=1, keepdim=True)
        return self.sum_by_group(allowed, group_index, tile) > 0

    def source_tokens(self, tile: Tile) -> tuple[Int[Tensor, " tokens"], Tile]:
        """Return which weights of `source` are needed to compute the weights in `tile` (a block of queries × keys).

        They are the weights of the tokens that belong to the queries of `tile`, on all keys. The first result has, for
        each of these tokens, the index in `tile` of its query; the second is the block of their weights in `source`.
        """
        device = self.query_group.device
        groups = as_indices(tile.queries, device)
        # for each group of queries, its index among the queries of `tile`; -1 = `tile` does not have this group
        index_in_tile = torch.full((tile.grid.queries,), -1, device=device)
        index_in_tile[groups] = torch.arange(len(groups), device=device)
        group_index = index_in_tile[self.query_group]
        queries = (group_index >= 0).nonzero()[:, 0]
        whole = self.source.grid.whole()
        heads = whole.heads if self.averages_heads else tile.heads
        return group_index[queries], whole.part(tile.batch, heads, queries)

    def sum_by_group(
        self, numbers: Float[Tensor, "batch heads tokens keys"], group_index: Int[Tensor, " tokens"], tile: Tile
    ) -> Float[Tensor, "batch heads queries groups"]:
        """Return the sums of `numbers` over the tokens of each group of queries and of each group of keys in `tile`."""
        # tile.grid has the numbers of all groups, of queries and of keys
        by_key = numbers.new_zeros(*numbers.shape[:3], tile.grid.keys).index_add_(3, self.key_group, numbers)
        by_query = by_key.new_zeros(*by_key.shape[:2], len(tile.queries), tile.grid.keys).index_add_(
            2, group_index, by_key
        )
        return entries_at(by_query, 3, tile.keys)

    def __repr__(self) -> str:
        heads = f"heads={self.source.n_heads}, " if self.averages_heads else ""
        return f"MergedWeights({heads}queries={self.source.grid.queries}, keys={self.source.grid.keys})"


@dataclass(frozen=True, slots=True, repr=False)
class Identity(Normaliser):
    """A normaliser that returns the scores unchanged as weights; the weight of a masked key is 0."""

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        return masked_scores.masked_fill(masked_scores == -torch.inf, 0.0)


def merged_pattern(
    pattern: Pattern, queries: Sequence[Group], keys: Sequence[Group], averages_heads: bool = False
) -> Pattern:
    """Return a pattern in which each query and each key is a group of tokens of `pattern`; each token is in one group.

    `averages_heads`: whether the result has one head, whose weights are the mean over all heads.
    """
    device = pattern.device
    score = MergedWeights(pattern, group_of_token(queries, device), group_of_token(keys, device), averages_heads)
    n_heads = 1 if averages_heads else pattern.n_heads
    query, key = (  # only their shape and type are used
        torch.zeros(pattern.grid.batch, n_heads, len(groups), 1, dtype=pattern.dtype, device=device)
        for groups in (queries, keys)
    )
    return Pattern(Call.of(query, key, value=key, score=score, mask=None, normalise=Identity()))


def merged_steps(
    attended: Mapping[str, Mapping[int, Attended]], source: Sequence[Group], target: Sequence[Group]
) -> dict[str, dict[int, Attended]]:
    """Return copies of attention calls, by kind and layer, in which each query and each key is a group of tokens.

    `source` are the groups of the tokens that the encoder reads, `target` those of the decoder.
    """
    groups = {"source": source, "target": target}
    merged = {kind: dict(layers) for kind, layers in attended.items()}
    for kind, layers in merged.items():
        queries, keys = groups[SIDES[kind].queries], groups[SIDES[kind].keys]
        if any(len(group) > 1 for group in (*queries, *keys)):
            for layer, step in layers.items():
                layers[layer] = replace(step, pattern=merged_pattern(step.pattern, queries, keys))
    return merged


def average_head(pattern: Pattern) -> Pattern:
    queries, keys = map(single_tokens, pattern.shape[2:])
    return merged_pattern(pattern, queries, keys, averages_heads=True)


def single_tokens(n_tokens: int) -> tuple[range, ...]:
    """Return a group for each token, which has this token alone."""
    return tuple(range(position, position + 1) for position in range(n_tokens))


def group_of_token(groups: Sequence[Group], device: torch.device) -> Int[Tensor, " tokens"]:
    """Return, for each token, the index of its group; each token must be in one group."""
    indices = torch.empty(sum(map(len, groups)), dtype=torch.long, device=device)
    for index, group in enumerate(groups):
        indices[list(group)] = index
    return indices
