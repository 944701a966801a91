"""Dropout: in training each number becomes 0 with probability p, and the others grow so that the mean stays.

    output = kept ∘ x / (1 - p)                      kept_i = 0 with probability p, else 1

torch.nn.Dropout draws from its generator once for each number, which on a CPU is an eighth of a training step. Here
one draw of 64 random bits serves four numbers: each is dropped if its 16 bits, as a number, are below a bound. The
bound is 2^16 p, rounded up or down at random, so that every number's probability is p exactly.

Source: Srivastava et al. 2014, section 4.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

LEVELS = 2**16
"""How many values 16 bits can have."""


class Dropout(nn.Dropout):
    """torch.nn.Dropout with faster random numbers on a CPU; the same seed drops other numbers than torch's does."""

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """Return x with some numbers dropped in training, and x itself in evaluation."""
        if self.training and draws_16_bits(x, self.p):
            return x * draw_kept(x, self.p).mul_(1 / (1 - self.p))
        return F.dropout(x, self.p, self.training)


class Residual(Dropout):
    """A residual connection: x + dropout(output)."""

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "*axes"], output: Float[Tensor, "*axes"]
    ) -> Float[Tensor, "*axes"]:
        """Return the sum of a sublayer's input x and its output, of which some numbers are dropped in training."""
        if self.training and draws_16_bits(output, self.p):
            return torch.addcmul(x, output, draw_kept(output, self.p), value=1 / (1 - self.p))
        return x + F.dropout(output, self.p, self.training)


def draws_16_bits(x: Tensor, p: float) -> bool:
    """Return whether `draw_kept` serves x; compiled programs and GPUs have a fast dropout, and 16 bits a least p."""
    wide = x.dtype in (torch.float32, torch.float64)
    return x.is_cpu and wide and 1 <= p * LEVELS <= LEVELS - 1 and not torch.compiler.is_compiling()


def draw_kept(like: Float[Tensor, "*axes"], p: float) -> Float[Tensor, "*axes"]:
    """Return a tensor of another one's shape whose numbers are 0 with probability p, else 1.

    >>> sorted(set(draw_kept(torch.empty(1000), p=0.5).tolist()))
    [0.0, 1.0]
    """
    words = torch.empty(-(-like.numel() // 4), dtype=torch.int64, device=like.device).random_(-(2**63), None)
    bits = words.view(torch.int16)[: like.numel()].view(like.shape)  # numbers from -2^15 on
    kept = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return torch.ge(bits, draw_bound(p) - LEVELS // 2, out=kept)


def draw_bound(p: float) -> int:
    """Return 2^16 p rounded up or down at random, so that its mean is 2^16 p itself."""
    return math.floor(p * LEVELS + torch.rand((), dtype=torch.float64, device="cpu").item())
