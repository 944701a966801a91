"""The embedding of token ids, with positions added.

    x_i = √d_model · embedding[token_i] + position_i

Source: Vaswani et al. 2017, sections 3.4 and 3.5.
"""

import math

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions.learned import LearnedPositions
from regard.attention.positions.sinusoidal import sinusoidal
from regard.transformer.config import TransformerConfig
from regard.transformer.dropout import Dropout


class Embedding(nn.Module):
    """The embedding of tokens; positions are added unless they are rotary.

    Args:
        n_tokens: size of the vocabulary.
    """

    def __init__(self, n_tokens: int, config: TransformerConfig) -> None:
        super().__init__()
        self.by_token = nn.Embedding(n_tokens, config.d_model)
        self.positions = LearnedPositions(config.max_tokens, config.d_model) if config.positions == "learned" else None
        self.d_model, self.dropout = config.d_model, Dropout(config.dropout)
        waves = sinusoidal(config.max_tokens, config.d_model) if config.positions == "sinusoidal" else None
        self.register_buffer("waves", waves, persistent=False)
        self.waves: Float[Tensor, "positions d_model"] | None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw numbers of standard deviation 1/√d_model, which suits the output projection too; scaled, they have 1."""
        nn.init.normal_(self.by_token.weight, std=self.d_model**-0.5)

    def forward(self, tokens: Int[Tensor, "batch tokens"], first: int = 0) -> Float[Tensor, "batch tokens d_model"]:
        """Return the tokens' vectors.

        Args:
            first: the position of the first token, as after a cache of earlier ones.
        """
        x = F.embedding(tokens, self.by_token.weight) * math.sqrt(self.d_model)
        places = self.places(tokens.shape[1], first)
        return self.dropout(x if places is None else x + places)

    def places(self, n_tokens: int, first: int) -> Float[Tensor, "tokens d_model"] | None:
        """Return the vectors of positions, or None if positions are rotary."""
        if self.positions is not None:
            return self.positions(n_tokens, first)
        if self.waves is None or first + n_tokens <= len(self.waves):
            return None if self.waves is None else self.waves[first : first + n_tokens]
        return sinusoidal(n_tokens, self.d_model, first=first).to(self.waves)  # longer than max_tokens
