"""General scores: a learned matrix W between query and key, which may have different widths."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.grid.grid import Tile
from regard.attention.scores.score import DotScore, Key, Query, Scores, check_built_for, check_sizes


class General(nn.Module, DotScore):
    """The dot product of key and projected query: a learned matrix W projects the query to the width of the key.

        scores = queryᵀ W key

    All heads share the matrix. For a matrix per head, project the queries of each head before `attend`, as
    `MultiHeadAttention` does. `attend` converts float16 and bfloat16 vectors to float32 before they are projected.

    Args:
        d_query, d_key: widths of the queries and of the keys; W is [d_query d_key].

    Raises:
        ValueError: a width is below 1.

    >>> import torch
    >>> from regard import General, attend
    >>> states, memory = torch.randn(1, 1, 3, 5), torch.randn(1, 1, 7, 11)
    >>> attended = attend(states, memory, memory, score=General(d_query=5, d_key=11))
    >>> attended.backend, attended.pattern
    ('fused', Pattern(batch=1, heads=1, queries=3, keys=7, score=General(d_query=5, d_key=11)))

    Source: Luong, Pham & Manning 2015, section 3.1, general.
    """

    def __init__(self, d_query: int, d_key: int) -> None:
        check_sizes(d_query=d_query, d_key=d_key)
        super().__init__()
        self.d_query, self.d_key = d_query, d_key
        self.weight = nn.Parameter(torch.empty(d_query, d_key))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the matrix W by the Xavier uniform distribution (Glorot & Bengio 2010)."""
        nn.init.xavier_uniform_(self.weight)

    def forward(self, query: Query, key: Key, tile: Tile) -> Scores:
        return query @ self.weight.to(query) @ key.mT

    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "query_batch heads queries d_key"], Float[Tensor, "key_batch key_heads keys d_key"]]:
        return query @ self.weight.to(query), key

    def check_widths(self, d_query: int, d_key: int) -> None:
        check_built_for(self, (self.d_query, self.d_key), (d_query, d_key))

    def extra_repr(self) -> str:
        return f"d_query={self.d_query}, d_key={self.d_key}"
