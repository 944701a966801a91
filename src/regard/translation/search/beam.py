"""Beam search: several hypotheses are extended in parallel and ranked by a score that does not favour short texts.

    score(y) = log P(y | x) / lp(y) + cp(x, y)
    lp(y) = ((5 + |y|) / 6)^α                       |y|: the number of y's tokens, EOS included
    cp(x, y) = β Σ_i log min(Σ_j p_ij, 1)           p_ij: attention weight of y's token j, EOS included, on x's token i

A beam has `size` slots for each sentence. Every step extends the active hypotheses by every token, and the most
probable extensions take the slots. An extension by EOS is a finished hypothesis and keeps its slot, so fewer hypotheses
stay active. The search for a sentence ends when no hypothesis is active, or when no active one can beat the worst of
the `n_best` finished ones: log-probability only falls, so an active hypothesis with log-probability log P cannot reach
a score above log P / lp(limit + 1), where `limit` is the largest number of tokens.

Source: Sutskever, Vinyals & Le 2014, section 3.2 (finished hypotheses leave the beam); Wu et al. 2016, section 7,
eq. 14.
Departure: penalties rank finished hypotheses; active ones have equal lengths and are ranked by log-probability. A
Transformer's p_ij are the mean over the heads of the layer that alignments are read from (`alignment.py`). Wu et al.
also prune hypotheses far below the best; here no hypothesis with a slot is dropped.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.precision import widest_type
from regard.text.vocabulary import EOS
from regard.translation.model_protocol import DecoderStep, TranslatingModel
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import read_prefixes, top_tokens

LEAST_COVERAGE = 1e-9
"""The smallest sum of attention weights on a source token in cp; smaller sums are raised to it, as log 0 is -∞."""


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
        finished = [FinishedHypotheses(self, limit) for limit in sources.limits]
        active: ActiveHypotheses | None = initial_hypotheses(self, model, sources)
        while active is not None:
            extensions = extend(active, self.size)
            if bool(extensions.ended.any()):
                active = collect_finished(active, extensions, finished, sources.lengths)
                extensions = extensions.unfinished()
            active = advance(model, active, extensions)
        return [sentence.best() for sentence in finished]

    def lp(self, length: int) -> float:
        """Return the length penalty of a text: the divisor of its log-probability.

        Args:
            length: the number of tokens of the text, EOS counted.
        """
        return float(((5 + length) / 6) ** self.length_penalty)

    def cp(self, coverage: Float[Tensor, " source"]) -> float:
        """Return the coverage penalty of a text.

        Args:
            coverage: for each source token except EOS, the sum of the attention weights of all target tokens on it.
        """
        wide = coverage.to(widest_type(coverage.device))
        return self.coverage_penalty * float(wide.clamp(LEAST_COVERAGE, 1).log().sum())


@dataclass(slots=True)
class FinishedHypotheses:
    """The finished hypotheses of one sentence.

    Attributes:
        limit: the largest number of tokens of a hypothesis, EOS not counted.
    """

    beam: Beam
    limit: int
    found: list[Hypothesis] = field(default_factory=list)

    def add(self, tokens: list[int], log_probability: float, coverage: Float[Tensor, " source"] | None) -> None:
        score = log_probability / self.beam.lp(len(tokens) + 1)
        score += 0.0 if coverage is None else self.beam.cp(coverage)
        cut = len(tokens) >= self.limit
        self.found.append(Hypothesis(tokens=tuple(tokens), log_probability=log_probability, score=score, cut=cut))

    def best(self) -> tuple[Hypothesis, ...]:
        return tuple(sorted(self.found, key=lambda one: -one.score)[: self.beam.n_best])

    def score_to_beat(self) -> float:
        """Return the score that another hypothesis must exceed to be among the `n_best`; -∞ if fewer are finished."""
        best = self.best()
        return best[-1].score if len(best) == self.beam.n_best else -torch.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenSentences:
    """The sentences whose search has not ended.

    Attributes:
        numbers: the index of each sentence in the batch of sources.
        limits: for each sentence, the largest number of tokens of its translation, EOS not counted.
        slots: for each sentence, how many of its hypotheses may stay active.
        to_beat: for each sentence, the log-probability that an active hypothesis must exceed so that it can still be
            among the `n_best`.
    """

    numbers: tuple[int, ...]
    limits: tuple[int, ...]
    slots: Int[Tensor, " sentences"]
    to_beat: Float[Tensor, " sentences"]

    def select(self, rows: Int[Tensor, " rows"]) -> "OpenSentences":
        """Return some of the sentences; `rows` are their indices in ascending order."""
        if len(rows) == len(self.numbers):
            return self
        kept = rows.tolist()
        return OpenSentences(
            numbers=tuple(self.numbers[row] for row in kept),
            limits=tuple(self.limits[row] for row in kept),
            slots=self.slots[rows],
            to_beat=self.to_beat[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActiveHypotheses:
    """The unfinished hypotheses of all sentences: equally many for each sentence, all of the same length.

    They are ordered by log-probability, most probable first.

    Attributes:
        tokens: the ids of each hypothesis, without BOS.
        log_probability: the log-probability of these tokens; -inf = there is no hypothesis.
        coverage: the sum of the attention weights on each source token so far; None without a coverage penalty.
        step: the output of the model's last step; its rows are all hypotheses of the first sentence, then all of the
            second, and so on.
    """

    sentences: OpenSentences
    tokens: Int[Tensor, "sentences width length"]
    log_probability: Float[Tensor, "sentences width"]
    coverage: Float[Tensor, "sentences width source"] | None
    step: DecoderStep


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extensions:
    """The most probable extensions of each sentence's hypotheses by one token, most probable first.

    Attributes:
        parents: for each extension, the index of the hypothesis that it extends among the hypotheses of its sentence.
        tokens: for each extension, the id of the new token.
        log_probability: the log-probability of the extended hypothesis; -inf = the beam has no slot for it.
    """

    parents: Int[Tensor, "sentences extensions"]
    tokens: Int[Tensor, "sentences extensions"]
    log_probability: Float[Tensor, "sentences extensions"]

    @property
    def ended(self) -> Bool[Tensor, "sentences extensions"]:
        """For each extension, whether it ends with EOS and has a slot in the beam."""
        return (self.tokens == EOS) & (self.log_probability > -torch.inf)

    def unfinished(self) -> "Extensions":
        """Return the extensions with log-probability -∞ for all that end with EOS, sorted most probable first."""
        without = self.log_probability.masked_fill(self.tokens == EOS, -torch.inf)
        log_probability, order = without.sort(dim=1, descending=True, stable=True)
        return Extensions(
            parents=self.parents.gather(1, order), tokens=self.tokens.gather(1, order), log_probability=log_probability
        )

    def select(self, rows: Int[Tensor, " rows"]) -> "Extensions":
        """Return the extensions of some sentences; `rows` are the indices of the sentences in ascending order."""
        if len(rows) == len(self.tokens):
            return self
        return Extensions(
            parents=self.parents[rows], tokens=self.tokens[rows], log_probability=self.log_probability[rows]
        )


def initial_hypotheses(beam: Beam, model: TranslatingModel, sources: SourceBatch) -> ActiveHypotheses:
    """Let the model read the sources and prefixes; return the prefix of each sentence as its one active hypothesis."""
    step, log_probability = read_prefixes(model, sources)
    n = len(sources.limits)
    sentences = OpenSentences(
        numbers=tuple(range(n)),
        limits=sources.limits,
        slots=torch.full((n,), beam.size, device=log_probability.device),
        to_beat=torch.full_like(log_probability, -torch.inf),
    )
    return ActiveHypotheses(
        sentences=sentences,
        tokens=sources.prefix[:, None],
        log_probability=log_probability[:, None],
        coverage=coverage_weights(step.cross).sum(dim=1)[:, None] if beam.coverage_penalty else None,
        step=step,
    )


def extend(active: ActiveHypotheses, size: int) -> Extensions:
    """Extend the active hypotheses of each sentence by one token; return the `size` most probable results per sentence.

    A sentence may have fewer than `size` active hypotheses, `active.sentences.slots`, since finished hypotheses count
    towards the beam's size. Extensions beyond this number get log-probability -∞. For each hypothesis only the `size`
    most probable next tokens are tried: no other token can be among the `size` best extensions of the sentence.
    """
    logits, n_sentences, length = active.step.logits, len(active.tokens), active.tokens.shape[2]
    n_each = min(size, logits.shape[2])
    of_token, tokens = top_tokens(logits, n_each, length, active.sentences.limits)
    of_token, tokens = of_token.view(n_sentences, -1, n_each), tokens.view(n_sentences, -1)
    total = (active.log_probability[:, :, None] + of_token).flatten(1)
    log_probability, chosen = total.topk(min(size, total.shape[1]), dim=1)
    has_slot = torch.arange(chosen.shape[1], device=chosen.device) < active.sentences.slots[:, None]
    return Extensions(
        parents=chosen // n_each,
        tokens=tokens.gather(1, chosen),
        log_probability=log_probability.where(has_slot, -torch.inf),
    )


def collect_finished(
    active: ActiveHypotheses,
    extensions: Extensions,
    finished: list[FinishedHypotheses],
    lengths: Int[Tensor, " batch"],
) -> ActiveHypotheses:
    """Add the extensions that end with EOS to the finished hypotheses.

    Args:
        finished: the finished hypotheses of every sentence of the batch; changed in place.

    Returns:
        `active`, in which finished hypotheses have been subtracted from each sentence's number of slots, and the
        log-probability that an active hypothesis must exceed is up to date.
    """
    numbers = active.sentences.numbers
    for row, slot in extensions.ended.nonzero().tolist():
        parent = int(extensions.parents[row, slot])
        n_tokens = int(lengths[numbers[row]]) - 1
        coverage = None if active.coverage is None else active.coverage[row, parent, :n_tokens]
        log_probability = float(extensions.log_probability[row, slot])
        finished[numbers[row]].add(active.tokens[row, parent].tolist(), log_probability, coverage)
    of_open = [finished[number] for number in numbers]
    slots = active.sentences.slots.new_tensor([one.beam.size - len(one.found) for one in of_open])
    to_beat = active.sentences.to_beat.new_tensor([one.score_to_beat() * one.beam.lp(one.limit + 1) for one in of_open])
    return replace(active, sentences=replace(active.sentences, slots=slots, to_beat=to_beat))


def advance(model: TranslatingModel, active: ActiveHypotheses, extensions: Extensions) -> ActiveHypotheses | None:
    """Let the model read the new token of each unfinished extension; return the next active hypotheses.

    Args:
        extensions: the extensions of `active`; those that ended have log-probability -∞.

    Returns:
        The hypotheses of the sentences whose search continues, or None if the search of every sentence has ended.
    """
    still_open = (extensions.log_probability[:, 0] > active.sentences.to_beat).nonzero()[:, 0]
    if not len(still_open):
        return None
    extensions = extensions.select(still_open)
    # The sentence with the most hypotheses decides the width; for other sentences some have log-probability -∞
    width = int((extensions.log_probability > -torch.inf).sum(dim=1).max())
    log_probability, parents = extensions.log_probability[:, :width], extensions.parents[:, :width]
    tokens = extensions.tokens[:, :width]
    rows = (still_open[:, None] * active.tokens.shape[1] + parents).flatten()
    step = model.step(tokens.flatten()[:, None], select_rows(active.step.state, rows, active.log_probability.numel()))
    before = active.tokens.flatten(0, 1)[rows]
    coverage = None if active.coverage is None else updated_coverage(active.coverage, rows, step)
    return ActiveHypotheses(
        sentences=active.sentences.select(still_open),
        tokens=torch.cat([before.view(*tokens.shape, -1), tokens[:, :, None]], dim=2),
        log_probability=log_probability,
        coverage=None if coverage is None else coverage.view(*tokens.shape, -1),
        step=step,
    )


def select_rows(state: Any, rows: Int[Tensor, " rows"], n: int) -> Any:
    """Return the decoder state of some rows of `state`, which has n; `state` itself if `rows` is 0, 1, …, n - 1."""
    if len(rows) == n and torch.equal(rows, torch.arange(n, device=rows.device)):
        return state
    return state.select(rows)


def updated_coverage(
    coverage: Float[Tensor, "sentences width source"], rows: Int[Tensor, " rows"], step: DecoderStep
) -> Float[Tensor, "rows source"]:
    """Return the coverage of new hypotheses: the coverage of their parents plus the attention weights of the new token.

    Args:
        rows: for each new hypothesis, the index of its parent among all parents of the batch.
        step: the output of the step in which the model read the new tokens.
    """
    return coverage.flatten(0, 1)[rows] + coverage_weights(step.cross).view(len(rows), -1)


def coverage_weights(cross: tuple[Pattern, ...]) -> Float[Tensor, "batch target source"]:
    """Return the cross-attention weights for the coverage: those of the last layer but one, averaged over its heads."""
    return cross[max(len(cross) - 2, 0)].dense().mean(dim=1)
