"""The training loss: cross-entropy with label smoothing, and optionally R-Drop.

With the smoothing ε and K tokens in the vocabulary ([k = expected] is 1 for the expected token, 0 for all others):

q(k) = (1 - ε) [k = expected] + ε / K        loss = - Σ over tokens Σ over k  q(k) log softmax(logits)_k

With R-Drop the model predicts every target twice, with different dropout. The loss has a term for the divergence D
between the two predicted distributions p and p′ of each token:

    loss = Σ over tokens  (loss of p + loss of p′ + α D) / 2          D = (KL(p ‖ p′) + KL(p′ ‖ p)) / 2

These functions return the sum over target tokens, not the mean. The training loop divides by the number of tokens of a
step, in all its batches and processes: a mean of means would give the tokens of small batches more weight.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.text.vocabulary import PAD
from regard.training.projected_loss import ProjectedLoss
from regard.translation.model_protocol import TranslatingModel


@runtime_checkable
class ProjectingModel(Protocol):
    """A translating model whose last layer, from vectors to logits, can be computed separately.

    Its logits are `to_logits(vectors(…))`.
    """

    @property
    def to_logits(self) -> nn.Linear:
        """The linear layer from vectors to logits."""

    def vectors(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the vectors to which `to_logits` is applied; `lengths` counts each source's tokens without padding."""


def smoothed_loss(
    logits: Float[Tensor, "batch tokens vocabulary"], expected: Int[Tensor, "batch tokens"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the cross-entropy of `logits` with the smoothed labels `expected` in nats, summed over non-padding tokens.

    Args:
        expected: the expected token ids (labels); 0 = padding.
        smoothing: the ε of label smoothing; 0 = labels are not smoothed.

    >>> import torch
    >>> smoothed_loss(torch.zeros(1, 3, 10), torch.tensor([[4, 5, 0]])) / 2  # uniform over 10: log 10 a token
    tensor(2.3026)

    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    """
    flat = rearrange(logits, "batch tokens vocabulary -> (batch tokens) vocabulary")
    labels = rearrange(expected, "batch tokens -> (batch tokens)")
    return F.cross_entropy(flat, labels.long(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum")


def divergence_loss(
    logits: Float[Tensor, "predictions tokens vocabulary"], expected: Int[Tensor, "predictions tokens"]
) -> Float[Tensor, ""]:
    """Return the R-Drop divergence D in nats, summed over all tokens that are not padding in `expected`.

        D = (KL(p ‖ p′) + KL(p′ ‖ p)) / 2          p, p′: the two predicted distributions of a token

    Args:
        logits: the logits of 2n predictions; rows i and n + i are the two predictions of target i.
        expected: the expected token ids of the 2n predictions, so that rows i and n + i are equal; 0 = padding.

    >>> import torch
    >>> divergence_loss(torch.tensor([[[0.0, 1.0]], [[0.0, 2.0]]]), torch.tensor([[1], [1]]))
    tensor(0.0749)

    Source: Liang, Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks".
    """
    first, second = logits.log_softmax(dim=-1).chunk(2)
    both_divergences = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1)
    return (both_divergences * (expected.chunk(2)[0] != PAD)).sum() / 2


def loss_of(
    model: TranslatingModel,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, " batch"],
    target: Int[Tensor, "batch target"],
    expected: Int[Tensor, "batch target"],
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the training loss of a batch in nats, summed over all target tokens that are not padding.

    If the model is a `ProjectingModel`, the logits are computed in chunks, so that the logits of the whole batch are
    never in memory at once. Exception: a call compiled by torch.compile computes them all at once.

    Args:
        lengths: the number of tokens of each source, without padding.
        target: BOS and the tokens of the target: the input of the decoder.
        expected: the tokens of the target and EOS: the labels.
        smoothing: ε of label smoothing.
        r_drop: R-Drop's α; 0 = one prediction of each target, without R-Drop.
    """
    n = 2 if r_drop else 1
    source, lengths, target, labels = (
        repeat(tensor, "batch ... -> (predictions batch) ...", predictions=n)
        for tensor in (source, lengths, target, expected)
    )
    if torch.compiler.is_compiling() or not isinstance(model, ProjectingModel):
        logits = model(source, lengths, target).logits
        cross_entropy = smoothed_loss(logits, labels, smoothing)
        return (cross_entropy + r_drop * divergence_loss(logits, labels)) / 2 if r_drop else cross_entropy
    vectors, projection = model.vectors(source, lengths, target), model.to_logits
    loss: Tensor = ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        rearrange(vectors, "(predictions batch) tokens d_model -> predictions (batch tokens) d_model", predictions=n),
        projection.weight,
        projection.bias,
        rearrange(expected, "batch tokens -> (batch tokens)").long(),
        smoothing,
        r_drop,
    )
    return loss


class TeacherForced(nn.Module):
    """A module whose `forward` returns the training loss of a batch, summed over its target tokens, in nats.

    DDP and FSDP need such a module: they work only if the whole forward pass is in one `forward`.
    """

    PREFIX = "model."
    """The prefix that this module adds to the names of the model's parameters."""

    def __init__(self, model: TranslatingModel, smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smoothing, self.r_drop = smoothing, r_drop

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
        expected: Int[Tensor, "batch target"],
    ) -> Float[Tensor, ""]:
        return loss_of(self.model, source, lengths, target, expected, self.smoothing, self.r_drop)
