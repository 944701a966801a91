"""The feed-forward network of a block: it thinks about each token alone, with the same parameters at every place.

output = activation(x W_1 + b_1) W_2 + b_2                           Vaswani et al. 2017, equation 2
output = (activation(x W_g + b_g) ∘ (x W_1 + b_1)) W_2 + b_2         gated: Shazeer 2020, equations 5 and 6
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Activation = Literal[
    "relu", "gelu", "gelu_tanh", "swish", "silu", "mish", "squared_relu", "tanh",
    "glu", "bilinear", "reglu", "geglu", "swiglu",
]  # fmt: skip
"""The plain ones bend the hidden numbers; those of the second row bend gates, by which hidden numbers are multiplied.

    relu, gelu, gelu_tanh       as usual; Gaussian error unit, and its approximation by tanh: Hendrycks & Gimpel 2016
    swish = silu                x sigmoid(x): Ramachandran, Zoph & Le 2017; Elfwing, Uchibe & Doya 2018
    mish, squared_relu, tanh    Misra 2019; So et al. 2021 (Primer); as usual
    glu                         gates by sigmoid: Dauphin et al. 2017
    bilinear, reglu             gates as they are, gates by relu: Shazeer 2020
    geglu, swiglu               gates by gelu, by swish: Shazeer 2020
"""

Bend = Callable[[Tensor], Tensor]
"""An activation: number by number."""


def squared_relu(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The square of what is above 0."""
    return F.relu(x).square()


def unchanged(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The numbers as they are."""
    return x


PLAIN: Mapping[str, Bend] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swish": F.silu,
    "silu": F.silu,
    "mish": F.mish,
    "squared_relu": squared_relu,
    "tanh": torch.tanh,
}

GATES: Mapping[str, Bend] = {
    "glu": torch.sigmoid,
    "bilinear": unchanged,
    "reglu": F.relu,
    "geglu": F.gelu,
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    """Widen each token's vector, bend it, narrow it again.

    A gated one has d_ff values and d_ff gates, so three matrices where a plain one has two: Shazeer 2020 takes two
    thirds of d_ff to compare them at equal size.

    Raises:
        ValueError: an unknown activation.

    >>> FeedForward(512, 2048)(torch.randn(2, 7, 512)).shape
    torch.Size([2, 7, 512])
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"activation={activation!r} is unknown; it is one of {', '.join(get_args(Activation))}.")
        self.activation = activation
        self.gated = activation in GATES
        self.widen = nn.Linear(d_model, 2 * d_ff if self.gated else d_ff)
        self.narrow = nn.Linear(d_ff, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """From a uniform distribution that keeps the size of a layer's output, biases 0 (Glorot & Bengio 2010)."""
        for weight in (*self.widen.weight.chunk(2 if self.gated else 1), self.narrow.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.widen.bias)
        nn.init.zeros_(self.narrow.bias)

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        """Each token's vector, thought about."""
        return self.narrow(self.bend(self.widen(x)))

    def bend(self, wide: Float[Tensor, "*tokens wide"]) -> Float[Tensor, "*tokens d_ff"]:
        """The hidden numbers, from what a token was widened to."""
        if not self.gated:
            return PLAIN[self.activation](wide)
        hidden, gate = wide.chunk(2, dim=-1)
        return GATES[self.activation](gate) * hidden

    def extra_repr(self) -> str:
        """What bends."""
        return f"activation={self.activation!r}"
