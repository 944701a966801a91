"""Chooses the query token and the head that a view shows: the user's choice, or those of the most salient weight.

A weight is salient if its key is far from the query, and if other queries of the head put less weight on the key:

    salience = (weight - mean weight of the key over the head's queries) · log(1 + distance²)

where distance = |query position - key position|. The logarithm lets a large weight on a near word win against a small
one on the most distant word. `salientQuery` in front/src/site/salient-query.ts computes the same.

Three kinds of weights are not considered: weights of 0, the weight of a token on itself, and weights whose query or key
is punctuation or a special token such as [SEP]. A head puts its weight on such keys if no other token matters to it
(Clark et al. 2019, section 3.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.errors import InputError
from regard.tracing.head import Head
from regard.tracing.patterns_by_layer import missing_layer_error
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import TokenReference, query_position
from regard.tracing.tokens.words import is_word
from regard.tracing.trace import Trace

WEIGHTS_AT_ONCE = 2**20
"""The most weights that `most_salient` computes at one time, to save memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Focus:
    """A head, and the position of one of its queries."""

    head: Head
    query: int

    @property
    def token(self) -> Token:
        return self.head.queries[self.query]

    @property
    def weights(self) -> list[float]:
        return self.head.row(self.query).tolist()


@torch.no_grad()
def focus_on(
    trace: Trace, token: TokenReference | None = None, head: str | None = None, layer: int | None = None
) -> Focus:
    """Return the query token and the head that a view shows: those given, or else those of the most salient weight.

    A salient weight is a large weight on a distant token. `head` is a name such as "L3H1" or "encoder L3H1"; a head
    without a kind is of the last kind in `trace.kinds`. `layer` is the layer that the head must be in; None = any.
    """
    kind = trace.kinds[-1]
    heads = trace.heads(kind)
    if head:
        has_kind = len(head.split()) > 1
        heads = [trace[head if has_kind else f"{kind} {head}"]]
    if layer is not None:
        layers = {candidate.layer for candidate in heads}
        if layer not in layers:
            if head:
                raise InputError(f"no layer {layer} to look at: head {head} is in layer {heads[0].layer}.")
            raise missing_layer_error(layer, layers, "look at")
        heads = [candidate for candidate in heads if candidate.layer == layer]
    query = None if token is None else query_position(token, heads[0].queries, heads[0].keys)
    if head and query is not None:
        return Focus(heads[0], query)
    best_of_each_layer = [most_salient(layer_heads, query) for layer_heads in group_by_layer(heads)]
    _, focus = max(best_of_each_layer, key=lambda best: best[0])
    return focus


def group_by_layer(heads: Sequence[Head]) -> list[list[Head]]:
    return [list(group) for _, group in groupby(heads, key=attrgetter("layer"))]


def most_salient(heads: Sequence[Head], query: int | None) -> tuple[float, Focus]:
    """Return the salience, and the head and query, of the most salient weight in successive heads of a layer.

    If no word has a weight above 0 on another word, return -inf, the first head, and `query` or the first word.
    `query` is the only query to consider; None = consider all queries.
    """
    pattern, device = heads[0].pattern, heads[0].pattern.device
    _, _, n_queries, n_keys = pattern.shape
    numbers = slice(heads[0].number, heads[-1].number + 1)
    mean_weight = pattern.received()[0, numbers] / n_queries  # over the queries of the only batch item: [heads keys]
    query_is_word, key_is_word = is_whole_word(heads[0].queries).to(device), is_word(heads[0].keys).to(device)
    first_query = int(query_is_word.nonzero()[0]) if query is None else query
    best, focus = -torch.inf, Focus(heads[0], first_query)
    queries, keys = torch.arange(n_queries, device=device), torch.arange(n_keys, device=device)
    candidates = queries if query is None else queries[[query]]
    queries_at_once = max(1, WEIGHTS_AT_ONCE // max(1, len(heads) * n_keys))
    for chunk in torch.split(candidates, queries_at_once):
        weights = pattern[0, numbers, chunk.tolist()]  # [heads chunk keys]
        eligible = query_is_word[chunk, None] & key_is_word & (weights != 0)
        if (
            heads[0].kind != "cross"
        ):  # a token's weight on itself does not count; in cross-attention, keys are of another text
            eligible &= chunk[:, None] != keys
        distance = chunk[:, None] - keys
        salience = (weights - mean_weight[:, None]) * torch.log1p(distance**2)
        salience = salience.masked_fill(~eligible, -torch.inf)
        if float(salience.max()) > best:
            best = float(salience.max())
            head, row, _ = torch.unravel_index(salience.argmax(), salience.shape)
            focus = Focus(heads[int(head)], int(chunk[row]))
    return best, focus


def is_whole_word(tokens: Sequence[Token]) -> Bool[Tensor, " tokens"]:
    """Return, for each token, whether it is a whole word, so that a view may show it first.

    A byte such as ‹EB› is no whole word, nor is a single ASCII letter joined to the token before, such as the "s" of
    "he's". If there is no whole word, every token with a letter or digit counts.
    """
    words = is_word(tokens)
    fragments = [
        token.text.startswith("‹") or (token.joined and len(token.text) == 1 and token.text.isascii())
        for token in tokens
    ]
    whole = words & ~torch.tensor(fragments, dtype=torch.bool, device="cpu")
    return whole if bool(whole.any()) else words


@torch.no_grad()
def strongest_other_words(heads: Sequence[Head], query: int) -> list[tuple[Head, int, float]]:
    """Return, for each head, the word to which a query attends most, other than the query itself.

    The tuples (head, key position, weight) are in descending order of the weight. A head is left out if its weights on
    all other words are 0. In cross-attention, all words of the source are considered.
    """
    strongest = []
    for layer_heads in group_by_layer(heads):
        rows = layer_heads[0].pattern[0, :, query]  # of all heads: `pattern` is that of the layer
        eligible = is_word(layer_heads[0].keys).to(rows.device)
        if layer_heads[0].kind != "cross":
            eligible = eligible & (torch.arange(len(eligible), device=rows.device) != query)
        weights, keys = rows.masked_fill(~eligible, 0.0).max(dim=-1)
        strongest += [(head, int(keys[head.number]), float(weights[head.number])) for head in layer_heads]
    with_weight = [(head, key, weight) for head, key, weight in strongest if weight != 0]
    return sorted(with_weight, key=lambda item: -item[2])
