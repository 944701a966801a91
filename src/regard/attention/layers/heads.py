"""Functions shared by attention layers: splitting vectors into heads, joining heads, and the positions of tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Not einops.rearrange: it takes 6 µs instead of 1.5 for each split and join, which makes decoding steps slower.


def split_heads(tokens: Float[Tensor, "batch tokens width"], heads: int) -> Float[Tensor, "batch heads tokens d_head"]:
    """Return the vector of each token split into `heads` vectors of equal width."""
    return torch.unflatten(tokens, 2, (heads, -1)).transpose(1, 2)


def join_heads(contexts: Float[Tensor, "batch heads tokens d_head"]) -> Float[Tensor, "batch tokens width"]:
    """Return one vector for each token: the vectors of its heads, concatenated."""
    return contexts.transpose(1, 2).flatten(2)


def token_positions(first: int, n_tokens: int, device: torch.device) -> Int[Tensor, " tokens"]:
    """Return the positions of `n_tokens` consecutive tokens: first, first + 1, …; `first` may be negative."""
    return torch.arange(first, first + n_tokens, device=device)
