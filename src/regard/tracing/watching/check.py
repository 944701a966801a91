"""Checks attention patterns: contexts recomputed from them must equal the contexts that the model computed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.attend import Attended


@dataclass(frozen=True, slots=True)
class Check:
    """The difference between contexts recomputed as weights @ value and the contexts that the model's kernel returned.

    Attributes:
        max_error: the largest absolute difference of a number in any layer; NaN if a context contains NaN.
        magnitude: the largest absolute value in the kernel's contexts; NaN if one of them contains NaN.
        backends: the names of the backends that computed the contexts in the model.
    """

    max_error: float
    magnitude: float
    backends: tuple[str, ...]


def check_contexts(steps: Sequence[Attended]) -> Check:
    """Recompute the context of each attention call as weights @ value, and compare it with the recorded context."""
    with torch.no_grad():
        errors = [largest_magnitude(step.pattern.apply(step.pattern.value) - step.context) for step in steps]
        sizes = [largest_magnitude(step.context) for step in steps]
    return Check(
        max_error=largest_magnitude(torch.tensor(errors)),
        magnitude=largest_magnitude(torch.tensor(sizes)),
        backends=tuple(sorted({step.backend for step in steps})),
    )


def largest_magnitude(numbers: Tensor) -> float:
    return float(numbers.abs().max()) if numbers.numel() else 0.0
