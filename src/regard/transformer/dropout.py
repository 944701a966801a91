"""Dropout: in training, each number becomes 0 with probability p, and the others are divided by 1 - p.

    output = keep ∘ x / (1 - p)                      keep_i = 0 with probability p, else 1

torch.nn.Dropout draws one random number for each element, which on a CPU takes an eighth of a training step. Here a
draw of 64 random bits is enough for four elements: an element is dropped if its 16 bits, read as an integer, are below
a threshold. The threshold is 2^16 p rounded up or down at random, with mean 2^16 p, so that the probability of being
dropped is exactly p.

Source: Srivastava et al. 2014, section 4.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

N_VALUES = 2**16
"""The number of different values of the 16 bits that are drawn for an element."""


class Dropout(nn.Dropout):
    """torch.nn.Dropout, but faster on a CPU; with the same seed it drops other elements than torch.nn.Dropout."""

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        if not self.training:
            return x
        if fast_dropout_applies(x, self.p):
            return x * draw_keep_mask(x, self.p).mul_(1 / (1 - self.p))
        return F.dropout(x, self.p)


class Residual(Dropout):
    """A residual connection with dropout: residual(x, output) = x + dropout(output)."""

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "*axes"], output: Float[Tensor, "*axes"]
    ) -> Float[Tensor, "*axes"]:
        if not self.training:
            return x + output
        if fast_dropout_applies(output, self.p):
            return torch.addcmul(x, output, draw_keep_mask(output, self.p), value=1 / (1 - self.p))
        return x + F.dropout(output, self.p)


def fast_dropout_applies(x: Tensor, p: float) -> bool:
    """Return whether `draw_keep_mask`, which is faster than torch's dropout, can be used for x and p."""
    if not 1 <= p * N_VALUES <= N_VALUES - 1:  # a threshold of 0 or 2^16 would keep or drop all elements
        return False
    return x.is_cpu and x.dtype in (torch.float32, torch.float64) and not torch.compiler.is_compiling()


def draw_keep_mask(like: Float[Tensor, "*axes"], p: float) -> Float[Tensor, "*axes"]:
    """Return a tensor of the shape and dtype of `like` in which each element is 0 with probability p, else 1.

    >>> sorted(set(draw_keep_mask(torch.empty(1000), p=0.5).tolist()))
    [0.0, 1.0]
    """
    n_words = math.ceil(like.numel() / 4)  # a word has 64 bits
    words = torch.empty(n_words, dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None)  # None = up to the largest int64, so that all 64 bits are random
    signed_values = words.view(torch.int16)[: like.numel()].view(like.shape)  # from -2^15 to 2^15 - 1
    keep_mask = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return torch.ge(signed_values, draw_threshold(p) - N_VALUES // 2, out=keep_mask)


def draw_threshold(p: float) -> int:
    """Return 2^16 p, rounded up or down at random so that the mean is 2^16 p."""
    return math.floor(p * N_VALUES + torch.rand((), dtype=torch.float64, device="cpu").item())
