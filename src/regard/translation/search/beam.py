"""Beam search: several hypotheses are extended in parallel and ranked by a score that does not favour short texts.

    score(y) = log P(y | x) / lp(y) + cp(x, y)
    lp(y) = ((5 + |y|) / 6)^α                       |y|: the number of y's tokens, EOS included
    cp(x, y) = β Σ_i log min(Σ_j p_ij, 1)           p_ij: attention weight of y's token j, EOS included, on x's token i
    α, β                                            `length_penalty` and `coverage_penalty` of `Beam`

A beam has `size` slots for each sentence. Every step extends the active hypotheses by every token, and the most
probable extensions take the slots. An extension by EOS is a finished hypothesis: it is not extended further, but
keeps its slot, so the number of active hypotheses falls. The search for a sentence ends when no hypothesis is active,
or when no active hypothesis can become one of the `n_best` best. Log-probability (at most 0) only falls and cp is
at most 0, so a hypothesis with log-probability log P cannot reach a score above log P divided by the largest lp:
log P / lp(limit + 1), where `limit` is the largest number of tokens.

A source may have required tokens, the signs for its names and numbers. A finished hypothesis without one of them gives
up its slot, so that the search goes on; it is only returned if no hypothesis has more of the required tokens.

Source: Sutskever, Vinyals & Le 2014, section 3.2 (finished hypotheses are not extended further); Wu et al. 2016,
section 7, eq. 14.
Departure: penalties rank finished hypotheses; active ones have equal lengths and are ranked by log-probability. A
Transformer's p_ij are the mean over the heads of the last layer but one, as in the default `AlignmentRule`. Wu et al.
also prune hypotheses far below the best; here no hypothesis with a slot is dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.precision import widest_type
from regard.text.vocabulary import EOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.decoding import Decoding, read_prefixes, start_decoding
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import refuse_nan, top_tokens

LEAST_COVERAGE = 1e-9
"""Sums of attention weights below this limit are raised to the limit before the coverage penalty takes their log."""


@dataclass(frozen=True, slots=True)
class Beam:
    """Keep the `size` most probable hypotheses at every step, and rank finished ones by their penalised score.

    Args:
        size: the number of hypotheses for each sentence; 1 = greedy search.
        length_penalty: α: log P is divided by ((5 + length) / 6)^α. A larger α favours longer texts; 0 = no penalty.
        coverage_penalty: β: the factor of the penalty for source tokens that get little attention; 0 = no penalty.
        n_best: the largest number of hypotheses to return for each sentence.

    Departure: Vaswani et al. 2017, section 6.1, have α = 0.6. With α = 0.6, translations of Multi30k's dev set
    (English and German) are too short; α = 1 is better by 0.1 to 0.4 BLEU in both directions, for the Transformer and
    for the recurrent model.
    """

    size: int = 5
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    n_best: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size={self.size} is the number of hypotheses in the beam; it must be at least 1.")
        if not 1 <= self.n_best <= self.size:
            raise ValueError(
                f"n_best={self.n_best} does not fit size={self.size}; it must be at least 1 and at most that size."
            )
        for name in ("length_penalty", "coverage_penalty"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)} must be a number of at least 0; 0 = no penalty.")

    @torch.inference_mode()
    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """Return the best hypotheses for each source, at most `n_best`, best first."""
        lengths = sources.lengths.tolist()
        required = sources.required or [frozenset[int]()] * len(lengths)
        all_sentences = [
            SentenceSearch(beam=self, limit=limit, n_source=length - 1, required=tokens)
            for limit, length, tokens in zip(sources.limits, lengths, required, strict=True)
        ]
        sentences = all_sentences
        token_ids = sources.prefix.tolist()  # the tokens of each row
        decoding = start_decoding(model, sources, self.size)
        totals, coverage = [], None
        # one step for each prefix token; `totals` of the last step, the whole prefixes, is used after the loop
        for totals in read_prefixes(decoding, sources):  # noqa: B007
            if self.coverage_penalty:
                coverage = coverage_weights(decoding) + (0.0 if coverage is None else coverage)
        while sentences:
            unfinished_sentences = []
            for sentence, extensions in best_extensions(decoding, sentences, totals, len(token_ids[0])):
                unfinished = sentence.collect_finished(extensions, token_ids, coverage)
                best_log_probability = unfinished[0][0] if unfinished else -torch.inf  # the first is the most probable
                if best_log_probability > sentence.least_log_probability:
                    unfinished_sentences.append((sentence, unfinished))
            if not unfinished_sentences:
                break
            # Sentences get equally many rows; a spare row has log-probability -∞, and any valid parent and token
            rows_per_sentence = max(len(unfinished) for _, unfinished in unfinished_sentences)
            rows = list[Extension]()
            for _, unfinished in unfinished_sentences:
                _, parent, token = unfinished[0]
                n_spare = rows_per_sentence - len(unfinished)
                rows += [*unfinished, *[(-torch.inf, parent, token)] * n_spare]
            sentences = [sentence for sentence, _ in unfinished_sentences]
            totals, parents, tokens = map(list, zip(*rows, strict=True))
            token_ids = [[*token_ids[parent], token] for parent, token in zip(parents, tokens, strict=True)]
            decoding.read(tokens, parents)
            if coverage is not None:
                coverage = coverage[parents] + coverage_weights(decoding)
        return [sentence.best() for sentence in all_sentences]

    def lp(self, length: int) -> float:
        """Return the length penalty of a text of `length` tokens, EOS counted: the divisor of its log-probability."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def cp(self, coverage: Float[Tensor, " source"]) -> float:
        """Return the coverage penalty of a text, which is added to the text's score.

        Args:
            coverage: for each source token but EOS, the sum of the weights with which the target tokens attend to it.
        """
        wide = coverage.to(widest_type(coverage.device))
        return self.coverage_penalty * float(wide.clamp(LEAST_COVERAGE, 1).log().sum())


Extension = tuple[float, int, int]
"""A hypothesis and one more token: their log-probability, the row of the hypothesis, and the token's id."""


@dataclass(slots=True, eq=False)
class SentenceSearch:
    """The beam search for the translation of one sentence.

    Attributes:
        limit: the largest number of tokens of a hypothesis, EOS not counted.
        n_source: the number of source tokens, EOS not counted.
        required: the token ids that the translation should have.
        finished: the finished hypotheses that have all required tokens; `incomplete`: those that do not.
        least_log_probability: an active hypothesis with at most this log-probability cannot become one of the `n_best`.
    """

    beam: Beam
    limit: int
    n_source: int
    required: frozenset[int] = frozenset()
    finished: list[Hypothesis] = field(default_factory=list)
    incomplete: list[Hypothesis] = field(default_factory=list)
    least_log_probability: float = -torch.inf

    def collect_finished(
        self, extensions: list[Extension], token_ids: list[list[int]], coverage: Float[Tensor, "rows source"] | None
    ) -> list[Extension]:
        """Put the best extensions into the free slots. Add those that end in EOS to `finished`; return the unfinished.

        Args:
            extensions: extensions of this sentence's hypotheses, most probable first; an extension by EOS is finished.
            token_ids: for each row of the batch, the tokens of the hypothesis before the extension.
            coverage: for each row of the batch, the sum of the attention weights on each source token so far; None =
                there is no coverage penalty.
        """
        unfinished = list[Extension]()
        for log_probability, parent, token in extensions:
            if len(self.finished) + len(unfinished) == self.beam.size or log_probability == -torch.inf:
                break
            if token == EOS:
                # the parent's coverage has the weights of its last step, which predicts EOS: no weights are missing
                own_coverage = None if coverage is None else coverage[parent]
                self.add(log_probability, token_ids[parent], own_coverage)
            else:
                unfinished.append((log_probability, parent, token))
        if len(self.finished) >= self.beam.n_best:
            # the bound of the module's docstring, solved for log P
            self.least_log_probability = self.best()[-1].score * self.beam.lp(self.limit + 1)
        return unfinished

    def add(self, log_probability: float, tokens: list[int], coverage: Float[Tensor, " source"] | None) -> None:
        """Score a finished hypothesis, and add it to `finished` or `incomplete`; `tokens` are its tokens but EOS."""
        score = log_probability / self.beam.lp(len(tokens) + 1)
        if coverage is not None:
            score += self.beam.cp(coverage[: self.n_source])
        hypothesis = Hypothesis(
            tokens=tuple(tokens), log_probability=log_probability, score=score, cut=len(tokens) >= self.limit
        )
        has_required = self.required <= set(tokens)
        (self.finished if has_required else self.incomplete).append(hypothesis)

    def best(self) -> tuple[Hypothesis, ...]:
        n_required = [len(self.required.intersection(hypothesis.tokens)) for hypothesis in self.incomplete]
        pairs = zip(self.incomplete, n_required, strict=True)
        most_complete = [hypothesis for hypothesis, n in pairs if n == max(n_required)]
        ranked = sorted(self.finished or most_complete, key=lambda hypothesis: -hypothesis.score)
        return tuple(ranked[: self.beam.n_best])


def best_extensions(
    decoding: Decoding, sentences: list[SentenceSearch], totals: list[float], length: int
) -> Iterator[tuple[SentenceSearch, list[Extension]]]:
    """Yield each sentence with the most probable extensions of its hypotheses by one token, best first.

    They suffice to fill `Beam.size` slots, even if a hypothesis that ends in EOS takes no slot.

    Args:
        decoding: the active hypotheses: equally many rows for each sentence, in the order of the sentences.
        totals: the log-probability of each row's tokens; -inf = the row has no hypothesis.
        length: the number of tokens of each hypothesis.
    """
    rows_per_sentence = len(totals) // len(sentences)
    # of the extensions of a row, only the one by EOS may take no slot: one more token suffices
    n_tokens = sentences[0].beam.size + (1 if any(sentence.required for sentence in sentences) else 0)
    limits = [sentence.limit for sentence in sentences]
    log_probabilities, tokens = top_tokens(decoding.logits, n_tokens, length, limits)
    refuse_nan(of_row[0] for of_row in log_probabilities)
    for index, sentence in enumerate(sentences):
        extensions = [
            (totals[row] + new, row, token)
            for row in range(index * rows_per_sentence, (index + 1) * rows_per_sentence)
            for new, token in zip(log_probabilities[row], tokens[row], strict=True)
        ]
        extensions.sort(key=itemgetter(0), reverse=True)
        yield sentence, extensions


def coverage_weights(decoding: Decoding) -> Float[Tensor, "rows source"]:
    """Return the cross-attention weights of the newest tokens: the mean over the heads of the last layer but one."""
    cross = decoding.cross
    mean = cross[max(len(cross) - 2, 0)].dense().mean(dim=1)  # [batch queries source]: see `DecoderStep.cross`
    return mean.flatten(0, 1)
