"""The plane that shows most of the variation in the vectors of all tokens in all layers (principal components).

    axes   = the two orthogonal directions in which the vectors have the largest variance
    shares = the variance along each axis, divided by the total variance

In many models, a few tokens, mostly the first, have vectors a hundred times as long as all other vectors. These few
vectors alone would determine the axes. So vectors longer than `TOO_LONG` times the median length are not used to
compute the axes; they are still projected onto the plane.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError

TOO_LONG = 10.0
"""Vectors longer than this many times the median length are left out when the axes of a `Plane` are computed."""


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """A plane in the space of the tokens' vectors, onto which the vectors are projected.

    Its two axes are orthogonal unit vectors; `middle` is the mean of the vectors from which it was computed. `shares`
    are the variances of these vectors along the axes, divided by their total variance. `n_left_out` vectors were left
    out, because they are longer than `TOO_LONG` times the median length.
    """

    middle: Float[Tensor, " d_model"]
    axes: Float[Tensor, "2 d_model"]
    shares: tuple[float, float]
    n_left_out: int

    @classmethod
    def through(cls, vectors: Float[Tensor, "vectors d_model"]) -> "Plane":
        if not bool(vectors.isfinite().all()):
            raise InputError(
                "the vectors of the tokens overflow their number type, so they have no plane; load the model in "
                "float32."
            )
        lengths = vectors.norm(dim=-1)
        fitted = vectors[lengths <= TOO_LONG * lengths.median()].double()
        middle = fitted.mean(dim=0)
        _, singular_values, directions = torch.linalg.svd(fitted - middle, full_matrices=False)
        axes = torch.zeros(2, vectors.shape[1], dtype=torch.float64, device=vectors.device)
        principal = directions[:2]  # only one direction if there is one vector: then the second axis stays 0
        axes[: len(principal)] = principal
        # the sign of an axis is arbitrary: the component with the largest absolute value is made positive
        signs = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
        # two zeros are appended, since there may be fewer than two singular values
        variances = torch.nn.functional.pad(singular_values, (0, 2)).square()
        first_share, second_share, *_ = (variances / variances.sum().clamp(min=1e-300)).tolist()
        n_left_out = len(vectors) - len(fitted)
        return cls(middle.to(vectors), (axes * signs).to(vectors), (first_share, second_share), n_left_out)

    def points(self, vectors: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape 2"]:
        return self.coordinates(vectors - self.middle)

    def coordinates(self, differences: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape 2"]:
        """Return the coordinates of differences of vectors along the plane's two axes; `middle` is not subtracted."""
        return differences.to(self.axes) @ self.axes.T
