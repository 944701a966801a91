"""Beam search: several hypotheses side by side, and a score that does not favour the short.

    score(y) = log P(y | x) / lp(y) + cp(x, y)
    lp(y) = ((5 + |y|) / 6)^α                       |y| counts the pieces and EOS
    cp(x, y) = β Σ_i log min(Σ_j p_ij, 1)           p_ij: how much y's token j looked at x's piece i, EOS among the j

A beam has `size` places for each sentence. Every step extends the hypotheses that are under way by every token, and the
likeliest extensions take the places; one that takes EOS has ended and keeps its place, so fewer are under way. A
sentence is done when none is, or when none could still beat the worst of the `n_best` that ended: log-probability only
falls, so a hypothesis at log P cannot come to more than log P / lp(limit + 1).

Source: Sutskever, Vinyals & Le 2014, section 3.2 (what has ended leaves the beam); Wu et al. 2016, section 7, eq. 14.
Departure: penalties rank what has ended; those under way are as long as each other and are ranked by log-probability. A
Transformer's p_ij are the mean over the heads of the layer that alignments are read from (`alignment.py`). Wu et al.
also prune what is far below the best; here nothing that has a place is lost.
"""

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.precision import widest_type
from regard.text.vocabulary import EOS
from regard.translation.alignment import cross_weights
from regard.translation.model_protocol import DecoderStep, TranslatingModel
from regard.translation.search.interface import Hypothesis, SourceBatch, read_prefixes, select_rows, top_tokens

NOT_COVERED = 1e-9
"""What a source piece that nothing looked at counts as having been given, since log 0 would outweigh everything."""


@dataclass(frozen=True, slots=True)
class Beam:
    """Keep the `size` likeliest hypotheses at every step, and rank those that ended by their penalised score.

    Args:
        size: how many hypotheses a sentence has; 1 = greedy search.
        length_penalty: α; 0 = none, more = longer texts.
        coverage_penalty: β; 0 = none, more = texts that leave out less of the source.
        n_best: how many of the best to give; there may be fewer where the beam found fewer.

    Departure: Vaswani et al. 2017, section 6.1, have α = 0.6, with which translations of Multi30k's dev set are too
    short: 1 is better by 0.1 to 0.4 BLEU, from English to German and back, for the Transformer and the recurrent model.
    """

    size: int = 5
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    n_best: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size={self.size} must be at least 1: a beam holds hypotheses.")
        if not 1 <= self.n_best <= self.size:
            raise ValueError(
                f"n_best={self.n_best} does not fit size={self.size}; a beam gives from 1 to as many as it holds."
            )
        for name in ("length_penalty", "coverage_penalty"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)} must be a number of at least 0; 0 = no penalty.")

    @torch.inference_mode()
    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """The best hypotheses for each source, best first."""
        ended = [FinishedHypotheses(self, limit) for limit in sources.limits]
        running: ActiveHypotheses | None = initial_hypotheses(self, model, sources)
        while running is not None:
            extensions = extend(running, self.size)
            if bool(extensions.ended.any()):
                running = collect_finished(running, extensions, ended, sources.lengths)
                extensions = extensions.going_on()
            running = advance(model, running, extensions)
        return [sentence.best() for sentence in ended]

    def lp(self, length: int) -> float:
        """What log-probabilities of texts of this length, EOS counted, are divided by."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def cp(self, covered: Float[Tensor, " source"]) -> float:
        """What a text loses for the source pieces that it looked at little; EOS of the source not counted."""
        wide = covered.to(widest_type(covered.device))
        return self.coverage_penalty * float(wide.clamp(NOT_COVERED, 1).log().sum())


@dataclass(slots=True)
class FinishedHypotheses:
    """The hypotheses of one sentence that have ended."""

    beam: Beam
    limit: int
    found: list[Hypothesis] = field(default_factory=list)

    def add(self, tokens: list[int], log_probability: float, covered: Float[Tensor, " source"] | None) -> None:
        """One more: score it and keep it."""
        score = log_probability / self.beam.lp(len(tokens) + 1)
        score += 0.0 if covered is None else self.beam.cp(covered)
        cut = len(tokens) >= self.limit
        self.found.append(Hypothesis(tokens=tuple(tokens), log_probability=log_probability, score=score, cut=cut))

    def best(self) -> tuple[Hypothesis, ...]:
        """The n_best of them, best first."""
        return tuple(sorted(self.found, key=lambda one: -one.score)[: self.beam.n_best])

    def to_beat(self) -> float:
        """The score that one more must pass to be among the n_best."""
        best = self.best()
        return best[-1].score if len(best) == self.beam.n_best else -torch.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenSentences:
    """What is known of each sentence that is not done.

    Attributes:
        numbers: which of the sources these are.
        limits: how many pieces a text of each may have.
        places: how many hypotheses of each may go on.
        to_beat: what a score of each must pass to matter, times the largest lp that it can come to.
    """

    numbers: tuple[int, ...]
    limits: tuple[int, ...]
    places: Int[Tensor, " sentences"]
    to_beat: Float[Tensor, " sentences"]

    def select(self, rows: Int[Tensor, " rows"]) -> "OpenSentences":
        """Some of them; itself where that is all."""
        if len(rows) == len(self.numbers):
            return self
        kept = rows.tolist()
        return OpenSentences(
            numbers=tuple(self.numbers[row] for row in kept),
            limits=tuple(self.limits[row] for row in kept),
            places=self.places[rows],
            to_beat=self.to_beat[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActiveHypotheses:
    """The hypotheses under way: of every sentence as many, likeliest first, all of the same length.

    Attributes:
        sentences: whose they are; those that are done have left.
        tokens: the pieces of each hypothesis.
        log_probability: of those pieces; -inf = there is none in this place.
        covered: how much each source piece has been looked at; None where there is no coverage penalty.
        step: what the model expects next; its rows are sentences × places.
    """

    sentences: OpenSentences
    tokens: Int[Tensor, "sentences width length"]
    log_probability: Float[Tensor, "sentences width"]
    covered: Float[Tensor, "sentences width source"] | None
    step: DecoderStep


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extensions:
    """The likeliest extensions of each sentence's hypotheses by one token, likeliest first.

    Attributes:
        parents: which hypothesis each extends.
        tokens: by what.
        log_probability: with it; -inf = there is no place for it.
    """

    parents: Int[Tensor, "sentences extensions"]
    tokens: Int[Tensor, "sentences extensions"]
    log_probability: Float[Tensor, "sentences extensions"]

    @property
    def ended(self) -> Bool[Tensor, "sentences extensions"]:
        """Which have taken EOS."""
        return (self.tokens == EOS) & (self.log_probability > -torch.inf)

    def going_on(self) -> "Extensions":
        """Those that have not taken EOS, again likeliest first."""
        without = self.log_probability.masked_fill(self.tokens == EOS, -torch.inf)
        log_probability, order = without.sort(dim=1, descending=True, stable=True)
        return Extensions(
            parents=self.parents.gather(1, order), tokens=self.tokens.gather(1, order), log_probability=log_probability
        )

    def select(self, rows: Int[Tensor, " rows"]) -> "Extensions":
        """Those of some sentences; itself where that is all."""
        if len(rows) == len(self.tokens):
            return self
        return Extensions(
            parents=self.parents[rows], tokens=self.tokens[rows], log_probability=self.log_probability[rows]
        )


def initial_hypotheses(beam: Beam, model: TranslatingModel, sources: SourceBatch) -> ActiveHypotheses:
    """One hypothesis for each sentence: its prefix."""
    step, log_probability = read_prefixes(model, sources)
    n = len(sources.limits)
    sentences = OpenSentences(
        numbers=tuple(range(n)),
        limits=sources.limits,
        places=torch.full((n,), beam.size, device=log_probability.device),
        to_beat=torch.full_like(log_probability, -torch.inf),
    )
    return ActiveHypotheses(
        sentences=sentences,
        tokens=sources.prefix[:, None],
        log_probability=log_probability[:, None],
        covered=cross_weights(step.cross).sum(dim=1)[:, None] if beam.coverage_penalty else None,
        step=step,
    )


def extend(running: ActiveHypotheses, size: int) -> Extensions:
    """The likeliest extensions that there are places for. (Those of all are among the likeliest of each hypothesis.)"""
    logits, n_sentences, length = running.step.logits, len(running.tokens), running.tokens.shape[2]
    n_each = min(size, logits.shape[2])
    each, tokens = top_tokens(logits, n_each, length, running.sentences.limits)
    each, tokens = each.view(n_sentences, -1, n_each), tokens.view(n_sentences, -1)
    total = (running.log_probability[:, :, None] + each).flatten(1)
    log_probability, chosen = total.topk(min(size, total.shape[1]), dim=1)
    placed = torch.arange(chosen.shape[1], device=chosen.device) < running.sentences.places[:, None]
    return Extensions(
        parents=chosen // n_each,
        tokens=tokens.gather(1, chosen),
        log_probability=log_probability.where(placed, -torch.inf),
    )


def collect_finished(
    running: ActiveHypotheses, extensions: Extensions, ended: list[FinishedHypotheses], lengths: Int[Tensor, " batch"]
) -> ActiveHypotheses:
    """Keep what has ended; the same hypotheses under way, with the places that are left and what is to beat."""
    numbers = running.sentences.numbers
    for row, place in extensions.ended.nonzero().tolist():
        parent = int(extensions.parents[row, place])
        covered = None if running.covered is None else running.covered[row, parent, : int(lengths[numbers[row]]) - 1]
        log_probability = float(extensions.log_probability[row, place])
        ended[numbers[row]].add(running.tokens[row, parent].tolist(), log_probability, covered)
    now = [ended[number] for number in numbers]
    places = running.sentences.places.new_tensor([one.beam.size - len(one.found) for one in now])
    to_beat = running.sentences.to_beat.new_tensor([one.to_beat() * one.beam.lp(one.limit + 1) for one in now])
    return replace(running, sentences=replace(running.sentences, places=places, to_beat=to_beat))


def advance(model: TranslatingModel, running: ActiveHypotheses, extensions: Extensions) -> ActiveHypotheses | None:
    """Let the model read the tokens of extensions that all go on; None where none of any sentence matters."""
    mattering = (extensions.log_probability[:, 0] > running.sentences.to_beat).nonzero()[:, 0]
    if not len(mattering):
        return None
    extensions = extensions.select(mattering)
    # No wider than the sentence with the most needs
    width = int((extensions.log_probability > -torch.inf).sum(dim=1).max())
    log_probability, parents = extensions.log_probability[:, :width], extensions.parents[:, :width]
    tokens = extensions.tokens[:, :width]
    rows = (mattering[:, None] * running.tokens.shape[1] + parents).flatten()
    step = model.step(tokens.flatten()[:, None], select_rows(running.step.state, rows, running.log_probability.numel()))
    before = running.tokens.flatten(0, 1)[rows]
    return ActiveHypotheses(
        sentences=running.sentences.select(mattering),
        tokens=torch.cat([before.view(*tokens.shape, -1), tokens[:, :, None]], dim=2),
        log_probability=log_probability,
        covered=None
        if running.covered is None
        else updated_coverage(running.covered, rows, step).view(*tokens.shape, -1),
        step=step,
    )


def updated_coverage(
    covered: Float[Tensor, "sentences width source"], rows: Int[Tensor, " rows"], step: DecoderStep
) -> Float[Tensor, "rows source"]:
    """How much each source piece has been looked at by the hypotheses of these rows, their next token with them."""
    return covered.flatten(0, 1)[rows] + cross_weights(step.cross).view(len(rows), -1)
