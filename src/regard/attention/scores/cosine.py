"""Cosine scores: how far query and key point the same way, whatever their lengths.

scores = scale · cos(query, key)
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import short_repr
from regard.attention.scores.score import DotScore

SWIN_SCALE = 10.0
"""Where the scale starts in Swin Transformer v2's code."""


class Cosine(nn.Module, DotScore):
    """The cosine of the angle between query and key, scaled, so that no score exceeds the scale.

        scores = scale · query · key / (‖query‖ ‖key‖)

    A vector of zeros points nowhere: its cosine with every other is 0. Half-precision inputs are matched in float32,
    as the pattern shows them.

    Args:
        scale: a number; or a tensor of one number, or of one a head, which is learned if it is an nn.Parameter.

    Raises:
        ValueError: a scale of another shape.

    >>> import torch
    >>> from regard import Cosine, attend
    >>> query, key = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[6.0, 8.0], [0.0, -2.0], [0.0, 0.0]]]])
    >>> attend(query, key, key, score=Cosine(scale=10.0)).pattern.scores(0, 0, 0)
    tensor([10., -8.,  0.])
    >>> Cosine(scale=torch.nn.Parameter(torch.full((8,), 10.0)))
    Cosine(scale=<float32 [8]>)

    Source: Henry et al. 2020 (a learned scale); Swin v2, Liu et al. 2022, equation 2 (one for each head).
    """

    scale: float | Tensor

    def __init__(self, scale: float | Tensor = SWIN_SCALE) -> None:
        super().__init__()
        if isinstance(scale, Tensor) and scale.ndim > 1:
            raise ValueError(
                f"scale has shape {list(scale.shape)}; it is one number, or one for each head, so flatten it."
            )
        if isinstance(scale, Tensor) and not isinstance(scale, nn.Parameter):
            self.register_buffer("scale", scale)
        else:
            self.scale = scale

    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_key"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "query_batch heads queries d_key"], Float[Tensor, "key_batch key_heads keys d_key"]]:
        """The directions of both, the query's times the scale."""
        return self.by_head(query) * direction(query), direction(key)

    def forward(
        self,
        query: Float[Tensor, "batch heads queries d_key"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and keys."""
        return tile.select(self.by_head(query)) * direction(query) @ direction(key).mT

    def by_head(self, query: Tensor) -> Float[Tensor, "#heads 1 1"]:
        """The scale in the type and place of the query, shaped so that it broadcasts over heads."""
        return torch.as_tensor(self.scale, dtype=query.dtype, device=query.device).reshape(-1, 1, 1)

    def check(self, grid: Grid) -> None:
        """There must be one scale, or one for each head."""
        if isinstance(self.scale, Tensor) and self.scale.numel() not in (1, grid.heads):
            raise ValueError(
                f"scale has {self.scale.numel()} numbers with {grid.heads} heads; give one, or one for each head."
            )

    def extra_repr(self) -> str:
        """The scale, where it is not the default."""
        is_default = not isinstance(self.scale, Tensor) and self.scale == SWIN_SCALE
        return "" if is_default else f"scale={short_repr(self.scale)}"


def direction(vector: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
    """The vectors at length 1, those of zeros as they are.

    >>> import torch
    >>> direction(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    largest = vector.detach().abs().amax(dim=-1, keepdim=True)
    vector = vector / largest.masked_fill(largest == 0, 1.0)  # so that no square is too small or too large to be held
    length = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return vector / length.masked_fill(length == 0, 1.0)
