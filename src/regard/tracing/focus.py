"""What to look at first: one token and one head, as asked for, or the most telling ones.

A look is telling when a token looks far, and at a key that the head's other tokens do not look at:

    telling = (weight - mean weight that the key gets in this head) · distance in tokens

Only a look at another token counts, and only one with a weight: behind a mask there is none.
Tokens that the tokenizer added ([CLS] and the like) neither look nor are looked at here: heads with nothing to do
rest on them (Clark et al. 2019, section 3.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import InputError
from regard.tracing.head import Head, Place, find
from regard.tracing.tokens import Token
from regard.tracing.trace import Trace, no_layer

WEIGHTS_AT_ONCE = 2**20
"""Weights gone through at one time."""


@dataclass(frozen=True, slots=True, eq=False)
class Focus:
    """One token of one head."""

    head: Head
    query: int

    @property
    def token(self) -> Token:
        """The token that looks."""
        return self.head.queries[self.query]

    @property
    def weights(self) -> list[float]:
        """How strongly it looks at each key."""
        return self.head.row(self.query).tolist()


@torch.no_grad()
def focus_on(trace: Trace, token: Place | None = None, head: str | None = None, layer: int | None = None) -> Focus:
    """The token and the head to look at; what is not given is chosen to be telling.

    Args:
        head: its name, "L3H1", or "encoder L3H1" for a kind other than the last that there is.
        layer: choose among the heads of this layer.

    Raises:
        InputError: a token, head or layer that is not there, with the nearest that is.
    """
    kind = trace.kinds[-1]
    heads = [trace[head if len(head.split()) > 1 else f"{kind} {head}"]] if head else trace.heads(kind)
    if layer is not None:
        layers = {candidate.layer for candidate in heads}
        if layer not in layers:
            if head:
                raise InputError(f"no layer {layer} to look at: head {head} is in layer {heads[0].layer}.")
            raise no_layer(layer, layers, "look at")
        heads = [candidate for candidate in heads if candidate.layer == layer]
    query = None if token is None else find(token, heads[0].queries)
    if head and query is not None:
        return Focus(heads[0], query)
    return max((most_telling(layer_heads, query) for layer_heads in by_layer(heads)), key=lambda found: found[0])[1]


def by_layer(heads: Sequence[Head]) -> list[list[Head]]:
    """Heads in groups that share a pattern."""
    groups: dict[int, list[Head]] = {}
    for head in heads:
        groups.setdefault(head.layer, []).append(head)
    return list(groups.values())


def most_telling(heads: Sequence[Head], query: int | None) -> tuple[float, Focus]:
    """The most telling look of some heads of one layer, and how telling it is; of one query, if it is given."""
    pattern, first = heads[0].pattern, heads[0]
    chosen, device = [head.head for head in heads], pattern.device
    n_queries = pattern.shape[2]
    usual = pattern.received()[0][chosen] / n_queries
    looking, seen = ordinary(first.queries).to(device), ordinary(first.keys).to(device)
    best = (-torch.inf, Focus(first, int(looking.nonzero()[0]) if query is None else query))
    queries, keys = (torch.arange(n, device=device) for n in (n_queries, pattern.shape[3]))
    wanted = queries if query is None else queries[[query]]
    for part in torch.split(wanted, max(1, WEIGHTS_AT_ONCE // max(1, len(chosen) * pattern.shape[3]))):
        weights = torch.stack([pattern[0, head, part.tolist()] for head in chosen])
        counted = looking[part, None] & seen
        if first.kind != "cross":
            counted &= part[:, None] != keys
        distance = (part[:, None] - keys).abs()
        scores = telling(weights, usual, distance, counted)
        value, place = scores.flatten().max(dim=0)
        head, row, _ = torch.unravel_index(place, scores.shape)
        if float(value) > best[0]:
            best = (float(value), Focus(heads[int(head)], int(part[row])))
    return best


def telling(
    weights: Float[Tensor, "heads queries keys"],
    usual: Float[Tensor, "heads keys"],
    distance: Int[Tensor, "queries keys"],
    counted: Bool[Tensor, "queries keys"],
) -> Float[Tensor, "heads queries keys"]:
    """How telling each look is; -∞ where it does not count, and where there is none: its weight is 0."""
    scores = (weights - usual[:, None]) * distance
    return scores.masked_fill(~counted | (weights == 0), -torch.inf)


def ordinary(tokens: Sequence[Token]) -> Bool[Tensor, " tokens"]:
    """Which tokens are the text's own words; where none is, all."""
    letters = [not token.special and any(map(str.isalnum, token.text)) for token in tokens]
    words = torch.tensor(letters, dtype=torch.bool, device="cpu")
    return words if bool(words.any()) else torch.ones_like(words)


@torch.no_grad()
def sharpest(heads: Sequence[Head], query: int) -> list[tuple[Head, int, float]]:
    """For each head, the word that a token looks at most besides itself, and the weight; strongest first.

    Heads in which it looks at no other word are left out.
    """
    found = []
    for group in by_layer(heads):
        rows = group[0].pattern[0, :, query]
        seen = ordinary(group[0].keys).to(rows.device)
        if group[0].kind != "cross":
            seen = seen & (torch.arange(len(seen), device=rows.device) != query)
        weights, keys = rows.masked_fill(~seen, 0.0).max(dim=-1)
        found += [(head, int(keys[head.head]), float(weights[head.head])) for head in group]
    return sorted((look for look in found if look[2] != 0), key=lambda look: -look[2])
