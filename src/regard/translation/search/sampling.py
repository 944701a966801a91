"""Sampling: each token is drawn at random from the model's distribution; each seed gives another translation.

    p_i ∝ exp(log P(i) / temperature)        normalised over all tokens, or the most probable ones (top_k, top_p)

Before the search begins, a random number u in [0, 1) is drawn for each token of a translation. The token is the first
one at which the cumulative sum of p exceeds u. The random numbers of a sentence depend only on the seed and the
sentence's number, so that its sample does not depend on the other sentences of the batch.

Source: Fan, Lewis & Dauphin 2018 (top-k); Holtzman et al. 2020, section 3.1 (top-p, the nucleus).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.precision import widest_type
from regard.text.keyed_random import seed_of
from regard.text.vocabulary import EOS
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.autoregressive import ChosenTokens, decode
from regard.translation.search.decoding import Decoding
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.search.next_token import refuse_nan, token_log_probabilities


@dataclass(frozen=True, slots=True)
class Sample:
    """Draw each token from the model's distribution.

    The score of a translation is its log-probability at temperature 1 and over all tokens.

    Args:
        temperature: below 1, probable tokens become more probable; above 1, the probabilities become more alike.
        top_k: draw from the k most probable tokens; None = from all tokens.
        top_p: draw from the smallest set of most probable tokens whose probabilities sum to at least p; None = from all
            tokens. With top_k, the probabilities are first normalised over the k tokens.
        seed: the seed of the random numbers.
        n_best: the number of translations of each source, in the order drawn: with the seeds seed, seed + 1, and so on;
            0 follows the largest seed.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    n_best: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(
                f"temperature={self.temperature} must be a number above 0; for the most probable token use Greedy()."
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k} must be at least 1: there must be a token to draw.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be a probability above 0 and at most 1.")
        if self.n_best < 1:
            raise ValueError(f"n_best={self.n_best} must be at least 1.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed={self.seed} must be a whole number from 0 to 2⁶³ - 1.")

    @torch.inference_mode()
    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """Return for each source a tuple with its sampled hypotheses, as many as `n_best`, in the order drawn."""
        if self.n_best > 1:
            seeds = [(self.seed + n) % 2**63 for n in range(self.n_best)]
            samples = [replace(self, seed=seed, n_best=1).run(model, sources) for seed in seeds]
            samples_by_source = zip(*samples, strict=True)
            return [tuple(hypothesis for (hypothesis,) in of_source) for of_source in samples_by_source]
        device = sources.lengths.device
        uniform = random_numbers(self.seed, sources.numbers, max(sources.limits) + 1)
        uniform = uniform.to(widest_type(device)).to(device)

        def choose(decoding: Decoding, indices: Sequence[int], length: int, limits: Sequence[int]) -> ChosenTokens:
            log_probability = token_log_probabilities(decoding.logits, length, limits)
            # NaN in the logits makes a whole row NaN; the column of EOS shows it, since no rule sets EOS to -inf
            refuse_nan(log_probability[:, EOS].tolist())
            random_numbers_of_step = uniform[indices, length]  # one for each source
            tokens = self.draw(log_probability, random_numbers_of_step)
            return tokens.tolist(), log_probability.gather(1, tokens[:, None])[:, 0].tolist()

        return decode(model, sources, choose)

    def draw(
        self, log_probability: Float[Tensor, "rows vocabulary"], uniform: Float[Tensor, " rows"]
    ) -> Int[Tensor, " rows"]:
        """Draw a token for each row from its distribution; `uniform` has a random number in [0, 1) for each row.

        >>> log_probability = torch.tensor([[0.2, 0.5, 0.3]]).log()
        >>> [int(Sample().draw(log_probability, torch.tensor([u]).double())) for u in (0.1, 0.6, 0.9)]
        [0, 1, 2]
        """
        largest = log_probability.amax(dim=1, keepdim=True)
        scaled = (log_probability - largest).to(widest_type(log_probability.device)) / self.temperature
        tokens = torch.arange(scaled.shape[1], device=scaled.device).expand_as(scaled)
        if self.top_k is not None or self.top_p is not None:  # top_p needs the tokens in the order of probability
            n_tokens = scaled.shape[1] if self.top_k is None else min(self.top_k, scaled.shape[1])
            scaled, tokens = scaled.topk(n_tokens, dim=1)
        probabilities = scaled.softmax(dim=1)
        if self.top_p is not None:
            sum_before = probabilities.cumsum(dim=1) - probabilities
            probabilities = probabilities.masked_fill(sum_before >= self.top_p, 0.0)
        sums = probabilities.cumsum(dim=1)
        total = sums[:, -1:]
        # The token drawn is the first one whose sum is larger than the threshold. Rounding could make `uniform` · total
        # equal to the total; then no sum would be larger.
        below_total = total.nextafter(torch.zeros_like(total))
        threshold = torch.minimum(uniform[:, None] * total, below_total)
        return tokens.gather(1, torch.searchsorted(sums, threshold, right=True))[:, 0]


def random_numbers(seed: int, sentence_numbers: tuple[int, ...], n: int) -> Float[Tensor, "rows n"]:
    """Return n random numbers in [0, 1) for each sentence, determined by the seed and the sentence's number alone."""
    rows = []
    for number in sentence_numbers:
        generator = torch.Generator().manual_seed(seed_of(seed, number))
        rows.append(torch.rand(n, generator=generator, dtype=torch.float64))
    return torch.stack(rows)
