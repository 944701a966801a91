"""Attention rollout: how much each input token contributes to a token's vector, through all layers.

    flow of a layer = (mean of the heads' weights + identity) / 2,  each row divided by its sum
    rollout = product of the flows of all layers

Source: Abnar & Zuidema 2020, "Quantifying attention flow in transformers", section 3.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern


def rollout(patterns: Sequence[Pattern], token: int) -> Float[Tensor, " tokens"]:
    """Return the attention rollout of a token: the share that each input token has in its vector; shares sum to 1.

    Only the token's row of the product is computed, from the last layer to the first, so no matrix is stored.

    Args:
        patterns: the self-attention patterns of all layers, from the first to the last, with one batch item.
        token: the position of the token.
    """
    shares = torch.zeros(patterns[-1].shape[2], dtype=torch.float64)
    shares[token] = 1.0
    with torch.no_grad():
        for pattern in reversed(patterns):
            _, heads, n_tokens, _ = pattern.shape
            ones = pattern.value.new_ones(1, pattern.value.shape[1], n_tokens, 1)
            row_sums = pattern.apply(ones)[0, :, :, 0].double().mean(dim=0).cpu()
            shares = shares / (1 + row_sums)
            vectors = shares.to(pattern.query).expand(1, heads, n_tokens)
            shares = shares + pattern.back(vectors)[0].double().mean(dim=0).cpu()
    return shares.to(patterns[-1].call.dtype)
