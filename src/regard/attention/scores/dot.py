"""Dot-product scores: the score of a query and a key is their dot product, which may be scaled."""

import math
from dataclasses import dataclass, replace
from typing import SupportsFloat

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.constant import constant
from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import type_name
from regard.attention.scores.biases.bias import Bias, Rounded, numbers_of_bias
from regard.attention.scores.score import Key, Query, Score, Scores
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ScaledDot(EqualFields, Score):
    """The dot product of query and key, times a scale; optionally bounded by a softcap, and with a bias added.

        scores = scale · query · key
        scores = softcap · tanh(scores / softcap)          unless softcap is None
        scores = scores + bias                             unless bias is None

    Dot products of wide vectors are large, so that softmax would give nearly all weight to one key. The default scale
    prevents this.

    Args:
        scale: the factor of the dot product; None = 1 / sqrt(d_key).
        softcap: the bound of the scores: the tanh keeps them between -softcap and softcap; None = no bound.
        bias: numbers added to the scores: a tensor that broadcasts to [batch heads queries keys], which may require
            gradients, or a rule such as `Alibi()`, which computes the numbers for one block of queries × keys at a
            time. The numbers are rounded to the data type of the query, because PyTorch's fused attention kernels
            require it. A bias of -∞ masks a key. None = no bias.

    Raises:
        ValueError: scale is not finite, or softcap is not above 0 and finite.
        TypeError: scale is not a number, or is a tensor that requires gradients; bias is neither a floating-point
            tensor nor a `Bias`.

    Source: Vaswani et al. 2017, equation 1; softcap: Gemma 2, 2024, section 2; bias: Raffel et al. 2020, section 2.1.
    """

    scale: float | None = None
    softcap: float | None = None
    bias: Float[Tensor, "*shape"] | Bias | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", fixed_scale(self.scale))
        if self.softcap is not None and not 0 < self.softcap <= torch.finfo(torch.float32).max:
            raise ValueError(
                f"softcap={self.softcap} bounds the scores to ±softcap, so it must be above 0 and finite in float32; "
                "None = no bound."
            )
        if not isinstance(self.bias, Tensor | Bias | None):
            raise TypeError(
                f"bias is {type_name(self.bias)}; it takes a tensor that broadcasts to "
                "[batch heads queries keys], a rule such as Alibi(), or None."
            )
        if isinstance(self.bias, Tensor) and not self.bias.is_floating_point():
            raise TypeError(
                f"bias has dtype {self.bias.dtype}; a bias is floating-point numbers that are added to the scores. "
                "To say which keys a query may attend to, give a mask: mask=…."
            )

    def factor(self, d_key: int) -> float:
        """Return the factor of the dot products: `scale`, or 1 / sqrt(d_key) if scale is None."""
        return 1 / math.sqrt(d_key) if self.scale is None else self.scale

    def __call__(self, query: Query, key: Key, tile: Tile) -> Scores:
        scores = query @ key.mT * self.factor(query.shape[-1])
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + numbers_of_bias(self.bias, tile, query.device, query.dtype).to(query)
        return scores

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        if self.bias is None:
            return None
        device = torch.device("cpu")  # ignored by a tensor and by the `Rounded` bias that `of_type` makes
        return numbers_of_bias(self.bias, tile, device) != -torch.inf

    def of_type(self, query: Tensor) -> "ScaledDot":
        if self.bias is None:
            return self
        if isinstance(self.bias, Bias):
            return replace(self, bias=Rounded(self.bias, query.dtype, query.device))
        return replace(self, bias=self.bias.to(query))

    def check(self, grid: Grid) -> None:
        if self.bias is None:
            return
        if isinstance(self.bias, Bias):
            self.bias.check(grid)
        elif not grid.admits(self.bias):
            raise ValueError(
                f"bias of shape {list(self.bias.shape)} does not broadcast to {list(grid.shape)} "
                "(batch, heads, queries, keys); every axis must have that size or 1."
            )


def fixed_scale(scale: object) -> float:
    if not isinstance(scale, SupportsFloat) or getattr(scale, "ndim", 0) != 0:
        raise TypeError(f"scale is {type_name(scale)}; it takes a number, or None = 1 / sqrt(d_key).")
    instead = "give float(scale), or score=Cosine(scale), whose scale can be learned"
    number = float(constant("ScaledDot", "scale", scale, instead))
    if not -math.inf < number < math.inf:
        raise ValueError(f"scale={number} multiplies every product, so it must be finite; None = 1 / sqrt(d_key).")
    return number


def Dot() -> ScaledDot:  # noqa: N802 (a function named like a class, since the other scores are classes)
    """Return the score query · key, without a scale: a `ScaledDot` with scale 1.

    Source: Luong, Pham & Manning 2015, section 3.1, dot.
    """
    return ScaledDot(scale=1.0)
