"""Distance scores: the negative squared distance between query and key."""

from dataclasses import dataclass

import torch

from regard.attention.gradients import are_concrete
from regard.attention.grid.grid import Tile
from regard.attention.precision import widest_type
from regard.attention.scores.score import Key, Query, Score, Scores
from regard.attention.scores.tiling import in_tiles

LARGEST_SQUARE = 1e9
"""If scale · ‖vector‖² is below this for all queries and keys, `squares_by_products` has errors below 10⁻⁶."""


@dataclass(frozen=True, slots=True, repr=False)
class Distance(Score):
    """The negative squared distance between query and key.

        scores = -scale · ‖query - key‖²

    The squared distance is computed in float64 as ‖query‖² + ‖key‖² - 2 query · key. Where that loses too many digits,
    it is computed as the sum of squared differences, which takes five times as long.

    Args:
        scale: the number by which the squared distance is multiplied.

    >>> import torch
    >>> from regard import Distance, attend
    >>> query, key = torch.tensor([[[[3.0, 0.0]]]]), torch.tensor([[[[0.0, 4.0], [2.0, 0.0]]]])
    >>> attend(query, key, key, score=Distance()).pattern.scores(0, 0, 0)
    tensor([-25.,  -1.])

    Source: Kim, Papamakarios & Mnih 2021, L2 self-attention.
    """

    scale: float = 1.0

    def __call__(self, query: Query, key: Key, tile: Tile) -> Scores:
        if products_are_accurate(query, key, self.scale):
            return -self.scale * squares_by_products(query, key)
        return -self.scale * in_tiles(squares_by_differences, query, key)


def products_are_accurate(query: Query, key: Key, scale: float) -> bool:
    """Return whether `squares_by_products` computes the scores with errors below 10⁻⁶.

    Return False for float64 vectors, on a device without float64, and under torch.compile and torch.func.
    """
    if query.dtype == torch.float64 or widest_type(query.device) != torch.float64 or not are_concrete((query, key)):
        return False
    if query.numel() == 0 or key.numel() == 0:
        return False
    largest_number = max(float(vectors.detach().abs().amax()) for vectors in (query, key))
    largest_square = largest_number**2 * query.shape[3]  # ‖vector‖² is at most this
    return abs(scale) * largest_square < LARGEST_SQUARE


def squares_by_products(query: Query, key: Key) -> Scores:
    """Return ‖query‖² + ‖key‖² - 2 query · key for every query and key, computed in float64."""
    wide_query, wide_key = query.double(), key.double()
    query_squares = wide_query.square().sum(dim=-1)[..., None]
    key_squares = wide_key.square().sum(dim=-1)[..., None, :]
    return (query_squares + key_squares - 2 * wide_query @ wide_key.mT).to(query.dtype)


def squares_by_differences(query: Query, key: Key) -> Scores:
    """Return ‖query - key‖² for every query and key; NaN where it overflows, since a score of -∞ would mask the key."""
    squares = (query[..., :, None, :] - key[..., None, :, :]).square().sum(dim=-1)
    return squares + 0 * squares  # adds 0, or NaN where the square is ∞, since 0 · ∞ = NaN
