"""A plane through the vectors of all tokens in all layers, onto which movements are drawn.

    axes   = the two directions in which the vectors vary most (principal components)
    shares = the variance along each axis, divided by the variance in all directions

A few tokens of many models have vectors a hundred times as long as those of the others, mostly the first token. They
would turn the plane towards themselves, so that the plane shows nothing of the other tokens. So vectors that are more
than `TOO_LONG` times as long as the median vector are left out of the fit; they are drawn all the same.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

TOO_LONG = 10.0
"""How many times as long as the median a vector may be, to count in the fit of the plane."""


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """A plane through many vectors.

    Attributes:
        middle: the mean of the fitted vectors.
        axes: two directions of length 1, orthogonal to each other.
        shares: the share of the variance of the fitted vectors along each axis.
        n_left_out: the number of vectors that were too long to count.
    """

    middle: Float[Tensor, " d_model"]
    axes: Float[Tensor, "2 d_model"]
    shares: tuple[float, float]
    n_left_out: int

    @classmethod
    def through(cls, vectors: Float[Tensor, "vectors d_model"]) -> "Plane":
        """Return the plane that keeps most of the variance of the vectors."""
        lengths = vectors.norm(dim=-1)
        fitted = vectors[lengths <= TOO_LONG * lengths.median()].double()
        middle = fitted.mean(dim=0)
        _, sizes, directions = torch.linalg.svd(fitted - middle, full_matrices=False)
        axes = torch.zeros(2, vectors.shape[1], dtype=torch.float64, device=vectors.device)
        axes[: len(directions)] = directions[:2]
        signs = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()  # the largest number is positive
        variances = torch.nn.functional.pad(sizes, (0, 2)).square()
        shares = (variances / variances.sum().clamp(min=1e-300)).tolist()
        n_left_out = len(vectors) - len(fitted)
        return cls(middle.to(vectors), (axes * signs).to(vectors), (shares[0], shares[1]), n_left_out)

    def points(self, vectors: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape 2"]:
        """Return where vectors lie in the plane."""
        return self.directions(vectors - self.middle)

    def directions(self, differences: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape 2"]:
        """Return how far differences of vectors reach along each axis."""
        return differences @ self.axes.T
