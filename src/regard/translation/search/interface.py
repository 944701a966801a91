"""What every search has in common: where it starts, which tokens it may take, what it finds.

A search looks for the pieces of a target text y, one after the other, until it takes EOS. What it may find is every
sequence of at most `limit` pieces and then EOS: a text that reaches its limit ends there, whatever that costs.

    log P(y | source) = Σ_t log softmax(logits_t)[y_t]         over all pieces, those of a forced prefix too, and EOS

PAD and BOS are never taken, and keep their share of the probability: what is reported is the model's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.precision import widest_type
from regard.errors import InputError
from regard.text.vocabulary import BOS, EOS, PAD
from regard.translation.model_protocol import DecoderStep, TranslatingModel
from regard.translation.search.top_logits import expected, likeliest, log_softmax

TARGET_PER_SOURCE, TARGET_MORE = 3, 20
"""The longest target: three pieces for one of the source, and some more for sources that are very short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A target text that a search found.

    Attributes:
        tokens: its pieces, without BOS and EOS.
        log_probability: log P of the tokens and EOS given the source, in nats.
        score: what the search ranked it by.
        cut: whether it ended because it had reached the limit.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceBatch:
    """Sentences to translate in one batch.

    Attributes:
        source: their ids, EOS last, padded on the right.
        lengths: how many ids of each are no padding.
        prefix: what each target must begin with, without BOS; as many tokens in each row.
        limits: how many pieces each target may have.
        numbers: which sentence of all each is; a sample depends on it, and on nothing else of the batch.
    """

    source: Int[Tensor, "batch source"]
    lengths: Int[Tensor, " batch"]
    prefix: Int[Tensor, "batch prefix"]
    limits: tuple[int, ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(
        cls,
        model: TranslatingModel,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]] | None = None,
        numbers: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
    ) -> "SourceBatch":
        """A batch of sources, EOS last, and of prefixes of equal length, with the limits of the model."""
        prefixes = [()] * len(sources) if prefixes is None else prefixes
        source, lengths = pad_sequences(sources)
        prefix = torch.tensor(list(map(list, prefixes)), dtype=torch.long).reshape(len(sources), -1)
        longest = model.config.max_tokens - 1  # BOS takes a place
        limits = tuple(min(longest, TARGET_PER_SOURCE * n + TARGET_MORE + prefix.shape[1]) for n in lengths.tolist())
        return cls(
            source=source.to(device),
            lengths=lengths.to(device),
            prefix=prefix.to(device),
            limits=limits,
            numbers=tuple(range(len(sources)) if numbers is None else numbers),
        )


def pad_sequences(sequences: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "batch longest"], Int[Tensor, " batch"]]:
    """Ids of several lengths as one tensor, padded on the right, and the lengths.

    >>> pad_sequences([[5, 3], [7, 11, 3]])
    (tensor([[ 5,  3,  0],
            [ 7, 11,  3]]), tensor([2, 3]))
    """
    lengths = torch.tensor([len(ids) for ids in sequences])
    rows = torch.full((len(sequences), int(lengths.max())), PAD)
    for row, ids in enumerate(sequences):
        rows[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
    return rows, lengths


@runtime_checkable
class Search(Protocol):
    """A way to look for target texts."""

    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """What is found for each source, best first; at least one hypothesis."""


def read_prefixes(model: TranslatingModel, sources: SourceBatch) -> tuple[DecoderStep, Float[Tensor, " batch"]]:
    """Read the sources, BOS and the prefixes: the step from which the search goes on, and log P of the prefixes."""
    first = torch.full_like(sources.lengths, BOS)[:, None]
    step = model.step(torch.cat([first, sources.prefix], dim=1), model.start(sources.source, sources.lengths))
    if not sources.prefix.shape[1]:
        return step, torch.zeros(len(sources.lengths), dtype=widest_type(first.device), device=first.device)
    forced = log_softmax(step.logits[:, :-1]).gather(2, sources.prefix[..., None])
    return step, forced[..., 0].to(widest_type(forced.device)).sum(dim=1)


def top_tokens(
    logits: Float[Tensor, "rows new vocabulary"], n: int, length: int, limits: Sequence[int]
) -> tuple[Float[Tensor, "rows n"], Int[Tensor, "rows n"]]:
    """The n likeliest of the tokens that may come after the last new token, with their log-probabilities.

    Args:
        logits: what the model expects.
        n: how many; where fewer may come, the others' log-probabilities are -inf.
        length: how many pieces there are; at its limit a text may only end.
        limits: of each sentence, whose rows lie together.
    """
    if length < min(limits):
        log_probability, tokens = likeliest(logits[:, -1], n)
        refuse_nan(log_probability[:, 0])
        return log_probability, tokens
    log_probability, tokens = token_log_probabilities(logits, length, limits).topk(n, dim=1)
    return log_probability.to(widest_type(logits.device)), tokens


def token_log_probabilities(
    logits: Float[Tensor, "rows new vocabulary"], length: int, limits: Sequence[int]
) -> Float[Tensor, "rows vocabulary"]:
    """Log-probabilities of all tokens, as `choices` has them; -inf for those that may not come."""
    known = expected(logits[:, -1])
    refuse_nan(known[:, EOS])
    if length >= min(limits):
        full = torch.tensor([length >= limit for limit in limits], device=known.device)
        others = torch.arange(known.shape[1], device=known.device) != EOS
        known.masked_fill_(full.repeat_interleave(len(known) // len(limits))[:, None] & others, -torch.inf)
    return known


def refuse_nan(log_probability: Float[Tensor, " rows"]) -> None:
    """Refuse to choose where nothing is known: a NaN among a row's logits makes all of its log-probabilities NaN.

    Raises:
        InputError: there is one.
    """
    if bool(log_probability.isnan().any()):
        raise InputError(
            "the model gives NaN for the next token; its parameters are damaged, or too small a number type overflows: "
            "load it in float32."
        )


def select_rows(state: Any, rows: Int[Tensor, " rows"], n: int) -> Any:
    """Some of the n rows of a state; itself where that is all of them, in order."""
    if len(rows) == n and torch.equal(rows, torch.arange(n, device=rows.device)):
        return state
    return state.select(rows)


Chosen = tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]
"""A token for each row, and its log-probability in the widest type of its device."""

Choose = Callable[[Float[Tensor, "rows new vocabulary"], Int[Tensor, " rows"], int, Sequence[int]], Chosen]
"""Takes a token for each row: from logits, the rows' places in the batch, how many pieces there are, and the limits."""


def decode(model: TranslatingModel, sources: SourceBatch, choose: Choose) -> list[tuple[Hypothesis, ...]]:
    """One hypothesis for each source, a token at a time; a row that has taken EOS leaves the batch."""
    step, log_probability = read_prefixes(model, sources)
    rows, tokens = torch.arange(len(sources.limits), device=sources.lengths.device), sources.prefix
    limits, found = list(sources.limits), dict[int, Hypothesis]()
    while True:
        length = tokens.shape[1]
        chosen, of_chosen = choose(step.logits, rows, length, limits)
        log_probability = log_probability + of_chosen
        state, ended = step.state, chosen == EOS
        if bool(ended.any()):
            for place in ended.nonzero()[:, 0].tolist():
                total = float(log_probability[place])
                found[int(rows[place])] = Hypothesis(
                    tokens=tuple(tokens[place].tolist()),
                    log_probability=total,
                    score=total,
                    cut=length >= limits[place],
                )
            left = (~ended).nonzero()[:, 0]
            if not len(left):
                return [(found[row],) for row in range(len(found))]
            limits = [limits[place] for place in left.tolist()]
            rows, tokens, chosen, log_probability = rows[left], tokens[left], chosen[left], log_probability[left]
            state = state.select(left)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        step = model.step(chosen[:, None], state)
