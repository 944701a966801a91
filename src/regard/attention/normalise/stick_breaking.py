"""Stick-breaking weights: from the last key to the first, each key takes a share of the weight that is left."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows


def stick_breaking(scores: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
    """Return the stick-breaking weights for the scores of each row: weight_j = share_j · Π_{k > j} (1 - share_k).

    The share of a key is the sigmoid of its score. Products are computed as sums of logarithms, so that very small
    factors are not rounded to 0.
    """
    log_left = F.logsigmoid(-scores)  # log(1 - share); a key leaves 1 - share of the stick to the keys before it
    # for key j, Σ_{k > j} log_left_k: a cumulative sum from the last key backwards, without key j itself
    log_left_by_later = F.pad(log_left[..., 1:], (0, 1)).flip(-1).cumsum(dim=-1).flip(-1)
    return torch.exp(F.logsigmoid(scores) + log_left_by_later)


@dataclass(frozen=True, slots=True, repr=False)
class StickBreaking(Normaliser):
    """Weights by breaking a stick of length 1: from the last key to the first, each key takes a share of what is left.

        weight_j = sigmoid(scores_j) · Π_{k > j} (1 - sigmoid(scores_k))   over the keys k to which the query may attend

    The share of a key is the sigmoid of its score. Of two keys with the same score, the later one has the larger
    weight, so that no positional encoding is needed. The weights of a query sum to at most 1. Under `Causal()` the last
    key is the one at the query's own position.

    Departure: in the paper a query does not attend to its own position. Here the mask decides; `Causal(own=False)` is
    the mask of the paper.

    >>> import torch
    >>> from regard import Causal, StickBreaking, attend
    >>> zeros = torch.zeros(1, 1, 3, 1)
    >>> attend(zeros, zeros, zeros, mask=Causal(), normalise=StickBreaking()).pattern[0, 0, 2]
    tensor([0.1250, 0.2500, 0.5000])

    Source: Tan, Yang, Courville, Panda & Shen 2024, "Scaling stick-breaking attention".
    """

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        return stick_breaking(masked_scores)
