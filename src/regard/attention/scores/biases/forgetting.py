"""The bias of the Forgetting Transformer: the forget gate of a token lowers the scores of all keys before the token."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.gradients import are_concrete
from regard.attention.grid.grid import Grid, Tile
from regard.attention.precision import widest_type
from regard.attention.representation import short_repr
from regard.attention.scores.biases.bias import Bias, BiasNumbers, distances
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Forgetting(EqualFields, Bias):
    """Softmax attention with forget gates: a token whose gate is near 0 lowers the scores of all keys before it.

        scores += Σ_{k = j+1 … i} log f_k          0 for keys after the query, where the sum is empty

    i and j are the positions of query and key. The gates f are computed from the tokens, usually by
    `log_gates = F.logsigmoid(linear(x))` with one number for each head, and get gradients. If all gates equal f, the
    bias under a `Causal` mask is that of `Alibi` with slope -log f. There is one log gate for each key: a model with a
    key cache must cache the log gates of earlier tokens too.

    Args:
        log_gates: the logarithm of each key's forget gate, at most 0 and finite; batch and heads may have size 1 and
            broadcast. Logarithms are given because float32 would round a gate near 1 to 1 and a tiny gate to 0.

    Raises:
        TypeError: log_gates is not a floating-point tensor.
        ValueError: a log gate is above 0 or -∞ (checked only on the CPU); or, raised by `attend`, the number of log
            gates is not the number of keys.

    >>> import torch
    >>> from regard import Causal, Forgetting, ScaledDot, attend
    >>> x, gates = torch.zeros(1, 1, 3, 4), torch.tensor([[[0.9, 0.5, 0.25]]])
    >>> pattern = attend(x, x, x, score=ScaledDot(bias=Forgetting(gates.log())), mask=Causal()).pattern
    >>> pattern.scores(0, 0, 2).exp()
    tensor([0.1250, 0.2500, 1.0000])

    Source: Lin, Nikishin, He & Courville 2025, "Forgetting Transformer".
    """

    log_gates: Float[Tensor, "batch heads keys"]

    def __post_init__(self) -> None:
        if not isinstance(self.log_gates, Tensor) or not self.log_gates.is_floating_point():
            raise TypeError(
                f"Forgetting was given log_gates={short_repr(self.log_gates)}; it takes a tensor of floating-point "
                "numbers [batch heads keys], such as F.logsigmoid(linear(x))."
            )
        # gates on a GPU are not checked, because Python would wait until they are computed
        if self.log_gates.is_cpu and are_concrete((self.log_gates,)):
            refused = (self.log_gates > 0) | (self.log_gates == -torch.inf)
            if refused.any():
                raise ValueError(
                    f"Forgetting was given a log gate of {float(self.log_gates[refused][0]):g}; a forget gate is above "
                    "0 and at most 1, so its logarithm is finite and at most 0: give gates.log(), or "
                    "F.logsigmoid(x) where a gate is sigmoid(x)."
                )

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> BiasNumbers:
        # the sum over the tokens after the key, up to the query, is a difference of two cumulative sums
        cumulative = self.log_gates.to(device, widest_type(device)).cumsum(dim=2)
        sums = tile.at_queries(cumulative) - tile.select(cumulative[:, :, None])
        return sums.masked_fill(distances(tile, device) > 0, 0.0).to(dtype)

    def check(self, grid: Grid) -> None:
        if (
            self.log_gates.ndim != 3
            or self.log_gates.shape[2] != grid.keys
            or not grid.admits(self.log_gates[:, :, None])
        ):
            raise ValueError(
                f"Forgetting was given log_gates of shape {list(self.log_gates.shape)} for {grid}; give one for each "
                f"key, {[grid.batch, grid.heads, grid.keys]}; the axes batch and heads may have size 1."
            )
