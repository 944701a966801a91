"""How a decoder reads the source: its score, its mask and its normaliser, by the names of the config.

    e_i = score(s, h_i)          α = softmax(e)          a = Σ α_i h_i

    soft       all of the source, in shares
    hard       one place, the best; its gradient is that of soft attention (straight through)
    local_m    soft, in the window of `reach` tokens around the target token's own place
    local_p    soft, in such a window around a predicted place, and less the further away

Source: Luong, Pham & Manning 2015, section 3; hard: Xu et al. 2015, section 4.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attended, attend, pattern_of
from regard.attention.masks import Mask, Padding, Window
from regard.attention.normalise.hard import Hard, StraightThrough
from regard.attention.normalise.local import Local, PredictedCentre
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.additive import Additive
from regard.attention.scores.concat import Concat
from regard.attention.scores.cosine import Cosine
from regard.attention.scores.dot import Dot, ScaledDot
from regard.attention.scores.general import General
from regard.attention.scores.location import Location
from regard.attention.scores.location_aware import LocationAware
from regard.attention.scores.prepared import Preparable, Prepared
from regard.attention.scores.score import Score
from regard.recurrent.config import RecurrentConfig, ScoreName

COSINE_SCALE = 10.0
"""How far cosines, which lie between -1 and 1, are spread at first, so that a softmax can tell them apart."""

SCORES: Mapping[ScoreName, Callable[[int, int], Score]] = {
    "dot": lambda width, places: Dot(),
    "scaled_dot": lambda width, places: ScaledDot(),
    "general": lambda width, places: General(width, width),
    "additive": lambda width, places: Additive(width, width, width),
    "concat": lambda width, places: Concat(width, width, width),
    "cosine": lambda width, places: Cosine(nn.Parameter(torch.full((1,), COSINE_SCALE))),
    "location": lambda width, places: Location(width, places),
    "location_aware": lambda width, places: LocationAware(width, width, width),
}
"""A score for states of a width and texts of at most so many places."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """A source that is ready to be read.

    Attributes:
        states: the encoder's, one for each token.
        keys: what a decoder's states are matched with: the same, or projected once where the score allows.
        lengths: how many tokens of each source are no padding.
    """

    states: Float[Tensor, "batch source d_model"]
    keys: Float[Tensor, "batch source d_key"]
    lengths: Int[Tensor, " batch"]

    def select(self, rows: Int[Tensor, " rows"]) -> "Memory":
        """The sources of some rows of the batch, in the order asked for; a row may come several times."""
        states = self.states.index_select(0, rows)
        keys = states if self.keys is self.states else self.keys.index_select(0, rows)
        return Memory(states=states, keys=keys, lengths=self.lengths.index_select(0, rows))


class Reader(nn.Module):
    """Attention of a decoder's states over an encoder's."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.attention, self.reach = config.attention, config.reach
        self.score = SCORES[config.score](config.d_model, config.max_tokens)
        self.centre = PredictedCentre(config.d_model) if config.attention == "local_p" else None

    @property
    def looks_back(self) -> bool:
        """Whether where a state looks depends on where the one before it did."""
        return isinstance(self.score, LocationAware)

    def prepare(self, states: Float[Tensor, "batch source d_model"], lengths: Int[Tensor, " batch"]) -> Memory:
        """Make a source ready to be read."""
        keys = self.score.prepare(states[:, None])[:, 0] if isinstance(self.score, Preparable) else states
        return Memory(states=states, keys=keys.to(states), lengths=lengths)  # autocast may have rounded them

    def forward(
        self,
        queries: Float[Tensor, "batch target d_model"],
        memory: Memory,
        *,
        first: int,
        before: Float[Tensor, "batch target source"] | None = None,
    ) -> Attended:
        """What states of the decoder read.

        Args:
            first: how many tokens of the target come before these.
            before: for each state, the weights of the one before it; for a score that looks back.
        """
        return attend(**self.arguments(queries, memory, first, before))

    def pattern(
        self,
        queries: Float[Tensor, "batch target d_model"],
        memory: Memory,
        *,
        first: int,
        before: Float[Tensor, "batch target source"] | None = None,
    ) -> Pattern:
        """Where states of the decoder look; nothing is computed until you look at it."""
        return pattern_of(**self.arguments(queries, memory, first, before))

    def arguments(self, queries: Tensor, memory: Memory, first: int, before: Tensor | None) -> dict[str, Any]:
        """The arguments of `attend`, with one head."""
        query = queries[:, None].to(memory.states)
        mask: Mask = Padding(memory.lengths)
        return {
            "query": query,
            "key": memory.keys[:, None],
            "value": memory.states[:, None],
            "score": self.at(before),
            "mask": mask & Window(self.reach, self.reach, first) if self.attention == "local_m" else mask,
            "normalise": self.normalise(query, memory),
        }

    def at(self, before: Float[Tensor, "batch target source"] | None) -> Score:
        """The score of states, whose keys are prepared, after such weights."""
        score = self.score
        if isinstance(score, LocationAware) and before is not None:
            return Prepared(score.after(before[:, None]))
        return Prepared(score) if isinstance(score, Preparable) else score

    def normalise(self, query: Float[Tensor, "batch 1 target d_model"], memory: Memory) -> Normaliser:
        """How scores become weights."""
        if self.centre is not None:
            return Local(self.centre(query, memory.lengths), float(self.reach))
        return Hard(StraightThrough()) if self.attention == "hard" else Softmax()
