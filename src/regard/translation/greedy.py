"""Greedy search: always the likeliest next token."""

from dataclasses import dataclass

import torch

from regard.translation.model import TranslatingModel
from regard.translation.search import Hypothesis, Sources, follow


@dataclass(frozen=True)
class Greedy:
    """Take the likeliest token, again and again; the fastest search, and what `Beam(1)` finds.

    The score is the log-probability.
    """

    @torch.inference_mode()
    def run(self, model: TranslatingModel, sources: Sources) -> list[tuple[Hypothesis, ...]]:
        """One hypothesis for each source."""
        return follow(model, sources, lambda known, rows, length: known.argmax(dim=1))
