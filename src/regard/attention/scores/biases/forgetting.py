"""The forgetting bias of FoX: each token's forget gate lowers the scores of all keys before it.

    scores += log(f_{j+1} · … · f_i)          f_k, the forget gate of token k, is from 0 to 1

Source: Lin, Nikishin, He & Courville 2025.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.gradients import are_plain
from regard.attention.grid.grid import Grid, Tile
from regard.attention.precision import widest_type
from regard.attention.representation import short_repr
from regard.attention.scores.biases.bias import Bias, Biased, distances


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Forgetting(Bias):
    """Softmax attention with a forget gate: what lies before a token whose gate is nearly 0 is nearly forgotten.

        scores += Σ_{k = j+1 … i} log f_k          0 for keys after the query, where the sum is empty

    The gates come from the tokens, usually `log_gates = F.logsigmoid(linear(x))`, one for each head; gradients reach
    them. With one gate for all tokens this is `Alibi` under `Causal`. The queries are the last tokens, as with a cache,
    which then holds the log gates of earlier tokens beside their keys.

    Args:
        log_gates: the logarithm of each key's forget gate, at most 0 and finite; axes of size 1 serve all items or
            heads. Logarithms and not gates, because float32 rounds a gate near 1 to 1 and a tiny gate to 0.

    Raises:
        TypeError: log_gates that are not a tensor of floating-point numbers.
        ValueError: a log gate above 0 or of -∞, on the CPU; at the call, log_gates that are not one for each key.

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
        if self.log_gates.is_cpu and are_plain((self.log_gates,)):  # on a GPU the program would have to wait
            refused = (self.log_gates > 0) | (self.log_gates == -torch.inf)
            if refused.any():
                raise ValueError(
                    f"Forgetting was given a log gate of {float(self.log_gates[refused][0]):g}; a forget gate is above "
                    "0 and at most 1, so its logarithm is finite and at most 0: give gates.log(), or "
                    "F.logsigmoid of what a gate is computed from."
                )

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """Return the sum of the log gates after each key up to each query, summed in the widest type of the device."""
        until = self.log_gates.to(device, widest_type(device)).cumsum(dim=2)
        between = tile.at_queries(until) - tile.select(until[:, :, None])
        return between.masked_fill(distances(tile, device) > 0, 0.0).to(dtype)

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless there is one log gate for each key."""
        if (
            self.log_gates.ndim != 3
            or self.log_gates.shape[2] != grid.keys
            or not grid.admits(self.log_gates[:, :, None])
        ):
            raise ValueError(
                f"Forgetting was given log_gates of shape {list(self.log_gates.shape)} for {grid}; give one for each "
                f"key, {[grid.batch, grid.heads, grid.keys]}; the axes of items and heads may have size 1."
            )
