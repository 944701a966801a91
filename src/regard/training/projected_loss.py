"""The loss of a projection to a vocabulary, without all its logits: they would be the largest tensor of a training.

    logits = x Wᵀ + b          loss = - Σ over tokens Σ over k  q(k) log softmax(logits)_k          q: see loss.py
    ∂loss / ∂logits = softmax(logits) - q

and with R-Drop, where each token was predicted twice, as p and as p′, of logits z and z′ (D: see loss.py),

    ∂D / ∂z = (p (log p - log p′ - KL(p ‖ p′)) + p - p′) / 2          and so with z′, p and p′ changed about

Some tokens at a time, and the gradient together with the loss: the logits of a part lie in the processor's cache until
all products with them are made, and are then forgotten. The backward pass has only to scale what was found.
"""

from math import ceil
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.text.vocabulary import PAD

AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
"""Logits of a part, by device: what a core's cache holds, and what keeps a GPU busy."""

LEAST_PREDICTIONS = 128
"""Of a part: for fewer, fetching W costs more than multiplying by it."""


class ProjectedLoss(torch.autograd.Function):
    """The loss of the logits, summed over all tokens that are not padding; with R-Drop where there are two readings."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "readings tokens d_model"],
        weight: Float[Tensor, "vocabulary d_model"],
        bias: Float[Tensor, " vocabulary"],
        labels: Int[Tensor, " tokens"],
        smoothing: float,
        r_drop: float = 0.0,
    ) -> Float[Tensor, ""]:
        """The loss; where there may be a backward pass, its gradients are kept for it."""
        given, device = (x, weight, bias), x.device.type
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        wide = torch.promote_types(narrow, torch.float32)
        gradients = [torch.zeros_like(tensor, dtype=wide) for tensor in given] if any(ctx.needs_input_grad) else []
        loss = torch.zeros((), dtype=wide, device=x.device)
        readings, n_tokens, _ = x.shape
        at_once = ceil(max(LEAST_PREDICTIONS, AT_ONCE.get(device, AT_ONCE["cuda"]) // len(weight)) / readings)
        with torch.autocast(device, enabled=False):
            x, weight, bias = (tensor.to(narrow) for tensor in given)
            for first in range(0, n_tokens, at_once):
                part = slice(first, first + at_once)
                vectors, expected = x[:, part].flatten(0, 1), labels[part].repeat(readings)
                live = (expected != PAD)[:, None].to(narrow)
                logs = torch.addmm(bias, vectors, weight.T).log_softmax(dim=-1, dtype=wide)
                losses, slope = of_predictions(logs, expected, smoothing, r_drop)
                loss += (losses * live).sum()
                if gradients:
                    slope = slope.to(narrow)
                    gradients[0][:, part] = ((slope @ weight) * live).view(readings, -1, x.shape[-1])
                    add_product(gradients[1], slope.T, vectors * live)
                    add_product(gradients[2][:, None], slope.T, live)
        ctx.save_for_backward(*(found.to(tensor.dtype) for found, tensor in zip(gradients, given, strict=False)))
        ctx.readings = readings
        return loss / readings

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        """The gradients of x, weight and bias."""
        return *(gradient * (scale / ctx.readings) for gradient in ctx.saved_tensors), None, None, None


def of_predictions(
    logs: Float[Tensor, "predictions vocabulary"], labels: Int[Tensor, " predictions"], smoothing: float, r_drop: float
) -> tuple[Float[Tensor, "predictions 1"], Float[Tensor, "predictions vocabulary"]]:
    """Each prediction's part of the loss, and its gradient in the logits, in the place of log softmax(logits)."""
    losses = -likelihood(logs, labels, smoothing)
    if not r_drop:
        return losses, slope_of(logs, labels, smoothing)
    kl, pull = divergence(logs)
    return losses.add_(kl, alpha=r_drop / 2), slope_of(logs, labels, smoothing).add_(pull, alpha=r_drop)


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


def divergence(
    logs: Float[Tensor, "predictions vocabulary"],
) -> tuple[Float[Tensor, "predictions 1"], Float[Tensor, "predictions vocabulary"]]:
    """KL of each prediction from the other of the same token, all first ones before all second ones; D's gradient."""
    first, second = logs.chunk(2)
    ratio, probabilities = torch.cat([first - second, second - first]), logs.exp()
    kl = (probabilities * ratio).sum(dim=-1, keepdim=True)
    slope = ratio.sub_(kl).mul_(probabilities)
    first, second = probabilities.chunk(2)
    return kl, slope.add_(torch.cat([first - second, second - first])).div_(2)


def add_product(into: Float[Tensor, "a c"], left: Float[Tensor, "a b"], right: Float[Tensor, "b c"]) -> None:
    """Add a product of matrices to a sum that may be of higher precision."""
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    else:
        into.add_(left @ right)
