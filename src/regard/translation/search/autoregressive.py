"""Autoregressive decoding with one hypothesis for each source, for greedy search and sampling."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.text.vocabulary import EOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import read_prefixes, refuse_nan
from regard.translation.search.token_history import TokenHistory

ChosenTokens = tuple[Int[Tensor, "rows 1"], Float[Tensor, "rows 1"]]
"""The type of a pair of tensors: the id of the next token of each hypothesis, and the token's log-probability."""

ChooseTokens = Callable[
    [Float[Tensor, "rows new vocabulary"], Sequence[int], int, Sequence[int]],
    ChosenTokens,
]
"""The type of a function that chooses the next token of each hypothesis.

Its arguments are the logits; for each hypothesis the index of its source in the batch; the number of tokens that each
hypothesis has so far, which is the same for all; and for each hypothesis the largest number of tokens.
"""


def decode(model: TranslatingModel, sources: SourceBatch, choose: ChooseTokens) -> list[tuple[Hypothesis, ...]]:
    """Extend one hypothesis for each source, token by token, until EOS; return each hypothesis in a tuple of its own.

    Args:
        choose: returns the next token of each hypothesis.
    """
    step, log_probability = read_prefixes(model, sources)
    numbers, limits, totals = list(range(len(sources.limits))), list(sources.limits), log_probability.tolist()
    history, found = TokenHistory(sources.prefix.tolist()), dict[int, Hypothesis]()
    while True:
        length, state = history.n_tokens, step.state
        chosen, log_probability = choose(step.logits, numbers, length, limits)
        tokens, added = chosen[:, 0].tolist(), log_probability[:, 0].tolist()
        refuse_nan(added)
        totals = [total + more for total, more in zip(totals, added, strict=True)]
        rows = [row for row, token in enumerate(tokens) if token != EOS]
        if len(rows) < len(tokens):
            for row in set(range(len(tokens))).difference(rows):
                found[numbers[row]] = Hypothesis(
                    tokens=tuple(history.tokens(row)),
                    log_probability=totals[row],
                    score=totals[row],
                    cut=length >= limits[row],
                )
            if not rows:
                return [(found[number],) for number in range(len(found))]
            numbers, limits, totals, tokens = (
                [values[row] for row in rows] for values in (numbers, limits, totals, tokens)
            )
            active = torch.tensor(rows, device=chosen.device)
            chosen, state = chosen[active], state.select(active)
        history.append(rows, tokens)
        step = model.step(chosen, state)
