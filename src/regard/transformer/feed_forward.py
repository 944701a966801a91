"""The feed-forward network of a block: two linear layers and an activation, applied to each token separately.

output = activation(x W_1 + b_1) W_2 + b_2                           Vaswani et al. 2017, equation 2
output = (activation(x W_g + b_g) ∘ (x W_1 + b_1)) W_2 + b_2         gated: Shazeer 2020, equations 5 and 6
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
"""The activations. In a gated network (glu, bilinear, reglu, geglu, swiglu) the activation is applied to the gates.

    relu, tanh           as in torch.nn
    gelu, gelu_tanh      x Φ(x), and its approximation by tanh: Hendrycks & Gimpel 2016
    swish = silu         x sigmoid(x): Ramachandran, Zoph & Le 2017; Elfwing, Uchibe & Doya 2018
    mish                 x tanh(softplus(x)): Misra 2019
    squared_relu         max(x, 0)²: So et al. 2021 (Primer)
    glu                  sigmoid: Dauphin et al. 2017
    bilinear             identity: Shazeer 2020
    reglu, geglu         relu, gelu: Shazeer 2020
    swiglu               swish: Shazeer 2020
"""


@dataclass(frozen=True, slots=True)
class ActivationEntry:
    """An activation function, its number in the C kernels, and its names in Hugging Face and CTranslate2."""

    function: Callable[[Tensor], Tensor]
    kernel: int  # the number of the function in `kernels/blocks.h`
    gated: bool = False
    hugging_face: str | None = None  # None = gated, or unknown to Hugging Face
    ctranslate2: str | None = None  # None = unknown to CTranslate2


ACTIVATIONS: Mapping[Activation, ActivationEntry] = {
    # function, number in the C kernels, gated, name in Hugging Face, name in CTranslate2
    "relu": ActivationEntry(F.relu, 0, False, "relu", "RELU"),
    "gelu": ActivationEntry(F.gelu, 1, False, "gelu", "GELU"),
    "gelu_tanh": ActivationEntry(partial(F.gelu, approximate="tanh"), 2, False, "gelu_pytorch_tanh", "GELUTanh"),
    "swish": ActivationEntry(F.silu, 3, False, "swish", "SWISH"),
    "silu": ActivationEntry(F.silu, 3, False, "silu", "SWISH"),
    "mish": ActivationEntry(F.mish, 4, False, "mish"),
    "squared_relu": ActivationEntry(lambda x: F.relu(x).square(), 5, False, "relu2"),
    "tanh": ActivationEntry(torch.tanh, 6, False, "tanh", "Tanh"),
    "glu": ActivationEntry(torch.sigmoid, 7, True, None, "Sigmoid"),
    "bilinear": ActivationEntry(lambda x: x, 8, True),
    "reglu": ActivationEntry(F.relu, 0, True, None, "RELU"),
    "geglu": ActivationEntry(F.gelu, 1, True, None, "GELU"),
    "swiglu": ActivationEntry(F.silu, 3, True, None, "SWISH"),
}


class FeedForward(nn.Module):
    """Two linear layers, from d_model to d_ff and back, with an activation between them.

    With a gated activation, the first layer gives d_ff values and d_ff gates. A gated network has as many parameters
    as a network without gates if its d_ff is 2/3 as large (Shazeer 2020).

    Raises:
        ValueError: activation is not one of `Activation`.

    >>> FeedForward(512, 2048)(torch.randn(2, 7, 512)).shape
    torch.Size([2, 7, 512])
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"activation={activation!r} is unknown; it is one of {', '.join(get_args(Activation))}.")
        self.activation = activation
        self.gated = ACTIVATIONS[activation].gated
        self.widen = nn.Linear(d_model, 2 * d_ff if self.gated else d_ff)
        self.narrow = nn.Linear(d_ff, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices from Glorot's uniform distribution, and set the biases to 0.

        In a gated network, values and gates share one weight tensor but are drawn as two separate matrices.
        """
        for weight in (*self.widen.weight.chunk(2 if self.gated else 1), self.narrow.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.widen.bias)
        nn.init.zeros_(self.narrow.bias)

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        """Return the network's output for each token of x."""
        activate = ACTIVATIONS[self.activation].function
        if not self.gated:
            return self.narrow(activate(self.widen(x)))
        hidden, gate = self.widen(x).chunk(2, dim=-1)
        return self.narrow(activate(gate) * hidden)

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"
