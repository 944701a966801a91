"""The interface of a search algorithm: a batch of source sentences in, hypotheses out.

A search chooses the tokens of a target text y one after the other until it chooses EOS. After the largest number of
tokens it must choose EOS, however improbable EOS is.

    log P(y | source) = Σ_t log softmax(logits_t)[y_t]         over all tokens, a given prefix included, and EOS
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.text.vocabulary import PAD
from regard.translation.model_protocol import TranslatingModel

TOKENS_PER_SOURCE_TOKEN = 3
EXTRA_TOKENS = 20
"""A target has at most 3 × source tokens (EOS counted) + 20 + tokens of the given prefix."""

TextOf = Callable[[Sequence[int]], str]
"""The type of a function that turns the token ids of a target into its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A target text that a search has found.

    Attributes:
        tokens: the token ids of the text, without BOS and EOS.
        log_probability: log P(tokens, EOS | source) in nats.
        score: the number by which the search ranks the hypotheses of a source; higher is better.
        cut: whether the text ended because it reached the largest number of tokens.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceBatch:
    """A batch of sentences to translate together.

    Attributes:
        source: the token ids of each sentence, EOS last, padded on the right.
        lengths: the number of ids of each sentence, without padding.
        prefix: the token ids with which each target must begin, without BOS; equally many in every row.
        limits: the largest number of tokens of each target, without BOS and EOS.
        numbers: a number for each sentence, such as its line number, from which sampling derives its random numbers.
        required: for each sentence, the token ids that its target should have, such as signs for names; only `Beam`
            reads them. () = none.
        text_of: the function that gives the text of a target; only `MinimumRisk` needs it.
    """

    source: Int[Tensor, "batch source"]
    lengths: Int[Tensor, " batch"]
    prefix: Int[Tensor, "batch prefix"]
    limits: tuple[int, ...]
    numbers: tuple[int, ...]
    required: tuple[frozenset[int], ...] = ()
    text_of: TextOf | None = None

    @classmethod
    def of(
        cls,
        model: TranslatingModel,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]] | None = None,
        numbers: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
    ) -> "SourceBatch":
        """Return a padded batch of sentences.

        Args:
            model: the model that will translate; no target is longer than its config allows.
            sources: the token ids of each sentence, EOS last.
            prefixes: the token ids with which each target must begin, equally many for each; None = no prefix.
            numbers: for each sentence, the number from which sampling derives its random numbers; None = 0, 1, …
        """
        prefixes = [()] * len(sources) if prefixes is None else prefixes
        source, lengths = pad_sequences(sources, device)
        prefix = torch.tensor(prefixes, dtype=torch.long, device=device)
        longest = model.config.max_tokens - 1  # one token is BOS
        limits = [TOKENS_PER_SOURCE_TOKEN * len(ids) + EXTRA_TOKENS + prefix.shape[1] for ids in sources]
        return cls(
            source=source,
            lengths=lengths,
            prefix=prefix,
            limits=tuple(min(longest, limit) for limit in limits),
            numbers=tuple(range(len(sources)) if numbers is None else numbers),
        )


@runtime_checkable
class Search(Protocol):
    """A search algorithm for translations: greedy search, beam search, sampling or minimum risk."""

    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """Return the hypotheses found for each source, best first; at least one for each source."""


def pad_sequences(
    sequences: Sequence[Sequence[int]], device: torch.device | str = "cpu"
) -> tuple[Int[Tensor, "batch longest"], Int[Tensor, " batch"]]:
    """Pad sequences of token ids on the right into one tensor; return the tensor, and the length of each sequence.

    >>> pad_sequences([[5, 3], [7, 11, 3]])
    (tensor([[ 5,  3,  0],
            [ 7, 11,  3]]), tensor([2, 3]))
    """
    rows = [torch.tensor(ids, dtype=torch.long) for ids in sequences]
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return padded.to(device), torch.tensor(list(map(len, rows)), device=device)
