"""Cosine scores: the cosine of the angle between query and key, times a scale."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import short_repr
from regard.attention.scores.score import DotScore, Key, Query, Scores

SWIN_SCALE = 10.0
"""The initial value of the learned scale in Swin v2; with scale 1, the softmax of cosines is nearly uniform."""


class Cosine(nn.Module, DotScore):
    """The cosine of the angle between query and key, times a scale; no score is larger than the scale.

        scores = scale · query · key / (‖query‖ ‖key‖)

    If query or key is the zero vector, the score is 0. `attend` converts float16 and bfloat16 to float32 before.

    Args:
        scale: a number, a tensor with one number, or a tensor with one number for each head; learned if it is an
            nn.Parameter.

    Raises:
        ValueError: scale has more than one axis; or, raised by `attend`, the number of scales is neither 1 nor the
            number of heads.

    >>> import torch
    >>> from regard import Cosine, attend
    >>> query, key = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[6.0, 8.0], [0.0, -2.0], [0.0, 0.0]]]])
    >>> attend(query, key, key, score=Cosine(scale=10.0)).pattern.scores(0, 0, 0)
    tensor([10., -8.,  0.])
    >>> Cosine(scale=torch.nn.Parameter(torch.full((8,), 10.0)))
    Cosine(scale=<float32 [8]>)

    Source: Henry et al. 2020 (a learned scale); Swin v2, Liu et al. 2022, equation 2 (a scale for each head).
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
        return self.scale_by_head(query) * unit_vectors(query), unit_vectors(key)

    def forward(self, query: Query, key: Key, tile: Tile) -> Scores:
        scale = tile.select(self.scale_by_head(query))  # of the tile's heads
        return (scale * unit_vectors(query)) @ unit_vectors(key).mT

    def scale_by_head(self, query: Tensor) -> Float[Tensor, "#heads 1 1"]:
        """Return the scale as a tensor with the data type and device of the query: one number, or one for each head."""
        return torch.as_tensor(self.scale, dtype=query.dtype, device=query.device).reshape(-1, 1, 1)

    def check(self, grid: Grid) -> None:
        if isinstance(self.scale, Tensor) and self.scale.numel() not in (1, grid.heads):
            raise ValueError(
                f"scale has {self.scale.numel()} numbers with {grid.heads} heads; give one, or one for each head."
            )

    def extra_repr(self) -> str:
        is_default = not isinstance(self.scale, Tensor) and self.scale == SWIN_SCALE
        return "" if is_default else f"scale={short_repr(self.scale)}"


def unit_vectors(vector: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
    """Return each vector divided by its norm; a vector of zeros is unchanged."""
    largest = vector.detach().abs().amax(dim=-1, keepdim=True)
    vector = vector / largest.masked_fill(largest == 0, 1.0)  # so that squares neither underflow nor overflow
    length = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return vector / length.masked_fill(length == 0, 1.0)
