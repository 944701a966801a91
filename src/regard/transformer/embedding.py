"""The embedding of token ids, with positions added.

    x_i = √d_model · embedding[token_i] + position_i

Source: Vaswani et al. 2017, sections 3.4 and 3.5.
"""

import math
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks.lengths import check_token_ids
from regard.attention.positions.learned import LearnedPositions
from regard.attention.positions.sinusoidal import sinusoidal
from regard.transformer.config import TransformerConfig
from regard.transformer.dropout import Dropout


class Embedding(nn.Module):
    """The first layer of an encoder or decoder; if positions are rotary, no position vectors are added."""

    def __init__(self, n_tokens: int, config: TransformerConfig) -> None:
        super().__init__()
        self.by_token = nn.Embedding(n_tokens, config.d_model)
        # learned positions only; parameters are saved under this name
        self.positions = LearnedPositions(config.max_tokens, config.d_model) if config.positions == "learned" else None
        self.d_model, self.scale = config.d_model, math.sqrt(config.d_model)
        self.dropout = Dropout(config.dropout)
        waves = sinusoidal(config.max_tokens, config.d_model) if config.positions == "sinusoidal" else None
        self.register_buffer("waves", waves, persistent=False)
        self.waves: Float[Tensor, "positions d_model"] | None
        self.register_load_state_dict_post_hook(compute_waves)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def _apply(self, *arguments: Any, **options: Any) -> "Embedding":
        """Change all tensors, as `to`, `half` and `to_empty` do, and compute the sinusoidal positions again."""
        super()._apply(*arguments, **options)  # type: ignore[no-untyped-call]
        compute_waves(self)
        return self

    def reset_parameters(self) -> None:
        """Draw the embedding matrix from N(0, 1/d_model).

        The embeddings, multiplied by √d_model, then have variance 1. If the output projection shares the matrix, the
        logits have variance 1 too, because the inputs of the projection are outputs of a LayerNorm.
        """
        nn.init.normal_(self.by_token.weight, std=self.d_model**-0.5)

    def forward(
        self, tokens: Int[Tensor, "batch tokens"], first: int = 0, *, name: str = "tokens"
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Return the input of the first block.

        Args:
            first: the position of the first of these tokens.
            name: the argument that holds the tokens, for error messages.
        """
        check_token_ids(name, tokens, self.by_token.num_embeddings)
        x = F.embedding(tokens, self.by_token.weight) * self.scale
        position_vectors = self.position_vectors(tokens.shape[1], first)
        x = x if position_vectors is None else x + position_vectors
        return self.dropout(x)

    @property
    def stored_positions(self) -> Float[Tensor, "positions d_model"] | None:
        """The vectors of the positions from 0 to max_tokens - 1; None if positions are rotary."""
        return self.waves if self.positions is None else self.positions.by_position

    def position_vectors(self, n_tokens: int, first: int) -> Float[Tensor, "tokens d_model"] | None:
        """Return the vectors of `n_tokens` positions, from position `first` on; None if positions are rotary."""
        if self.positions is not None:
            return self.positions(n_tokens, first)
        if self.waves is None:
            return None
        if first + n_tokens <= len(self.waves):
            return self.waves[first : first + n_tokens]
        return sinusoidal(n_tokens, self.d_model, first=first).to(self.waves)


def compute_waves(embedding: Embedding, _: object = None) -> None:
    """Compute the sinusoidal positions again, in the type and on the device of the embedding matrix.

    A state_dict does not contain these vectors, and `to_empty` and the device "meta" leave them without values.
    """
    if embedding.waves is not None:
        matrix = embedding.by_token.weight
        embedding.waves = sinusoidal(*embedding.waves.shape).to(matrix.device, matrix.dtype)
