"""Recurrent models whose parameters are all random and large, so that each of them has an effect."""

from collections.abc import Callable

import pytest
import torch

from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent


@pytest.fixture
def loud() -> Callable[..., Recurrent]:
    """Return a function: loud(form="bahdanau") builds a small float64 model with large, seeded random parameters.

    Its sizes are all different, and most are prime numbers.
    """

    def build(**given: object) -> Recurrent:
        sizes = {"n_source_tokens": 31, "n_target_tokens": 37, "d_model": 14, "n_layers": 2, "max_tokens": 41}
        model = Recurrent(RecurrentConfig(**{**sizes, "reach": 3, **given})).double().eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                scale = 1.5 * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * scale)
        return model

    return build
