"""ALiBi: a bias that decreases linearly with the distance between query and key."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile, entries_at
from regard.attention.scores.biases.bias import Bias, BiasNumbers, distances
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Alibi(EqualFields, Bias):
    """Attention with linear biases: the score of a key falls with its distance, by a different slope in each head.

        scores += -slope_h · |i - j|          slope_h = 2^(-8 h / heads) for h = 1 … heads

    i and j are the positions of query and key. The paper uses a causal mask; without a mask, keys after the query
    get the same bias as keys before the query. If the number of heads is not a power of two, the slopes for the next
    lower power of two come first, then every second slope for the next higher power of two, as in the paper's code.

    Args:
        slopes: one slope for each head; None = the slopes of the equation above.
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        TypeError: slopes is neither a tensor nor None.
        ValueError: raised by `attend` if the number of slopes is not the number of heads.

    >>> from regard import Alibi, Causal, ScaledDot, attend
    >>> x = torch.zeros(1, 8, 3, 4)
    >>> attend(x, x, x, score=ScaledDot(bias=Alibi()), mask=Causal()).pattern.scores(0, 0, 2)
    tensor([-1.0000, -0.5000,  0.0000])

    Source: Press, Smith & Lewis 2022, section 3.
    """

    slopes: Float[Tensor, " heads"] | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.slopes, Tensor | None):
            raise TypeError(
                f"Alibi was given slopes={self.slopes!r}; it takes a tensor of one number for each head, or None for "
                "the paper's slopes: Alibi() fits any number of heads."
            )

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> BiasNumbers:
        slopes = alibi_slopes(tile.grid.heads) if self.slopes is None else self.slopes
        slopes = entries_at(slopes.to(device, dtype), 0, tile.heads)[:, None, None]
        return -slopes * distances(tile, device, self.offset).abs().to(dtype)

    def check(self, grid: Grid) -> None:
        if self.slopes is not None and self.slopes.shape != (grid.heads,):
            raise ValueError(
                f"Alibi was given slopes of shape {list(self.slopes.shape)} for {grid.heads} heads; "
                f"give one for each head, [{grid.heads}], or None for the paper's slopes."
            )


def alibi_slopes(n_heads: int) -> Float[Tensor, " heads"]:
    """Return the slope of ALiBi for each of `n_heads` heads, in float64.

    >>> alibi_slopes(3)
    tensor([0.0625, 0.0039, 0.2500], dtype=torch.float64)

    Source: Press, Smith & Lewis 2022, section 3; for other numbers than powers of two, `get_slopes` in the paper's
    code.
    """
    power = 1 << max(0, n_heads.bit_length() - 1)  # the largest power of two up to n_heads
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    every_second = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return torch.tensor((slopes + every_second)[:n_heads], dtype=torch.float64, device="cpu")
