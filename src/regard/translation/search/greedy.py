"""Greedy search: always the likeliest next token."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.interface import Chosen, Hypothesis, SourceBatch, decode, top_tokens


@dataclass(frozen=True)
class Greedy:
    """Take the likeliest token, again and again; the fastest search, and what `Beam(1)` finds.

    The score is the log-probability.
    """

    @torch.inference_mode()
    def run(self, model: TranslatingModel, sources: SourceBatch) -> list[tuple[Hypothesis, ...]]:
        """One hypothesis for each source."""

        def choose(logits: Tensor, rows: Tensor, length: int, limits: Sequence[int]) -> Chosen:
            log_probability, tokens = top_tokens(logits, 1, length, limits)
            return tokens[:, 0], log_probability[:, 0]

        return decode(model, sources, choose)
