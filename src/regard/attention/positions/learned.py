"""Learned positions: a trained vector for each position, which is added to the embedding of the token there."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LearnedPositions(nn.Module):
    """A learned vector for each position, to be added to the embedding of the token there.

    Args:
        max_tokens: the number of positions, which is also the largest number of tokens in a text.
        d_model: width of the vectors.

    Raises:
        ValueError: max_tokens or d_model is below 1; or, raised by the call, a text is longer than max_tokens.

    >>> LearnedPositions(max_tokens=7, d_model=4)(5).shape
    torch.Size([5, 4])

    Source: Gehring et al. 2017, section 3.1.
    """

    def __init__(self, max_tokens: int, d_model: int) -> None:
        super().__init__()
        if max_tokens < 1 or d_model < 1:
            raise ValueError(
                f"LearnedPositions(max_tokens={max_tokens}, d_model={d_model}) has no vectors; both must be at least 1."
            )
        self.max_tokens, self.d_model = max_tokens, d_model
        self.by_position = nn.Parameter(torch.empty(max_tokens, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors from a normal distribution of standard deviation 0.02, as in the code of BERT."""
        nn.init.normal_(self.by_position, std=0.02)

    def forward(self, n_tokens: int, first: int = 0) -> Float[Tensor, "tokens d_model"]:
        """Return the vectors of `n_tokens` consecutive positions.

        Args:
            first: the position of the first token; above 0 when decoding with a cache of earlier tokens.

        Raises:
            ValueError: an argument is negative, or first + n_tokens is above max_tokens.
        """
        if n_tokens < 0 or first < 0:
            raise ValueError(f"n_tokens={n_tokens} and first={first} count tokens, so neither may be negative.")
        if first + n_tokens > self.max_tokens:
            raise ValueError(
                f"a text of {first + n_tokens} tokens is longer than the max_tokens={self.max_tokens} that have a "
                "learned position; shorten it, or build and train LearnedPositions with more."
            )
        return self.by_position[first : first + n_tokens]

    def extra_repr(self) -> str:
        return f"max_tokens={self.max_tokens}, d_model={self.d_model}"
