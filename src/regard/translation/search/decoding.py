"""The hypotheses of a search as rows of a batch, to which a model's own steps, or C kernels, add token after token.

A hypothesis is the beginning of a translation: the tokens that the search has chosen so far.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.precision import widest_type
from regard.text.vocabulary import BOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.interface import SourceBatch
from regard.translation.search.next_token import log_softmax


@runtime_checkable
class Decoding(Protocol):
    """The hypotheses of a search, one in each row of a batch. The model reads one more token for each by `read`."""

    @property
    def logits(self) -> Float[Tensor, "rows vocabulary"]:
        """For each hypothesis, the logits of its next token."""

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """For each layer, the cross-attention weights of the newest token of each hypothesis."""

    def read(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        """Make new hypotheses: each is one of the present hypotheses (its parent) and one more token.

        Args:
            tokens: for each new hypothesis, its new token.
            parents: for each new hypothesis, the row of its parent; a parent may occur several times or not at all.
                Before the first call there is one row for each source.
        """


class SteppedDecoding:
    """A `Decoding` that calls a model's `start` and `step`; it begins with one hypothesis for each source, just BOS."""

    def __init__(self, model: TranslatingModel, sources: SourceBatch) -> None:
        self.model = model
        bos_tokens = torch.full_like(sources.lengths, BOS)[:, None]
        self.last_step = model.step(bos_tokens, model.start(sources.source, sources.lengths))

    @property
    def logits(self) -> Float[Tensor, "rows vocabulary"]:
        return self.last_step.logits[:, -1]

    @property
    def cross(self) -> tuple[Pattern, ...]:
        return self.last_step.cross

    def read(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        state = self.last_step.state
        device = self.logits.device
        if list(parents) != list(range(len(self.logits))):
            state = state.select(torch.tensor(parents, device=device))
        self.last_step = self.model.step(torch.tensor(tokens, device=device)[:, None], state)


def start_decoding(model: TranslatingModel, sources: SourceBatch, n_hypotheses: int = 1) -> Decoding:
    """Start decoding with one hypothesis, BOS, for each source; each source may later have up to `n_hypotheses`."""
    n_sources = len(sources.limits)
    if hasattr(model, "compiled_decoding"):  # this optional method returns None if C kernels cannot run the model
        sizes = {"most_rows": n_hypotheses * n_sources, "most_tokens": max(sources.limits) + 1}  # one token is BOS
        compiled: Decoding | None = model.compiled_decoding(sources.source, sources.lengths, **sizes)
        if compiled is not None:
            compiled.read([BOS] * n_sources, range(n_sources))  # `SteppedDecoding` reads BOS itself
            return compiled
    return SteppedDecoding(model, sources)


def read_prefixes(decoding: Decoding, sources: SourceBatch) -> Iterator[list[float]]:
    """Read the prefixes, the given beginnings of the translations, token by token; all have the same number of tokens.

    Yields the log-probability of each prefix up to the last token read: first 0.0, then once after each token.
    """
    rows = range(len(sources.limits))
    totals = [0.0] * len(rows)
    yield totals
    for tokens in sources.prefix.T:  # the tokens at one position of all prefixes
        log_probabilities = log_softmax(decoding.logits).gather(1, tokens[:, None])[:, 0]
        log_probabilities = log_probabilities.to(widest_type(tokens.device))  # so that the sums are not rounded
        totals = [total + new for total, new in zip(totals, log_probabilities.tolist(), strict=True)]
        decoding.read(tokens.tolist(), rows)
        yield totals
