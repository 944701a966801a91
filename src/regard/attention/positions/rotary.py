"""Rotary positions (RoPE): queries and keys are rotated by angles that grow with the positions of their tokens."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.positions.rope_scaling import Stretch
from regard.attention.representation import Described

Pairing = Literal["halves", "neighbours"]
"""The two numbers of a vector that form pair p: "halves" = p and p + d_rotary / 2; "neighbours" = 2p and 2p + 1."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rotary(Described):
    """Rotary positions: rotate each pair of numbers in queries and keys by an angle that grows with the position.

    The dot product of a rotated query and a rotated key depends on the difference of their positions only.

        angle of pair p at position m = m · base^(-2p / d_rotary)

    Rotations are computed in float32 or float64; float16 and bfloat16 vectors are rounded once, after the rotation.

    Args:
        base: the base of the angles; the larger it is, the more slowly the last pairs rotate.
        pairing: "halves" pairs number p with number p + d_rotary / 2, as in the checkpoints of Llama and GPT-NeoX;
            "neighbours" pairs number 2p with number 2p + 1, as in the paper and GPT-J.
        d_rotary: how many numbers at the start of each vector are rotated; the others are unchanged. None = all.
        stretch: RoPE scaling for texts longer than in training, such as `Interpolate` or `Yarn`; None = no scaling.

    Raises:
        ValueError: pairing is unknown; d_rotary is odd or below 2; or, raised by the call, d_rotary is larger than the
            width of the vectors, or is None and the width of the vectors is odd.

    >>> from regard import Rotary
    >>> Rotary()(torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2), torch.arange(3))[0, 0]
    tensor([[ 1.0000,  0.0000],
            [ 0.5403,  0.8415],
            [-0.4161,  0.9093]])

    Source: Su et al. 2021, equation 34; d_rotary: Black et al. 2022 (GPT-NeoX), section 2.1.
    """

    base: float = 10_000.0
    pairing: Pairing = "halves"
    d_rotary: int | None = None
    stretch: Stretch | None = None

    def __post_init__(self) -> None:
        if self.pairing not in get_args(Pairing):
            raise ValueError(f"pairing={self.pairing!r} is unknown; it is one of {', '.join(get_args(Pairing))}.")
        if self.d_rotary is not None and (self.d_rotary < 2 or self.d_rotary % 2):
            raise ValueError(
                f"d_rotary={self.d_rotary} numbers cannot be rotated in pairs; it must be even and at least 2."
            )

    def __call__(
        self, vectors: Float[Tensor, "batch heads tokens d_head"], positions: Int[Tensor, " tokens"]
    ) -> Float[Tensor, "batch heads tokens d_head"]:
        """Return queries or keys with each pair of numbers rotated by the pair's angle at the position of the token."""
        d_head = vectors.shape[-1]
        d_rotary = d_head if self.d_rotary is None else self.d_rotary
        if d_rotary > d_head:
            raise ValueError(f"d_rotary={d_rotary} is more than the {d_head} numbers of a head; take at most {d_head}.")
        if d_rotary % 2:
            raise ValueError(
                f"rotary positions rotate pairs of numbers, so the width of a head must be even; got {d_head}."
            )
        wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        cos, sin = self.cos_and_sin(positions, d_rotary, wide)
        rotated = rotate(wide[..., :d_rotary], cos, sin, self.pairing)
        return torch.cat([rotated.to(vectors), vectors[..., d_rotary:]], dim=-1)

    def cos_and_sin(
        self, positions: Int[Tensor, " tokens"], d_rotary: int, like: Tensor
    ) -> tuple[Float[Tensor, "tokens pairs"], Float[Tensor, "tokens pairs"]]:
        """Return the cosine and the sine of the angle of each pair at each position.

        With the RoPE scaling `Yarn`, cosine and sine are multiplied by its `size`.

        Args:
            d_rotary: how many numbers of each vector are rotated; they form d_rotary / 2 pairs.
            like: a tensor with the data type and device of the result.
        """
        angles = positions[:, None].to(like) * self.frequencies(d_rotary).to(like)
        size = 1.0 if self.stretch is None else self.stretch.size
        return angles.cos() * size, angles.sin() * size

    def frequencies(self, d_rotary: int) -> Float[Tensor, " pairs"]:
        """Return, for each of d_rotary / 2 pairs, the angle of its rotation per position, in radians and float64."""
        frequencies = self.base ** -(torch.arange(0, d_rotary, 2, dtype=torch.float64, device="cpu") / d_rotary)
        return frequencies if self.stretch is None else self.stretch(frequencies, self.base)


def rotate(
    vectors: Float[Tensor, "batch heads tokens d"],
    cos: Float[Tensor, "tokens pairs"],
    sin: Float[Tensor, "tokens pairs"],
    pairing: Pairing,
) -> Float[Tensor, "batch heads tokens d"]:
    """Return vectors in which each pair (a, b) of numbers is rotated to (a cos - b sin, b cos + a sin)."""
    axes = "(pair p)" if pairing == "halves" else "(p pair)"
    first, second = rearrange(vectors, f"batch heads tokens {axes} -> pair batch heads tokens p", pair=2)
    rotated = torch.stack([first * cos - second * sin, second * cos + first * sin])
    return rearrange(rotated, f"pair batch heads tokens p -> batch heads tokens {axes}")
