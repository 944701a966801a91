"""Distance scores: the nearer a key lies to the query, the higher its score.

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
    """The negative squared distance between query and key.

        scores = -scale · ‖query - key‖² = scale · (2 query · key - ‖query‖² - ‖key‖²)

    The median of at most 256 sampled keys is subtracted from queries and keys first. This does not change distances;
    it makes the squares small, so that their differences lose few digits. Outliers, such as masked keys, do not
    change the median much.

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
        """Return scale · [2 query ; ‖query‖² ; 1] and [key ; -1 ; -‖key‖²], whose dot products are the scores.

        The median of the keys is subtracted from queries and keys first.
        """
        positions = torch.linspace(0, key.shape[2] - 1, 256, dtype=torch.float32, device=key.device)
        positions = positions.round().long().clamp_min(0)
        sample = F.pad(key.detach(), (0, 0, 0, 1), value=torch.inf).index_select(2, positions)
        sample = sample.where(sample.isfinite(), torch.inf).sort(dim=2).values
        median = sample[:, :, 127, None].nan_to_num(posinf=0.0)  # where few keys are finite, any origin will do
        query, key = query - median.repeat_interleave(query.shape[1] // key.shape[1], dim=1), key - median
        query_square, key_square = (x.square().sum(dim=-1, keepdim=True) for x in (query, key))
        query = self.scale * torch.cat([2 * query, query_square, torch.ones_like(query_square)], dim=-1)
        return query, torch.cat([key, -torch.ones_like(key_square), -key_square], dim=-1)

    def __repr__(self) -> str:
        return describe(self)
