"""Sinusoidal positions: a vector of sines and cosines for each position, added to the embedding of the token there."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

WaveOrder = Literal["interleaved", "sines first"]
"""The order of numbers in a vector: "interleaved" = sine, cosine, sine, cosine, …; "sines first" = sines, cosines."""


def sinusoidal(
    n_tokens: int, d_model: int, *, first: int = 0, order: WaveOrder = "interleaved"
) -> Float[Tensor, "tokens d_model"]:
    """Return a vector of sines and cosines for each position, to be added to the embedding of the token there.

        vector[2p]     = sin(position / 10000^(2p / d_model))
        vector[2p + 1] = cos(position / 10000^(2p / d_model))          for p = 0, 1, 2, …

    Args:
        n_tokens: the number of consecutive positions.
        d_model: width of the vectors.
        first: the first of these positions.
        order: "interleaved" as in the equations; "sines first", as in Marian, has all sines before all cosines.

    Raises:
        ValueError: n_tokens is negative, d_model is below 1, or order is unknown.

    >>> sinusoidal(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])

    Source: Vaswani et al. 2017, section 3.5.
    """
    if n_tokens < 0 or d_model < 1:
        raise ValueError(
            f"sinusoidal({n_tokens}, {d_model}) has no vectors to give; "
            "n_tokens must be at least 0 and d_model at least 1."
        )
    if order not in get_args(WaveOrder):
        raise ValueError(f"order={order!r} is unknown; it is one of {', '.join(get_args(WaveOrder))}.")
    positions = torch.arange(first, first + n_tokens, dtype=torch.float64)[:, None]
    angles = positions / 10_000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    if order == "interleaved":
        vectors = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    else:
        vectors = torch.cat([angles.sin(), angles.cos()], dim=1)
    return vectors[:, :d_model].float()  # an odd d_model has one cosine less than sines
