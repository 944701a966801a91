"""Attention of a recurrent decoder's states (queries) to an encoder's states (keys and values).

    e_i = score(s, h_i)          α = softmax(e)          a = Σ_i α_i h_i

The config chooses the score, and one of four kinds of attention:

    soft       weights on all positions of the source
    hard       all weight on the position with the largest score; gradients as in soft attention (straight-through)
    local_m    soft, but only on the source positions from t - reach to t + reach, for target token t
    local_p    soft, but only around a predicted source position, times a Gaussian centred on this position

Source: Luong, Pham & Manning 2015, section 3; hard: Xu et al. 2015, section 4.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.call import Call
from regard.attention.masks import Mask, Padding, Window
from regard.attention.normalise.hard import Hard, StraightThrough
from regard.attention.normalise.local import Local, PredictedCentre
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.additive import Additive
from regard.attention.scores.concat import Concat
from regard.attention.scores.cosine import SWIN_SCALE, Cosine
from regard.attention.scores.dot import Dot, ScaledDot
from regard.attention.scores.general import General
from regard.attention.scores.location import Location
from regard.attention.scores.location_aware import LocationAware
from regard.attention.scores.prepared import Preparable, Prepared
from regard.attention.scores.score import Score
from regard.recurrent.config import RecurrentConfig, ScoreName

SCORES: Mapping[ScoreName, Callable[[int, int], Score]] = {
    "dot": lambda width, max_tokens: Dot(),
    "scaled_dot": lambda width, max_tokens: ScaledDot(),
    "general": lambda width, max_tokens: General(width, width),
    "additive": lambda width, max_tokens: Additive(width, width, width),
    "concat": lambda width, max_tokens: Concat(width, width, width),
    "cosine": lambda width, max_tokens: Cosine(nn.Parameter(torch.full((1,), SWIN_SCALE))),
    "location": lambda width, max_tokens: Location(width, max_tokens),
    "location_aware": lambda width, max_tokens: LocationAware(width, width, width),
}
"""For each name of a score in the config, a function (d_model, max_tokens) → score."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """The encoded sources that a decoder attends to.

    Attributes:
        states: h, the encoder's states, one for each token; attention uses them as values.
        keys: the attention keys: the states, or their projection if the score projects keys.
        lengths: the number of tokens of each source before its padding.
    """

    states: Float[Tensor, "batch source d_model"]
    keys: Float[Tensor, "batch source d_key"]
    lengths: Int[Tensor, " batch"]

    def select(self, rows: Int[Tensor, " rows"]) -> "Memory":
        """Return the encoded sources with the indices `rows`; an index may be repeated."""
        states = self.states.index_select(0, rows)
        keys = states if self.keys is self.states else self.keys.index_select(0, rows)
        return Memory(states=states, keys=keys, lengths=self.lengths.index_select(0, rows))


class SourceAttention(nn.Module):
    """Attention, with one head, of a decoder's states to an encoder's states."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.attention, self.reach = config.attention, config.reach
        self.score = SCORES[config.score](config.d_model, config.max_tokens)
        self.centre = PredictedCentre(config.d_model) if config.attention == "local_p" else None

    @property
    def is_location_aware(self) -> bool:
        """Whether the scores of a decoder step depend on the attention weights of the previous step."""
        return isinstance(self.score, LocationAware)

    def prepare(self, states: Float[Tensor, "batch source d_model"], lengths: Int[Tensor, " batch"]) -> Memory:
        keys = states
        if isinstance(self.score, Preparable):
            keys = self.score.prepare(states[:, None])[:, 0]  # the second axis of a score's tensors is for heads: one
        return Memory(states=states, keys=keys.to(states), lengths=lengths)  # autocast may change the keys' type

    def forward(
        self,
        queries: Float[Tensor, "batch target d_model"],
        memory: Memory,
        *,
        first: int,
        previous: Float[Tensor, "batch target source"] | None = None,
    ) -> Attended:
        """Return the context vectors of decoder states, and their attention weights on the source as a `Pattern`.

        Args:
            first: the position of the first query in the target, counted from 0.
            previous: for each query, the weights of the previous decoder step; None = 0. Only the score
                "location_aware" uses them.
        """
        return attend(**self.arguments(queries, memory, first, previous))

    def pattern(
        self,
        queries: Float[Tensor, "batch target d_model"],
        memory: Memory,
        *,
        first: int,
        previous: Float[Tensor, "batch target source"] | None = None,
    ) -> Pattern:
        """Return the attention weights that `forward` returns for the same arguments, without the context vectors."""
        return Pattern(Call.of(**self.arguments(queries, memory, first, previous)))

    def arguments(self, queries: Tensor, memory: Memory, first: int, previous: Tensor | None) -> dict[str, Any]:
        """Return the keyword arguments with which `forward` calls `regard.attend`."""
        query, score = queries[:, None].to(memory.states), self.score
        mask: Mask = Padding(memory.lengths)
        normalise: Normaliser = Softmax()
        if isinstance(score, LocationAware) and previous is not None:
            score = score.after(previous[:, None])
        if isinstance(score, Preparable):
            score = Prepared(score)  # the keys in `memory` are projected already
        if self.attention == "local_m":
            mask = mask & Window(before=self.reach, after=self.reach, offset=first)
        elif self.attention == "hard":
            normalise = Hard(StraightThrough())
        elif self.centre is not None:
            normalise = Local(self.centre(query, memory.lengths), float(self.reach))
        key, value = memory.keys[:, None], memory.states[:, None]
        return {"query": query, "key": key, "value": value, "score": score, "mask": mask, "normalise": normalise}
