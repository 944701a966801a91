"""Tests of the plane onto which token vectors are projected: against numpy's principal components; outliers."""

import numpy as np
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import InputError
from regard.effects.plane import Plane


def test_its_axes_are_the_first_two_principal_components(normal):
    vectors = normal(29, 7) * torch.arange(1, 8) + 3
    plane = Plane.through(vectors)
    variances, directions = np.linalg.eigh(np.cov(vectors.double().numpy(), rowvar=False))
    np.testing.assert_allclose(plane.shares, variances[:-3:-1] / variances.sum(), rtol=1e-5)
    for axis, direction in zip(plane.axes, directions.T[:-3:-1], strict=True):
        np.testing.assert_allclose(abs(float(axis @ torch.tensor(direction).float())), 1, atol=1e-5)
        assert float(axis[axis.abs().argmax()]) > 0
    points = plane.points(vectors)
    assert_close(points.mean(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
    assert_close(points[3] - points[5], plane.coordinates(vectors[3] - vectors[5]))


def test_a_vector_that_is_much_longer_is_left_out(normal):
    vectors = normal(29, 7) + 2
    longer = torch.cat([vectors, 1000 * torch.eye(7)[:1]])
    plane, alone = Plane.through(longer), Plane.through(vectors)
    assert (plane.n_left_out, alone.n_left_out) == (1, 0)
    assert_close(plane.axes, alone.axes)
    assert_close(plane.middle, alone.middle)


def test_vectors_of_fewer_than_two_dimensions_have_a_plane():
    plane = Plane.through(torch.tensor([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]))
    assert plane.shares == (1.0, 0.0)
    assert_close(plane.points(torch.tensor([[4.0, 0.0, 0.0]])).abs()[0], torch.tensor([2.0, 0.0]))
    still = Plane.through(torch.ones(3, 5))
    assert still.shares == (0.0, 0.0)
    assert_close(still.points(torch.ones(3, 5)), torch.zeros(3, 2))


def test_vectors_that_overflow_are_refused(normal):
    vectors = normal(5, 7)
    vectors[2, 3] = torch.inf
    assert refusal(InputError, Plane.through, vectors) == (
        "the vectors of the tokens overflow their number type, so they have no plane; load the model in float32."
    )
