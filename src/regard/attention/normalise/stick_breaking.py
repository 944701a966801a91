"""Stick-breaking weights: the nearest key takes its share first, and each key before it takes a share of what is left.

    weight_j = sigmoid(scores_j) · Π_{k after j} (1 - sigmoid(scores_k))         over the keys that the mask keeps

Source: Tan, Yang, Courville, Panda & Shen 2024.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows


def stick_breaking(scores: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
    """Return the stick-breaking weights of each row, the stick being broken from the last key to the first.

    The products are sums of logarithms, so that neither a long row nor a large score overflows.
    """
    log_left = F.logsigmoid(-scores)  # of the share of the stick that each key leaves to the keys before it
    log_left_by_later = F.pad(log_left[..., 1:], (0, 1)).flip(-1).cumsum(dim=-1).flip(-1)
    return torch.exp(F.logsigmoid(scores) + log_left_by_later)


@dataclass(frozen=True, slots=True, repr=False)
class StickBreaking(Normaliser):
    """Weights by breaking a stick of length 1: the last key a query sees breaks off its share, then the key before.

        weight_j = sigmoid(scores_j) · Π_{j < k} (1 - sigmoid(scores_k))         over the keys k that the query sees

    The share of a key is the sigmoid of its score. Of two keys with the same score the nearer one weighs more, so that
    no positions are needed; a row sums to 1 or less. Under `Causal()` the stick is broken from the query's own position
    backwards.

    Departure: in the paper no query sees its own position; here the mask decides, and `Causal(own=False)` is the
    paper's.

    >>> import torch
    >>> from regard import Causal, StickBreaking, attend
    >>> zeros = torch.zeros(1, 1, 3, 1)
    >>> attend(zeros, zeros, zeros, mask=Causal(), normalise=StickBreaking()).pattern[0, 0, 2]
    tensor([0.1250, 0.2500, 0.5000])

    Source: Tan, Yang, Courville, Panda & Shen 2024, "Scaling stick-breaking attention".
    """

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return the stick-breaking weights of each row; a masked key takes no share and leaves all of the stick."""
        return stick_breaking(masked)
