"""The loss of a projection to a vocabulary, without all its logits: they would be the largest tensor of a training.

    logits = x Wᵀ + b          loss = - Σ over tokens Σ over k  q(k) log softmax(logits)_k          q: see loss.py
    ∂loss / ∂logits = softmax(logits) - q

Some tokens at a time, and the gradient together with the loss: the logits of a part lie in the processor's cache until
all products with them are made, and are then forgotten. The backward pass has only to scale what was found.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.text.vocabulary import PAD

AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
"""Logits of a part, by device: what a core's cache holds, and what keeps a GPU busy."""

LEAST_TOKENS = 128
"""Of a part: for fewer, fetching W costs more than multiplying by it."""


class ProjectedLoss(torch.autograd.Function):
    """The smoothed loss summed over all tokens that are not padding: `smoothed_loss` of the projection's logits."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "tokens d_model"],
        weight: Float[Tensor, "vocabulary d_model"],
        bias: Float[Tensor, " vocabulary"],
        labels: Int[Tensor, " tokens"],
        smoothing: float,
    ) -> Float[Tensor, ""]:
        """The loss; where there may be a backward pass, its gradients are kept for it."""
        given, device = (x, weight, bias), x.device.type
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        wide = torch.promote_types(narrow, torch.float32)
        gradients = [torch.zeros_like(tensor, dtype=wide) for tensor in given] if any(ctx.needs_input_grad) else []
        loss = torch.zeros((), dtype=wide, device=x.device)
        n_tokens = max(LEAST_TOKENS, AT_ONCE.get(device, AT_ONCE["cuda"]) // len(weight))
        with torch.autocast(device, enabled=False):
            x, weight, bias = (tensor.to(narrow) for tensor in given)
            for first in range(0, len(x), n_tokens):
                part = slice(first, first + n_tokens)
                live = (labels[part] != PAD)[:, None].to(narrow)
                logs = torch.addmm(bias, x[part], weight.T).log_softmax(dim=-1, dtype=wide)
                loss -= (likelihood(logs, labels[part], smoothing) * live).sum()
                if gradients:
                    slope = slope_of(logs, labels[part], smoothing).to(narrow)
                    gradients[0][part] = (slope @ weight) * live
                    add_product(gradients[1], slope.T, x[part] * live)
                    add_product(gradients[2][:, None], slope.T, live)
        ctx.save_for_backward(*(found.to(tensor.dtype) for found, tensor in zip(gradients, given, strict=False)))
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        """The gradients of x, weight and bias."""
        return *(gradient * scale for gradient in ctx.saved_tensors), None, None


def likelihood(
    logs: Float[Tensor, "tokens vocabulary"], labels: Int[Tensor, " tokens"], smoothing: float
) -> Float[Tensor, "tokens 1"]:
    """Σ over k  q(k) log softmax(logits)_k."""
    return (1 - smoothing) * logs.gather(1, labels[:, None]) + smoothing * logs.mean(dim=-1, keepdim=True)


def slope_of(
    logs: Float[Tensor, "tokens vocabulary"], labels: Int[Tensor, " tokens"], smoothing: float
) -> Float[Tensor, "tokens vocabulary"]:
    """softmax(logits) - q, in the place of log softmax(logits)."""
    slope = logs.exp_().sub_(smoothing / logs.shape[1])
    return slope.scatter_add_(1, labels[:, None], torch.full_like(slope[:, :1], smoothing - 1))


def add_product(into: Float[Tensor, "a c"], left: Float[Tensor, "a b"], right: Float[Tensor, "b c"]) -> None:
    """Add a product of matrices to a sum that may be of higher precision."""
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    else:
        into.add_(left @ right)
