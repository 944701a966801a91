"""The interface of an encoder-decoder model that can translate, which `Transformer` and `Recurrent` implement.

A module of your own that implements the interface can translate too: the search algorithms use nothing else of a model.
A model reads a target either all at once (`model(source, lengths, target)`) or in steps (`start`, then `step` once or
more). Both ways must give the same logits, however many tokens each step reads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.pattern import Pattern


@runtime_checkable
class ModelSizes(Protocol):
    """The fields of a model's config that the translator needs."""

    @property
    def n_source_tokens(self) -> int:
        """Size of the source vocabulary."""

    @property
    def n_target_tokens(self) -> int:
        """Size of the target vocabulary."""

    @property
    def max_tokens(self) -> int:
        """Largest number of tokens of a source, EOS counted, and of a target, BOS counted."""


@runtime_checkable
class DecoderState(Protocol):
    """The state of a decoder between two steps; a step returns a new state and leaves the old one unchanged."""

    @property
    def n_tokens(self) -> int:
        """Number of target tokens that the decoder has read so far."""

    def select(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """Return the decoder state of the batch's rows with the indices `rows`, in this order; indices may repeat."""


@runtime_checkable
class DecoderStep(Protocol):
    """The output of a decoder for one or more new target tokens of each row of the batch."""

    @property
    def logits(self) -> Float[Tensor, "batch new vocabulary"]:
        """For each new token, the logits of the token that follows it."""

    @property
    def state(self) -> Any:
        """The new `DecoderState`, the input of the next step; Any, so that each model may name its own class."""

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """The cross-attention weights of the new target tokens on the source tokens: a `Pattern` for each layer.

        In a search, a source has several hypotheses, in adjacent rows of the batch, equally many for each source. A
        pattern is either [rows heads new source] or [sources heads rows_per_source·new source]: then the queries of a
        source are the new tokens of its first row, then of its second row, and so on.
        """


@runtime_checkable
class ForcedDecoding(Protocol):
    """The output of a model that has read whole targets with their sources in one call, not token by token."""

    @property
    def logits(self) -> Float[Tensor, "batch target vocabulary"]:
        """For each target token, BOS included, the logits of the token that follows it."""

    @property
    def encoder(self) -> tuple[Pattern, ...]:
        """Self-attention weights of the source tokens: a `Pattern` for each layer; () = the model has none."""

    @property
    def decoder(self) -> tuple[Pattern, ...]:
        """Self-attention weights of the target tokens: a `Pattern` for each layer; () = the model has none."""

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """Cross-attention weights of the target tokens on the source tokens: a `Pattern` for each layer."""


@runtime_checkable
class TranslatingModel(Protocol):
    """An encoder-decoder model that predicts the next target token from the source and the target tokens before it."""

    @property
    def config(self) -> ModelSizes:
        """The settings from which the model is built."""

    def __call__(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"], target: Int[Tensor, "batch target"]
    ) -> ForcedDecoding:
        """Read sources and whole targets in one call.

        Args:
            source: token ids, EOS last, padded on the right.
            lengths: the number of tokens of each source before its padding.
            target: token ids, BOS first, padded on the right.
        """

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> DecoderState:
        """Read sources, given as in `__call__`; return the decoder's state before the first target token."""

    def step(self, tokens: Int[Tensor, "batch new"], state: Any) -> DecoderStep:
        """Read the next target tokens of each row of the batch, usually one token.

        Args:
            tokens: token ids; the very first token of a target is BOS.
            state: the state that `start` or the previous step returned.
        """


@contextmanager
def evaluation_mode(model: TranslatingModel) -> Iterator[None]:
    """Turn dropout off in a model, and at the end restore the mode of each of its modules."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    in_training = [module for module in modules if module.training]
    for module in in_training:
        module.training = False
    try:
        yield
    finally:
        for module in in_training:
            module.training = True
