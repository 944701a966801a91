"""Minimum Bayes risk decoding: of several candidates, choose the one most similar to samples of the model.

    score(candidate) = mean over samples of chrF(candidate, sample) / 100

The candidates come from beam search; the samples are drawn from the model's probabilities. No text has much
probability, so that the most probable text can be unlike most samples. A text that is similar to many samples is rarely
unusual. With 32 samples the search takes about 32 times the time of greedy search.

Source: Kumar & Byrne 2004; Eikema & Aziz 2022, "Sampling-based approximations to minimum Bayes risk decoding".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.errors import import_extra
from regard.text.keyed_random import seed_of
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.beam import Beam
from regard.translation.search.interface import Hypothesis, SourceBatch, TextOf
from regard.translation.search.sampling import Sample


@dataclass(frozen=True, slots=True)
class MinimumRisk:
    """Minimum Bayes risk decoding: choose the candidate most similar (by mean chrF) to samples of the model.

    Args:
        n_samples: the number of samples for each source.
        candidates: the beam search whose `n_best` hypotheses are the candidates.
        sample: how the samples are drawn; each sample has a seed of its own, derived from the seed of `sample`.
        n_best: the number of candidates to return, best first.
    """

    n_samples: int = 32
    candidates: Beam = Beam(5, n_best=5)  # noqa: RUF009 (frozen)
    sample: Sample = Sample()  # noqa: RUF009 (frozen)
    n_best: int = 1

    def __post_init__(self) -> None:
        if self.n_samples < 1:
            raise ValueError(f"n_samples={self.n_samples} must be at least 1: candidates are compared with samples.")
        if self.candidates.n_best < 2:
            raise ValueError(
                f"candidates.n_best={self.candidates.n_best} leaves nothing to choose; it must be at least 2."
            )
        if not 1 <= self.n_best <= self.candidates.n_best:
            raise ValueError(
                f"n_best={self.n_best} must be at least 1 and at most {self.candidates.n_best}, the number of "
                "candidates."
            )

    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """Return, for each source, the `n_best` candidates most similar to the samples, best first.

        Raises:
            ValueError: `sources.text_of`, which turns ids into the texts that are compared, is None.
            InputError: sacrebleu, which computes the similarity chrF, is not installed.
        """
        text_of = sources.text_of
        if text_of is None:
            raise ValueError("MinimumRisk compares texts: give the sources a text_of, such as a vocabulary's decode.")
        samples = [search.run(model, sources) for search in self.searches()]
        results = list[tuple[Hypothesis, ...]]()
        for source_index, candidates in enumerate(self.candidates.run(model, sources)):
            samples_of_source = [sample[source_index][0] for sample in samples]  # a sample: one hypothesis a source
            sample_texts = [text_of(hypothesis.tokens) for hypothesis in samples_of_source]
            results.append(self.ranked(candidates, sample_texts, text_of))
        return results

    def searches(self) -> list[Sample]:
        """Return the searches that draw the samples: `n_samples` copies of `sample`, each with a seed of its own."""
        return [replace(self.sample, seed=seed_of(self.sample.seed, number)) for number in range(self.n_samples)]

    def ranked(
        self, candidates: Sequence[Hypothesis], samples: Sequence[str], text_of: TextOf
    ) -> tuple[Hypothesis, ...]:
        """Return the `n_best` candidates most similar to the samples, best first; the mean chrF becomes their score."""
        scored = [replace(candidate, score=mean_chrf(text_of(candidate.tokens), samples)) for candidate in candidates]
        return tuple(sorted(scored, key=lambda candidate: -candidate.score)[: self.n_best])


def mean_chrf(text: str, samples: Sequence[str]) -> float:
    """Return the mean chrF (similarity of character n-grams, from 0 to 1) between a text and the samples."""
    chrf = import_extra("sacrebleu", "translation").CHRF()
    return sum(chrf.sentence_score(text, [sample]).score for sample in samples) / (100 * len(samples))
