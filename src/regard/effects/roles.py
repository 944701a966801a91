"""Roles of heads: the weight that a head puts on certain keys, such as the previous token or the first token.

    previous, next, same    the token before the query, the token after it, the query's own token
    first                   the first token of the text, an attention sink in many models (Xiao et al. 2024)
    separator               special tokens, such as [SEP]
    duplicate               other tokens with the same text as the query
    induction               other tokens just after an earlier token with the query's text (Olsson et al. 2022)
    distance                the mean distance to the keys, in tokens
    entropy                 the entropy of the weights, in nats

The value of a role such as "previous" is the summed weight of a query on the keys of this role, averaged over the
queries that may attend to such a key. The values of "distance" and "entropy" are averaged over all queries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.effects.distance import query_blocks

KEY_ROLES = ("previous", "next", "same", "first", "separator", "duplicate", "induction")
"""The roles whose value is the weight that a head puts on certain keys, such as the previous token; from 0 to 1."""

ROLES = (*KEY_ROLES, "distance", "entropy")
"""Names of numbers that describe a head: its weight on certain keys, its mean distance to keys, and its entropy."""


@dataclass(frozen=True, slots=True, eq=False)
class RoleSums:
    """How much each head attends to keys of each role, such as the previous token; the sums of two texts can be added.

    Attributes:
        sums: for each role and head, the sum over queries of the weight on the keys of the role; for the roles
            "distance" and "entropy", the sum over queries of the mean distance to the keys, or of the weights' entropy.
        n_queries: for each role and head, the number of queries that may attend to a key of the role; for "distance"
            and "entropy", the number of all queries.
    """

    sums: Float[Tensor, "roles heads"]
    n_queries: Int[Tensor, "roles heads"]

    def __add__(self, other: "RoleSums") -> "RoleSums":
        return RoleSums(self.sums + other.sums, self.n_queries + other.n_queries)

    def means(self) -> Float[Tensor, "roles heads"]:
        """Return the sums divided by the numbers of queries; NaN for a role that no key has."""
        return self.sums / self.n_queries


def role_sums(pattern: Pattern, texts: Sequence[str], special: Sequence[bool]) -> RoleSums:
    """Return how much each head attends to keys of each role, such as the previous token; `pattern` is of one text.

    `texts` are the texts of its tokens; `special` is True for each special token, such as [SEP].
    """
    sums = torch.zeros(len(ROLES), pattern.n_heads, dtype=torch.float64)
    n_queries = torch.zeros(len(ROLES), pattern.n_heads, dtype=torch.long)
    tokens = token_numbers(texts)
    separators = torch.tensor(special, dtype=torch.bool)
    positions = torch.arange(len(tokens))
    with torch.no_grad():
        for queries in query_blocks(pattern):
            weights = pattern[0, :, queries].double().cpu()
            query_positions = positions[queries]
            masks = torch.stack(list(key_roles(tokens, separators, query_positions)))
            sums[: len(masks)] += torch.einsum("hqk,rqk->rh", weights, masks.double())
            visible = visible_keys(pattern, queries)
            n_queries[: len(masks)] += torch.stack([(mask & visible).any(dim=-1).sum(dim=-1) for mask in masks])
            distances = (query_positions[:, None] - positions).abs().double()
            sums[-2] += torch.einsum("hqk,qk->h", weights, distances)  # the role "distance"; sums[-1] is "entropy"
            sums[-1] -= torch.xlogy(weights, weights).sum(dim=(1, 2))
            n_queries[-2:] += len(query_positions)
    return RoleSums(sums, n_queries)


def visible_keys(pattern: Pattern, queries: slice) -> Bool[Tensor, "#heads queries #keys"]:
    """Return to which keys some queries of a pattern of one text may attend in each head."""
    tile = pattern.grid.whole().part(queries=range(pattern.grid.queries)[queries])
    keep = pattern.keep(tile)
    return torch.ones(1, len(tile.queries), 1, dtype=torch.bool) if keep is None else keep[0].cpu()


def key_roles(
    tokens: Int[Tensor, " keys"], separators: Bool[Tensor, " keys"], queries: Int[Tensor, " queries"]
) -> Iterator[Bool[Tensor, "queries keys"]]:
    """Yield, for each role such as "previous", a matrix that is True where a key has this role for a query.

    The roles are in the order of `KEY_ROLES`. Tokens with the same text have the same number in `tokens`; `separators`
    is True for special tokens; `queries` are positions.
    """
    keys, query = torch.arange(len(tokens)), queries[:, None]
    yield keys == query - 1
    yield keys == query + 1
    yield keys == query
    yield (keys == 0).expand(len(queries), -1)
    yield separators.expand(len(queries), -1)
    same_text = tokens == tokens[queries][:, None]
    yield same_text & (keys != query)
    earlier = same_text & (keys < query)
    after_earlier = torch.nn.functional.pad(earlier, (1, 0))[:, :-1]  # the key after each of the earlier keys
    yield after_earlier & (keys != query)  # which may be the query's own token: that is no induction


def token_numbers(texts: Sequence[str]) -> Int[Tensor, " tokens"]:
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(text, len(numbers)) for text in texts], dtype=torch.long)
