"""Autoregressive decoding with one hypothesis for each source, for greedy search and sampling."""

from collections.abc import Callable, Sequence

from regard.text.vocabulary import EOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.decoding import Decoding, read_prefixes, start_decoding
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import refuse_nan

ChosenTokens = tuple[Sequence[int], Sequence[float]]
"""The id of the next token of each hypothesis, and the token's log-probability."""

ChooseTokens = Callable[[Decoding, Sequence[int], int, Sequence[int]], ChosenTokens]
"""The type of a function that chooses the next token of each hypothesis. Its arguments:

- the hypotheses, as a `Decoding` with the logits of their next tokens;
- for each hypothesis, the index of its source in the batch;
- the number of tokens of each hypothesis (all have the same number);
- for each hypothesis, the largest number of tokens that it may have, EOS not counted; after so many tokens, EOS must
  be chosen.
"""


def decode(model: TranslatingModel, sources: SourceBatch, choose: ChooseTokens) -> list[tuple[Hypothesis, ...]]:
    """Decode each source token by token until EOS; each result has one hypothesis."""
    decoding = start_decoding(model, sources)
    *_, totals = read_prefixes(decoding, sources)  # reads all; the last result is that of the whole prefixes
    source_of_row = list(range(len(totals)))
    limits = list(sources.limits)
    token_ids = sources.prefix.tolist()  # of each row; all rows, and so all prefixes, have the same number
    finished = dict[int, Hypothesis]()  # by the index of the source
    while True:
        length = len(token_ids[0])
        tokens, log_probabilities = choose(decoding, source_of_row, length, limits)
        refuse_nan(log_probabilities)
        totals = [total + new for total, new in zip(totals, log_probabilities, strict=True)]
        unfinished = []
        for row, token in enumerate(tokens):
            if token != EOS:
                unfinished.append(row)
                continue
            finished[source_of_row[row]] = Hypothesis(
                tokens=tuple(token_ids[row]), log_probability=totals[row], score=totals[row], cut=length >= limits[row]
            )
        if not unfinished:
            return [(finished[index],) for index in range(len(finished))]
        source_of_row = [source_of_row[row] for row in unfinished]
        limits = [limits[row] for row in unfinished]
        tokens = [tokens[row] for row in unfinished]
        totals = [totals[row] for row in unfinished]
        token_ids = [[*token_ids[row], token] for row, token in zip(unfinished, tokens, strict=True)]
        decoding.read(tokens, parents=unfinished)
