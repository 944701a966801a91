"""Autoregressive decoding with one hypothesis for each source; greedy search and sampling use it."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.text.vocabulary import EOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import read_prefixes

ChosenTokens = tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]
"""A token for each row, and the log-probability of each token, in float64 (in float32 on devices without float64)."""

ChooseTokens = Callable[
    [Float[Tensor, "rows new vocabulary"], Int[Tensor, " rows"], int, Sequence[int]],
    ChosenTokens,
]
"""A function that chooses the next token of each row.

Its arguments are the logits, the index of each row's source in the batch, the number of tokens that each row has so
far (equal in all rows), and the largest number of tokens of each row.
"""


def decode(model: TranslatingModel, sources: SourceBatch, choose: ChooseTokens) -> list[tuple[Hypothesis, ...]]:
    """Extend one hypothesis of each source token by token until it ends with EOS; return one hypothesis per source."""
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
