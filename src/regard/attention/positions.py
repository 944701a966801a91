"""Positions as vectors: added to the tokens that come in, or entering through query and key themselves.

    sinusoidal          a wave for each number of a token's vector       Vaswani et al. 2017, section 3.5
    LearnedPositions    a learned vector for each position               Gehring et al. 2017, section 3.1
    Rotary              query and key turned by their positions          Su et al. 2021, equation 34

Positions that enter through the scores are biases: see `biases.py` and `scores/shaw.py`.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.introduce import introduce
from regard.attention.stretches import Stretch

Pairing = Literal["halves", "neighbours"]
"""Which numbers of a vector form a pair: p with p + d_rotary / 2, or 2p with 2p + 1."""

WaveOrder = Literal["interleaved", "sines first"]
"""How the waves lie in a vector: sine and cosine by turns, or all sines and then all cosines."""


@dataclass(frozen=True, slots=True, repr=False)
class Rotary:
    """Turn each pair of a vector's numbers by an angle that grows with its position.

    The product of a turned query and a turned key then depends on how far apart they are, not on where they stand.

        angle of pair p at position m = m · base^(-2p / d_rotary)

    Angles are computed in float32 or better, and a vector of a half type is rounded once, when it has been turned.

    Args:
        base: how slowly the slowest pair turns.
        pairing: "halves" pairs number p with number p + d_rotary / 2, as the checkpoints of Llama and GPT-NeoX;
            "neighbours" pairs 2p with 2p + 1, as the paper and GPT-J.
        d_rotary: only the first so many numbers turn, the others stay as they are; None = all.
        stretch: how a model trained on short texts reads longer ones: `Interpolate`, `Yarn`, …; None = not at all.

    Raises:
        ValueError: an unknown pairing; an odd width, which has no pairs; a d_rotary wider than the vectors.

    >>> from regard import Rotary
    >>> Rotary()(torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2), torch.arange(3))[0, 0]
    tensor([[ 1.0000,  0.0000],
            [ 0.5403,  0.8415],
            [-0.4161,  0.9093]])

    Source: Su et al. 2021, equation 34; a part of the width: Black et al. 2022 (GPT-NeoX), section 2.1.
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
                f"d_rotary={self.d_rotary} numbers cannot be turned in pairs; it must be even and at least 2."
            )

    def __call__(
        self, vectors: Float[Tensor, "batch heads tokens d_head"], positions: Int[Tensor, " tokens"]
    ) -> Float[Tensor, "batch heads tokens d_head"]:
        """The vectors, each turned to its position."""
        d_head = vectors.shape[-1]
        d_rotary = d_head if self.d_rotary is None else self.d_rotary
        if d_rotary > d_head:
            raise ValueError(f"d_rotary={d_rotary} is more than the {d_head} numbers of a head; take at most {d_head}.")
        if d_rotary % 2:
            raise ValueError(
                f"rotary positions turn pairs of numbers, so the width of a head must be even; got {d_head}."
            )
        wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        cos, sin = self.cos_and_sin(positions, d_rotary, wide)
        turned = turn(wide[..., :d_rotary], cos, sin, self.pairing)
        return torch.cat([turned.to(vectors), vectors[..., d_rotary:]], dim=-1)

    def cos_and_sin(
        self, positions: Int[Tensor, " tokens"], d_rotary: int, like: Tensor
    ) -> tuple[Float[Tensor, "tokens pairs"], Float[Tensor, "tokens pairs"]]:
        """Of the angle by which each pair of a vector turns, times the stretch's size."""
        angles = positions[:, None].to(like) * self.speeds(d_rotary).to(like)
        size = 1.0 if self.stretch is None else self.stretch.size
        return angles.cos() * size, angles.sin() * size

    def speeds(self, d_rotary: int) -> Float[Tensor, " pairs"]:
        """By how much each pair turns from one position to the next, in float64."""
        speeds = self.base ** -(torch.arange(0, d_rotary, 2, dtype=torch.float64) / d_rotary)
        return speeds if self.stretch is None else self.stretch(speeds, self.base)

    def __repr__(self) -> str:
        return introduce(self)


def turn(
    vectors: Float[Tensor, "batch heads tokens d"],
    cos: Float[Tensor, "tokens pairs"],
    sin: Float[Tensor, "tokens pairs"],
    pairing: Pairing,
) -> Float[Tensor, "batch heads tokens d"]:
    """Turn every pair (a, b) to (a cos - b sin, b cos + a sin)."""
    axes = "(pair p)" if pairing == "halves" else "(p pair)"
    first, second = rearrange(vectors, f"batch heads tokens {axes} -> pair batch heads tokens p", pair=2)
    turned = torch.stack([first * cos - second * sin, second * cos + first * sin])
    return rearrange(turned, f"pair batch heads tokens p -> batch heads tokens {axes}")


def sinusoidal(
    n_tokens: int, d_model: int, *, first: int = 0, order: WaveOrder = "interleaved"
) -> Float[Tensor, "tokens d_model"]:
    """A vector for each position that is added to its token: sines and cosines of falling frequency.

        vector[2p]     = sin(position / 10000^(2p / d_model))
        vector[2p + 1] = cos(position / 10000^(2p / d_model))

    Args:
        first: the position of the first token.
        order: "interleaved" as above; "sines first" has all sines before all cosines, as Marian does.

    Raises:
        ValueError: a negative n_tokens, a d_model below 1, an unknown order.

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
    sines, cosines = angles.sin(), angles.cos()[:, : d_model // 2]
    vectors = torch.cat([sines, cosines], dim=1)
    if order == "interleaved":
        vectors = torch.empty_like(vectors)
        vectors[:, 0::2], vectors[:, 1::2] = sines, cosines
    return vectors.float()


class LearnedPositions(nn.Module):
    """A learned vector for each position, which is added to its token.

    Args:
        max_tokens: the longest text; beyond it nothing has been learned.

    Raises:
        ValueError: a max_tokens or d_model below 1; a text that is longer than max_tokens.

    >>> LearnedPositions(max_tokens=7, d_model=4)(5).shape
    torch.Size([5, 4])

    Source: Gehring et al. 2017, section 3.1.
    """

    def __init__(self, max_tokens: int, d_model: int) -> None:
        super().__init__()
        if max_tokens < 1 or d_model < 1:
            raise ValueError(
                f"LearnedPositions(max_tokens={max_tokens}, d_model={d_model}) counts; both must be at least 1."
            )
        self.max_tokens, self.d_model = max_tokens, d_model
        self.by_position = nn.Parameter(torch.empty(max_tokens, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small numbers, as BERT and GPT-2 start with (Devlin et al. 2019's code: standard deviation 0.02)."""
        nn.init.normal_(self.by_position, std=0.02)

    def forward(self, n_tokens: int, first: int = 0) -> Float[Tensor, "tokens d_model"]:
        """The vectors of n_tokens positions.

        Args:
            first: the position of the first token, as after a cache of earlier ones.
        """
        if n_tokens < 0 or first < 0:
            raise ValueError(f"n_tokens={n_tokens} and first={first} count tokens, so neither may be negative.")
        if first + n_tokens > self.max_tokens:
            raise ValueError(
                f"a text of {first + n_tokens} tokens is longer than the max_tokens={self.max_tokens} that have a "
                "learned position; shorten it, or build and train LearnedPositions with more."
            )
        return self.by_position[first : first + n_tokens]

    def extra_repr(self) -> str:
        """Sizes."""
        return f"max_tokens={self.max_tokens}, d_model={self.d_model}"
