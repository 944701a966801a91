"""The interface of a model that regard can train, translate with and look into.

`Transformer` and `Recurrent` have it, and so may any module of your own: a search calls nothing else. A model decodes
either step by step (`start`, then `step` after `step`) or all at once (a call), and gives the same logits however the
target is divided into steps.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.pattern import Pattern


@runtime_checkable
class ModelSizes(Protocol):
    """The sizes in a model's config that a search reads."""

    @property
    def n_source_tokens(self) -> int:
        """Size of the source vocabulary."""

    @property
    def n_target_tokens(self) -> int:
        """Size of the target vocabulary."""

    @property
    def max_tokens(self) -> int:
        """Largest length of a source with its EOS, and of a target with its BOS."""


@runtime_checkable
class DecoderState(Protocol):
    """The state of a decoder between two steps; a value that no step changes."""

    @property
    def n_tokens(self) -> int:
        """Number of target tokens read so far."""

    def select(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """Return the state of some rows of the batch, in the order of `rows`; a row may come several times."""


@runtime_checkable
class DecoderStep(Protocol):
    """The result of reading new target tokens: the logits of what follows, the attention, and the new state."""

    @property
    def logits(self) -> Float[Tensor, "batch new vocabulary"]:
        """Logits of the token after each new token."""

    @property
    def state(self) -> Any:
        """The `DecoderState` that the next step takes."""

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """Attention of the new tokens over the source, layer by layer.

        Adjacent rows that share a source may be one item of a pattern's batch, with their tokens row after row.
        """


@runtime_checkable
class ForcedDecoding(Protocol):
    """The result of reading sources and whole targets in one pass, with the attention of every layer."""

    @property
    def logits(self) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of the token after each target token."""

    @property
    def encoder(self) -> tuple[Pattern, ...]:
        """Attention of source tokens over source tokens."""

    @property
    def decoder(self) -> tuple[Pattern, ...]:
        """Attention of target tokens over target tokens."""

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """Attention of target tokens over source tokens."""


@runtime_checkable
class TranslatingModel(Protocol):
    """A module that reads a source and writes a target, all at once or step by step."""

    @property
    def config(self) -> ModelSizes:
        """The settings from which the model is built."""

    def __call__(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> ForcedDecoding:
        """Read sources and whole targets, BOS first, padded on the right; `lengths` are the lengths of the sources."""

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> DecoderState:
        """Read the sources once; return the state before the first target token."""

    def step(self, tokens: Int[Tensor, "batch new"], state: Any) -> DecoderStep:
        """Read the next target tokens of each row, BOS first, from a state that this model returned."""
