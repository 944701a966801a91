"""Recurrent models whose parameters are all random and large, so that each of them has an effect."""

from collections.abc import Callable

import pytest
import torch

from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent


@pytest.fixture
def loud() -> Callable[..., Recurrent]:
    """loud(form="bahdanau") builds a small model in float64; its sizes are all different, and prime where they can be.

    The same choices give the same parameters.
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
