"""The training loss of the last layer, from vectors to logits, without storing the logits of a whole batch.

The logits of a whole batch would be the largest tensor of training.

    logits = x Wᵀ + b          loss = - Σ over tokens Σ over k  q(k) log softmax(logits)_k
    q(k) = (1 - ε) [k = label] + ε / K          the smoothed label; ε: smoothing, K: size of the vocabulary
    ∂loss / ∂logits = softmax(logits) - q

With R-Drop each token has two predicted distributions p and p′, with the logits z and z′. D is their divergence, as
defined in loss.py; by differentiating it with p = softmax(z):

    ∂D / ∂z = (p (log p - log p′ - KL(p ‖ p′)) + p - p′) / 2          ∂D / ∂z′: the same with p and p′ exchanged

The forward pass processes a few tokens at a time: it computes their logits, loss and gradients, and keeps no logits. On
a CPU the tokens are so few that their logits stay in the cache. Backward multiplies these gradients by a scalar.

PyTorch's `linear_cross_entropy` (from 2.13 on) stores all logits if labels are smoothed, and has no R-Drop.
"""

from math import ceil
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.text.vocabulary import PAD

LOGITS_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
"""The number of logits computed at a time, by type of device: as many as fit a CPU's cache, or keep a GPU busy."""

LEAST_ROWS = 128
"""The fewest rows of logits computed at a time: each time, the whole weight matrix must be read from memory."""


class ProjectedLoss(torch.autograd.Function):
    """The training loss of the logits `x @ weight.T + bias` in nats, summed over all tokens that are not padding."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "predictions tokens d_model"],
        weight: Float[Tensor, "vocabulary d_model"],
        bias: Float[Tensor, " vocabulary"],
        labels: Int[Tensor, " tokens"],
        smoothing: float,
        r_drop: float = 0.0,
    ) -> Float[Tensor, ""]:
        """Return the loss; if an input requires gradients, they are computed here and saved for `backward`.

        Args:
            x: the vectors before the last layer. The first axis has length 2 with R-Drop, which predicts each token
                twice, and length 1 without.
            labels: the expected token ids; 0 = padding.
            smoothing: the ε of label smoothing.
            r_drop: R-Drop's α; 0 = no R-Drop.
        """
        inputs, device = (x, weight, bias), x.device.type
        # matrix products have the type `dtype`; sums over tokens or the vocabulary have at least float32
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        sum_dtype = torch.promote_types(dtype, torch.float32)
        gradients: list[Tensor] = []
        if any(ctx.needs_input_grad):  # then all three are computed
            gradients = [torch.zeros_like(tensor, dtype=sum_dtype) for tensor in inputs]
        loss = torch.zeros((), dtype=sum_dtype, device=x.device)
        n_predictions, n_tokens, _ = x.shape
        rows_at_once = max(LEAST_ROWS, LOGITS_AT_ONCE.get(device, LOGITS_AT_ONCE["cuda"]) // len(weight))
        tokens_at_once = ceil(rows_at_once / n_predictions)
        if torch.compiler.is_compiling():  # without a loop over parts, one graph serves all sizes of batches
            tokens_at_once = n_tokens
        with torch.autocast(device, enabled=False):
            x, weight, bias = (tensor.to(dtype) for tensor in inputs)
            for first in range(0, n_tokens, tokens_at_once):
                part = slice(first, first + tokens_at_once)
                vectors, expected = x[:, part].flatten(0, 1), labels[part].repeat(n_predictions)
                not_padding = (expected != PAD)[:, None]
                log_p = torch.addmm(bias, vectors, weight.T).log_softmax(dim=-1, dtype=sum_dtype)
                losses, logits_gradient = losses_and_gradient(log_p, expected, smoothing, r_drop)
                loss += (losses * not_padding).sum()
                if gradients:
                    x_gradient, weight_gradient, bias_gradient = gradients
                    logits_gradient.mul_(not_padding)
                    bias_gradient += logits_gradient.sum(dim=0)
                    logits_gradient = logits_gradient.to(dtype)
                    x_gradient[:, part] = (logits_gradient @ weight).view_as(x[:, part])
                    add_product(weight_gradient, logits_gradient.T, vectors)
        # strict=False: `gradients` is empty if no input requires one, and then `backward` is never called
        ctx.save_for_backward(*(grad.to(tensor.dtype) for grad, tensor in zip(gradients, inputs, strict=False)))
        ctx.n_predictions = n_predictions
        return loss / n_predictions

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        """Return the gradients; `scale` is the gradient of the final result with respect to the loss."""
        gradients = (gradient * (scale / ctx.n_predictions) for gradient in ctx.saved_tensors)
        return *gradients, None, None, None  # labels, smoothing and r_drop have no gradient


def losses_and_gradient(
    log_p: Float[Tensor, "rows vocabulary"], labels: Int[Tensor, " rows"], smoothing: float, r_drop: float
) -> tuple[Float[Tensor, "rows 1"], Float[Tensor, "rows vocabulary"]]:
    """Return the loss of each row of logits, and the gradient of the sum of all losses with respect to the logits.

    Args:
        log_p: log softmax(logits), a row for each token; it is overwritten. With R-Drop, which predicts each token
            twice, the rows of all first predictions precede the rows of all second predictions.
    """
    losses = -(1 - smoothing) * log_p.gather(1, labels[:, None]) - smoothing * log_p.mean(dim=-1, keepdim=True)
    if not r_drop:
        return losses, loss_gradient_(log_p, labels, smoothing)
    kl, divergence_gradient = divergence(log_p)
    logits_gradient = loss_gradient_(log_p, labels, smoothing).add_(divergence_gradient, alpha=r_drop)
    # half of the divergence in each of a token's two rows, since D is their mean; the gradients are of D already
    return losses.add_(kl, alpha=r_drop / 2), logits_gradient


def loss_gradient_(
    log_p: Float[Tensor, "rows vocabulary"], labels: Int[Tensor, " rows"], smoothing: float
) -> Float[Tensor, "rows vocabulary"]:
    """Return softmax(logits) - q for each row, in the memory of `log_p`, which is overwritten."""
    logits_gradient = log_p.exp_().sub_(smoothing / log_p.shape[1])
    return logits_gradient.scatter_add_(1, labels[:, None], torch.full_like(logits_gradient[:, :1], smoothing - 1))


def divergence(
    log_p: Float[Tensor, "rows vocabulary"],
) -> tuple[Float[Tensor, "rows 1"], Float[Tensor, "rows vocabulary"]]:
    """Return R-Drop's divergences between the two predictions p and p′ of each token, and their gradients.

    For n tokens, the divergences are n numbers KL(p ‖ p′), then n numbers KL(p′ ‖ p). The gradients are n rows ∂D / ∂z,
    then n rows ∂D / ∂z′: D is the mean of a token's two divergences, z and z′ are its logits in the two predictions.
    """
    probabilities = log_p.exp()
    log_ratio = difference_of_halves(log_p)
    kl = (probabilities * log_ratio).sum(dim=-1, keepdim=True)
    logits_gradient = log_ratio.sub_(kl).mul_(probabilities)
    return kl, logits_gradient.add_(difference_of_halves(probabilities)).div_(2)


def difference_of_halves(rows: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
    """Return first - second, then second - first, where `first` and `second` are the two halves of the rows."""
    first, second = rows.chunk(2)
    return torch.cat([first - second, second - first])


def add_product(into: Float[Tensor, "a c"], left: Float[Tensor, "a b"], right: Float[Tensor, "b c"]) -> None:
    """Add the matrix product left @ right to `into`, in place; `into` is float32 if the factors are bfloat16."""
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    else:
        into.add_(left @ right)
