"""Autoregressive decoding with one hypothesis for each source, for greedy search and sampling."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.text.vocabulary import EOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import read_prefixes

ChosenTokens = tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]
"""The next token of each hypothesis, and its log-probability, in float64 (in float32 on devices without float64)."""

ChooseTokens = Callable[
    [Float[Tensor, "rows new vocabulary"], Int[Tensor, " rows"], int, Sequence[int]],
    ChosenTokens,
]
"""The type of a function that chooses the next token of each hypothesis.

Its arguments are the logits; for each hypothesis the index of its source in the batch; the number of tokens that each
hypothesis has so far, which is the same for all; and for each hypothesis the largest number of tokens.
"""


def decode(model: TranslatingModel, sources: SourceBatch, choose: ChooseTokens) -> list[tuple[Hypothesis, ...]]:
    """Extend one hypothesis of each source token by token until it ends with EOS; return a 1-tuple for each source."""
    step, log_probability = read_prefixes(model, sources)
    rows, tokens = torch.arange(len(sources.limits), device=sources.lengths.device), sources.prefix
    limits, found = list(sources.limits), dict[int, Hypothesis]()
    while True:
        length = tokens.shape[1]
        chosen, log_probability_of_chosen = choose(step.logits, rows, length, limits)
        log_probability = log_probability + log_probability_of_chosen
        state, ended = step.state, chosen == EOS
        if bool(ended.any()):
            for row_number in ended.nonzero()[:, 0].tolist():
                total = float(log_probability[row_number])
                found[int(rows[row_number])] = Hypothesis(
                    tokens=tuple(tokens[row_number].tolist()),
                    log_probability=total,
                    score=total,
                    cut=length >= limits[row_number],
                )
            active = (~ended).nonzero()[:, 0]
            if not len(active):
                return [(found[row],) for row in range(len(found))]
            limits = [limits[row_number] for row_number in active.tolist()]
            rows, tokens, chosen = rows[active], tokens[active], chosen[active]
            log_probability, state = log_probability[active], state.select(active)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        step = model.step(chosen[:, None], state)
