"""Scores by nearness: the nearer a key lies to the query, the higher its score.

scores = -scale · ‖query - key‖²
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.representation import describe
from regard.attention.scores.score import DotScore


@dataclass(frozen=True, slots=True, repr=False)
class Distance(DotScore):
    """Scores by nearness: the negative squared distance between query and key.

        scores = -scale · ‖query - key‖² = scale · (2 query · key - ‖query‖² - ‖key‖²)

    The origin is first moved to the median of the keys: that changes no distance, and keeps the squares small, so that
    few digits cancel. A few keys far from all others, such as those that a mask bars, do not move a median.

    >>> import torch
    >>> from regard import Distance, attend
    >>> query, key = torch.tensor([[[[3.0, 0.0]]]]), torch.tensor([[[[0.0, 4.0], [2.0, 0.0]]]])
    >>> attend(query, key, key, score=Distance()).pattern.scores(0, 0, 0)
    tensor([-25.,  -1.])

    Source: Kim, Papamakarios & Mnih 2021, L2 self-attention.
    """

    scale: float = 1.0

    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_key"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "key_batch key_heads keys width"]]:
        """[2 query ; ‖query‖² ; 1] and [key ; -1 ; -‖key‖²], whose product is the score."""
        places = torch.linspace(0, key.shape[2] - 1, 256, dtype=torch.float32, device=key.device)
        places = places.round().long().clamp_min(0)
        some = F.pad(key.detach(), (0, 0, 0, 1), value=torch.inf).index_select(2, places)
        some = some.where(some.isfinite(), torch.inf).sort(dim=2).values
        median = some[:, :, 127, None].nan_to_num(posinf=0.0)  # where few keys are finite, any place will do
        query, key = query - median.repeat_interleave(query.shape[1] // key.shape[1], dim=1), key - median
        far, near = (x.square().sum(dim=-1, keepdim=True) for x in (query, key))
        query = self.scale * torch.cat([2 * query, far, torch.ones_like(far)], dim=-1)
        return query, torch.cat([key, -torch.ones_like(near), -near], dim=-1)

    def __repr__(self) -> str:
        return describe(self)
