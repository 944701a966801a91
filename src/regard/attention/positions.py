"""Positions that enter through query and key themselves: rotary embeddings.

Source: Su et al. 2021, "RoFormer", equation 34.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rotary:
    """Turn each pair of a vector's numbers by an angle that grows with its position.

    The product of a turned query and a turned key then depends on how far apart they are, not on where they stand.

        angle of pair p at position m = m · base^(-2p / d_head)

    Departure: number p is paired with number p + d_head / 2, as in Llama's checkpoints; the paper pairs neighbours.

    Args:
        base: how slowly the slowest pair turns.

    Source: Su et al. 2021, equation 34.
    """

    base: float = 10_000.0

    def __call__(
        self, vectors: Float[Tensor, "batch heads tokens d_head"], positions: Int[Tensor, " tokens"]
    ) -> Float[Tensor, "batch heads tokens d_head"]:
        """The vectors, each turned to its position.

        Raises:
            ValueError: an odd width, which has no pairs.
        """
        d_head = vectors.shape[-1]
        if d_head % 2:
            raise ValueError(
                f"rotary positions turn pairs of numbers, so the width of a head must be even; got {d_head}."
            )
        exponents = torch.arange(0, d_head, 2, device=vectors.device, dtype=torch.float32) / d_head
        angles = positions[:, None].to(torch.float32) * self.base**-exponents
        cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
        first, second = vectors.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
