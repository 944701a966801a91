"""Autoregressive decoding with one hypothesis for each source: what greedy search and sampling have in common."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.text.vocabulary import EOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import read_prefixes

ChosenTokens = tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]
"""A token for each row, and its log-probability in the widest type of its device."""

ChooseTokens = Callable[
    [Float[Tensor, "rows new vocabulary"], Int[Tensor, " rows"], int, Sequence[int]],
    ChosenTokens,
]
"""Chooses the next token of each row from the logits, the rows' places in the batch, their length and their limits."""


def decode(model: TranslatingModel, sources: SourceBatch, choose: ChooseTokens) -> list[tuple[Hypothesis, ...]]:
    """Extend one hypothesis of each source token by token; a hypothesis that takes EOS leaves the batch."""
    step, log_probability = read_prefixes(model, sources)
    rows, tokens = torch.arange(len(sources.limits), device=sources.lengths.device), sources.prefix
    limits, found = list(sources.limits), dict[int, Hypothesis]()
    while True:
        length = tokens.shape[1]
        chosen, log_probability_of_chosen = choose(step.logits, rows, length, limits)
        log_probability = log_probability + log_probability_of_chosen
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
