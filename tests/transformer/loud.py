"""Small models with large random parameters, so that every part of them has an effect."""

from typing import TypeVar

import torch
from torch import nn

from regard.transformer.config import TransformerConfig

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def loud(module: AnyModule, seed: int = 0) -> AnyModule:
    """Return the module in float64 with new random parameters, also for biases and norms."""
    generator = torch.Generator().manual_seed(seed)
    module.double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            scale = 1.5 * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.3
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(noise * scale + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
    return module


def small(**given: object) -> TransformerConfig:
    """Return a config whose sizes are all different, and prime numbers if possible."""
    sizes = {"n_source_tokens": 31, "n_target_tokens": 37, "d_model": 24, "n_heads": 6, "d_ff": 29, "max_tokens": 41}
    layers = {"n_layers": 2, "n_decoder_layers": 3}
    return TransformerConfig(**{**sizes, **layers, **given})
