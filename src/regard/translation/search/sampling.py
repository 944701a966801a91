"""Sampling: the next token is drawn, so that the same source gives many translations.

    p_i ∝ exp(log P(i) / temperature)        over the top_k likeliest tokens, or the top_p of the probability, or all

One number u in [0, 1) is drawn for each token before the search begins, and the token is the first at which the sum of
the probabilities passes u. A sentence's numbers follow from the seed and the sentence's own number, so that a sample is
the same whichever sentences it shares a batch with.

Source: Fan, Lewis & Dauphin 2018 (top-k); Holtzman et al. 2020, section 3.1 (top-p, the nucleus).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.precision import widest_type
from regard.text.keyed_random import seed_of
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.interface import Chosen, Hypothesis, SourceBatch, decode, token_log_probabilities


@dataclass(frozen=True, slots=True)
class Sample:
    """Draw each token from what the model expects.

    The score is the model's own log-probability, at temperature 1 and over all tokens.

    Args:
        temperature: below 1 the likely become likelier, above 1 all become alike.
        top_k: draw from this many of the likeliest tokens; None = all.
        top_p: draw from the fewest of the likeliest tokens that have at least this probability together; None = all.
            With top_k, both hold: what is left of them is what top_p looks at.
        seed: another seed, other translations.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(
                f"temperature={self.temperature} must be a number above 0; for the likeliest token take Greedy()."
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k} must be at least 1: there must be a token to draw.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} is a probability; it must be above 0 and at most 1.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed={self.seed} must be a whole number from 0 to 2⁶³ - 1.")

    @torch.inference_mode()
    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """One hypothesis for each source."""
        device = sources.lengths.device
        wide = widest_type(device)
        numbers = random_numbers(self.seed, sources.numbers, max(sources.limits) + 1).to(wide).to(device)

        def choose(logits: Tensor, rows: Tensor, length: int, limits: Sequence[int]) -> Chosen:
            known = token_log_probabilities(logits, length, limits)
            tokens = self.draw(known, numbers[rows, length])
            return tokens, known.gather(1, tokens[:, None])[:, 0].to(wide)

        return decode(model, sources, choose)

    def draw(self, known: Float[Tensor, "rows vocabulary"], numbers: Float[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The token of each row at which the sum of the probabilities passes the row's number.

        >>> known = torch.tensor([[0.2, 0.5, 0.3]]).log()
        >>> [int(Sample().draw(known, torch.tensor([u]).double())) for u in (0.1, 0.6, 0.9)]
        [0, 1, 2]
        """
        scaled = (known - known.amax(dim=1, keepdim=True)).to(widest_type(known.device)) / self.temperature
        tokens = torch.arange(scaled.shape[1], device=scaled.device).expand_as(scaled)
        if self.top_k is not None or self.top_p is not None:
            scaled, tokens = scaled.topk(min(self.top_k or scaled.shape[1], scaled.shape[1]), dim=1)
        probabilities = scaled.softmax(dim=1)
        if self.top_p is not None:
            before = probabilities.cumsum(dim=1) - probabilities
            probabilities = probabilities.masked_fill(before >= self.top_p, 0.0)
        sums = probabilities.cumsum(dim=1)
        total = sums[:, -1:]
        passed = torch.minimum(numbers[:, None] * total, total.nextafter(torch.zeros_like(total)))  # never all of it
        return tokens.gather(1, torch.searchsorted(sums, passed, right=True))[:, 0]


def random_numbers(seed: int, numbers: tuple[int, ...], n: int) -> Float[Tensor, "rows n"]:
    """n numbers in [0, 1) for each sentence, from the seed and the sentence's own number."""
    rows = []
    for number in numbers:
        generator = torch.Generator().manual_seed(seed_of(seed, number))
        rows.append(torch.rand(n, generator=generator, dtype=torch.float64))
    return torch.stack(rows)
