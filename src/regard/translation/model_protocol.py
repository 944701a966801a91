"""What a model must offer so that regard can train it, translate with it and show where it looks.

Both `Transformer` and `Recurrent` do, and any module of your own with the same methods may: the search asks for nothing
else. Step by step (`start`, then `step` after `step`) and all at once (a call) a model must give the same
logits, however the target is split into steps.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.pattern import Pattern


@runtime_checkable
class ModelSizes(Protocol):
    """What the search must know of a model's config."""

    @property
    def n_source_tokens(self) -> int:
        """Size of the source vocabulary."""

    @property
    def n_target_tokens(self) -> int:
        """Size of the target vocabulary."""

    @property
    def max_tokens(self) -> int:
        """The longest source, its EOS counted, and the longest target, its BOS counted."""


@runtime_checkable
class DecoderState(Protocol):
    """What a decoder knows between two steps; a value, which no step changes."""

    @property
    def n_tokens(self) -> int:
        """How many target tokens have been read."""

    def select(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """The state of some rows of the batch, in the order asked for; a row may come several times."""


@runtime_checkable
class DecoderStep(Protocol):
    """What a model expects after each of the tokens it was just given, and where those looked in the source."""

    @property
    def logits(self) -> Float[Tensor, "batch new vocabulary"]:
        """Scores of what comes after each new token."""

    @property
    def state(self) -> Any:
        """The `DecoderState` that the next step takes."""

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """Where the new tokens looked in the source, layer by layer.

        Rows side by side that share a source may be one item of its batch, their tokens row after row.
        """


@runtime_checkable
class ForcedDecoding(Protocol):
    """What a model expects after each token of a whole target, and how it looked, layer by layer."""

    @property
    def logits(self) -> Float[Tensor, "batch target vocabulary"]:
        """Scores of what comes after each token."""

    @property
    def encoder(self) -> tuple[Pattern, ...]:
        """Which source tokens looked at which."""

    @property
    def decoder(self) -> tuple[Pattern, ...]:
        """Which target tokens looked at which."""

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """Which target tokens looked at which source tokens."""


@runtime_checkable
class TranslatingModel(Protocol):
    """A module that reads a source and writes a target, all at once or step by step."""

    @property
    def config(self) -> ModelSizes:
        """What it is built from."""

    def __call__(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> ForcedDecoding:
        """Read sources and whole targets, BOS first, both padded on the right; `lengths` are the sources' own."""

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> DecoderState:
        """Read the sources once: what is known before the first target token."""

    def step(self, tokens: Int[Tensor, "batch new"], state: Any) -> DecoderStep:
        """Read the next target tokens of each row, BOS first; the state is one that this model gave."""
