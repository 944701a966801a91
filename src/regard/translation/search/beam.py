"""Beam search: several hypotheses are extended in parallel and ranked by a score that does not favour short texts.

    score(y) = log P(y | x) / lp(y) + cp(x, y)
    lp(y) = ((5 + |y|) / 6)^α                       |y|: the number of y's tokens, EOS included
    cp(x, y) = β Σ_i log min(Σ_j p_ij, 1)           p_ij: attention weight of y's token j, EOS included, on x's token i

A beam has `size` slots for each sentence. Every step extends the active hypotheses by every token, and the most
probable extensions take the slots. An extension by EOS is a finished hypothesis: it is not extended further, but
keeps its slot, so fewer stay active. The search for a sentence ends when none is active, or when none can beat the
worst of the `n_best` finished ones: log-probability only falls, so an active hypothesis with log-probability log P
cannot reach a score above log P / lp(limit + 1), where `limit` is the largest number of tokens.

Source: Sutskever, Vinyals & Le 2014, section 3.2 (finished hypotheses leave the beam); Wu et al. 2016, section 7,
eq. 14.
Departure: penalties rank finished hypotheses; active ones have equal lengths and are ranked by log-probability. A
Transformer's p_ij are the mean over the heads of the layer that alignments are read from (`alignment.py`). Wu et al.
also prune hypotheses far below the best; here no hypothesis with a slot is dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.precision import widest_type
from regard.text.vocabulary import EOS
from regard.translation.model_protocol import DecoderStep, TranslatingModel
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import read_prefixes, refuse_nan, top_tokens
from regard.translation.search.token_history import TokenHistory

LEAST_COVERAGE = 1e-9
"""In the coverage penalty, sums of attention weights on a source token are at least this, as log 0 is -∞."""


@dataclass(frozen=True, slots=True)
class Beam:
    """Keep the `size` most probable hypotheses at every step, and rank finished ones by their penalised score.

    Args:
        size: the number of hypotheses for each sentence; 1 = greedy search.
        length_penalty: α; 0 = no penalty; a larger value favours longer texts.
        coverage_penalty: β; 0 = no penalty; a larger value favours texts that leave out less of the source.
        n_best: the largest number of hypotheses to return for each sentence.

    Departure: Vaswani et al. 2017, section 6.1, have α = 0.6, with which translations of Multi30k's dev set are too
    short: 1 is better by 0.1 to 0.4 BLEU, from English to German and back, for the Transformer and the recurrent model.
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
        sentences = [
            SentenceSearch(self, limit, length - 1) for limit, length in zip(sources.limits, lengths, strict=True)
        ]
        history = TokenHistory(sources.prefix.tolist())
        active: ActiveHypotheses | None = initial_hypotheses(self, model, sources, sentences)
        while active is not None:
            going_on = []
            for sentence, extensions in best_extensions(active, self.size, history.n_tokens):
                unfinished = sentence.collect_finished(extensions, history, active.coverage)
                if unfinished and unfinished[0].log_probability > sentence.to_beat:
                    going_on.append((sentence, unfinished))
            active = advance(model, active, going_on, history) if going_on else None
        return [sentence.best() for sentence in sentences]

    def lp(self, length: int) -> float:
        """Return the length penalty of a text of `length` tokens, EOS counted: the divisor of its log-probability."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def cp(self, coverage: Float[Tensor, " source"]) -> float:
        """Return a text's coverage penalty; `coverage` is the sum of attention weights on each source token but EOS."""
        wide = coverage.to(widest_type(coverage.device))
        return self.coverage_penalty * float(wide.clamp(LEAST_COVERAGE, 1).log().sum())


@dataclass(slots=True, eq=False)
class Extension:
    """A hypothesis extended by one token.

    Attributes:
        log_probability: the log-probability of the extended hypothesis.
        parent: the row of the batch that has the hypothesis before it was extended.
        token: the id of the new token.
    """

    log_probability: float
    parent: int
    token: int


@dataclass(slots=True, eq=False)
class SentenceSearch:
    """The state of the beam search for the translation of one sentence.

    Attributes:
        limit: the largest number of tokens of a hypothesis, EOS not counted.
        n_source: the number of source tokens, EOS not counted.
        finished: the finished hypotheses.
        to_beat: an active hypothesis with at most this log-probability can no longer be among the `n_best`.
    """

    beam: Beam
    limit: int
    n_source: int
    finished: list[Hypothesis] = field(default_factory=list)
    to_beat: float = -torch.inf

    def collect_finished(
        self,
        extensions: list[Extension],
        history: TokenHistory,
        coverage: Float[Tensor, "rows source"] | None,
    ) -> list[Extension]:
        """Move hypotheses that end with EOS from the beam to `finished`; return the extensions that stay in the beam.

        Args:
            extensions: extensions of this sentence's hypotheses by one token, most probable first.
            coverage: for each row of the batch, the sum of the attention weights on each source token so far.
        """
        n_slots = self.beam.size - len(self.finished)
        possible = [one for one in extensions[:n_slots] if one.log_probability > -torch.inf]
        ended = [one for one in possible if one.token == EOS]
        for one in ended:
            self.add(one, history.tokens(one.parent), None if coverage is None else coverage[one.parent])
        if ended and len(self.finished) >= self.beam.n_best:
            self.to_beat = self.best()[-1].score * self.beam.lp(self.limit + 1)
        return [one for one in possible if one.token != EOS] if ended else possible

    def add(self, extension: Extension, tokens: list[int], coverage: Float[Tensor, " source"] | None) -> None:
        """Add the hypothesis that an extension by EOS has finished; `tokens` are its tokens without EOS."""
        score = extension.log_probability / self.beam.lp(len(tokens) + 1)
        score += 0.0 if coverage is None else self.beam.cp(coverage[: self.n_source])
        self.finished.append(
            Hypothesis(
                tokens=tuple(tokens),
                log_probability=extension.log_probability,
                score=score,
                cut=len(tokens) >= self.limit,
            )
        )

    def best(self) -> tuple[Hypothesis, ...]:
        return tuple(sorted(self.finished, key=lambda one: -one.score)[: self.beam.n_best])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActiveHypotheses:
    """The unfinished hypotheses of all sentences: equally many for each sentence, all of the same length.

    The rows of a batch are the hypotheses of the first sentence, most probable first, then those of the second, and so
    on.

    Attributes:
        sentences: the sentences whose search has not ended.
        log_probability: the log-probability of each row's tokens; -inf = the row has no hypothesis.
        coverage: for each row, the sum of the attention weights on each source token so far; None without a coverage
            penalty.
        step: the output of the model's last step for these rows.
    """

    sentences: list[SentenceSearch]
    log_probability: list[float]
    coverage: Float[Tensor, "rows source"] | None
    step: DecoderStep


def initial_hypotheses(
    beam: Beam, model: TranslatingModel, sources: SourceBatch, sentences: list[SentenceSearch]
) -> ActiveHypotheses:
    """Let the model read the sources and prefixes; return the prefix of each sentence as its one active hypothesis."""
    step, log_probability = read_prefixes(model, sources)
    return ActiveHypotheses(
        sentences=sentences,
        log_probability=log_probability.tolist(),
        coverage=coverage_weights(step.cross).sum(dim=1) if beam.coverage_penalty else None,
        step=step,
    )


def best_extensions(
    active: ActiveHypotheses, size: int, length: int
) -> Iterator[tuple[SentenceSearch, list[Extension]]]:
    """Yield each sentence with the `size` most probable extensions of its hypotheses by one token, best first.

    For each hypothesis only the `size` most probable next tokens are tried: no other token can be among the `size` best
    extensions of the sentence. `length` is the number of tokens of the active hypotheses.
    """
    logits, n_sentences = active.step.logits, len(active.sentences)
    n_each, width = min(size, logits.shape[2]), len(active.log_probability) // n_sentences
    limits = [sentence.limit for sentence in active.sentences]
    of_token, tokens = top_tokens(logits, n_each, length, limits)
    before = [[log_probability] for log_probability in active.log_probability]
    wide = torch.tensor(before, dtype=widest_type(logits.device), device=logits.device)
    total = (wide + of_token).view(n_sentences, -1)
    best = total.topk(min(size, total.shape[1]), dim=1)
    columns, ids = (active.sentences, best.values.tolist(), best.indices.tolist()), tokens.tolist()
    for number, (sentence, log_probabilities, places) in enumerate(zip(*columns, strict=True)):
        refuse_nan(log_probabilities[:1])  # NaN is the largest number for topk
        extensions = []
        for log_probability, place in zip(log_probabilities, places, strict=True):
            parent = number * width + place // n_each
            extensions.append(Extension(log_probability, parent, ids[parent][place % n_each]))
        yield sentence, extensions


def advance(
    model: TranslatingModel,
    active: ActiveHypotheses,
    going_on: list[tuple[SentenceSearch, list[Extension]]],
    history: TokenHistory,
) -> ActiveHypotheses:
    """Let the model read the new token of each unfinished extension; return the next active hypotheses.

    Args:
        going_on: the sentences whose search continues, with their unfinished extensions.
        history: the tokens of the active hypotheses, to which the new tokens are added.
    """
    # The sentence with the most hypotheses decides the width; other sentences get rows with log-probability -∞
    width = max(len(extensions) for _, extensions in going_on)
    rows = [
        one
        for _, its in going_on
        for one in (*its, *[Extension(-torch.inf, its[0].parent, its[0].token)] * (width - len(its)))
    ]
    parents, tokens = [one.parent for one in rows], [one.token for one in rows]
    newest = torch.tensor([[token] for token in tokens], device=active.step.logits.device)
    row_numbers = torch.tensor(parents, device=newest.device)
    same_rows = parents == list(range(len(active.log_probability)))
    state = active.step.state if same_rows else active.step.state.select(row_numbers)
    step = model.step(newest, state)
    history.append(parents, tokens)
    coverage = None
    if active.coverage is not None:
        coverage = active.coverage[row_numbers] + coverage_weights(step.cross).view(len(rows), -1)
    return ActiveHypotheses(
        sentences=[sentence for sentence, _ in going_on],
        log_probability=[one.log_probability for one in rows],
        coverage=coverage,
        step=step,
    )


def coverage_weights(cross: tuple[Pattern, ...]) -> Float[Tensor, "batch target source"]:
    """Return the cross-attention weights for the coverage: those of the last layer but one, averaged over its heads."""
    return cross[max(len(cross) - 2, 0)].dense().mean(dim=1)
