"""What training makes small: cross-entropy against smoothed labels, and R-Drop if asked for.

q(k) = (1 - ε) [k = expected] + ε / K        loss = - Σ over tokens Σ over k  q(k) log softmax(logits)_k

With R-Drop every pair is read twice, with other draws of dropout, and the two predictions p and p′ of a token are
pulled together:

    loss = Σ over tokens  (loss of p + loss of p′ + α D) / 2          D = (KL(p ‖ p′) + KL(p′ ‖ p)) / 2

The loss is a sum over tokens, never a mean: that is taken once, over all tokens of an update, however many parts and
processes the update is worked through in. A mean of means would weigh the tokens of short parts more.
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
class Projecting(Protocol):
    """A translating model whose logits are a projection of vectors, which may be had without them."""

    @property
    def to_logits(self) -> nn.Linear:
        """The projection."""

    def vectors(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """What is projected, for each target token; the arguments are those of a call."""


def smoothed_loss(
    logits: Float[Tensor, "batch tokens vocabulary"], expected: Int[Tensor, "batch tokens"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """The loss in nats, summed over all tokens that are not padding.

    >>> import torch
    >>> smoothed_loss(torch.zeros(1, 3, 10), torch.tensor([[4, 5, 0]])) / 2  # uniform over 10: log 10 a token
    tensor(2.3026)

    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    """
    flat = rearrange(logits, "batch tokens vocabulary -> (batch tokens) vocabulary")
    labels = rearrange(expected, "batch tokens -> (batch tokens)")
    return F.cross_entropy(flat, labels.long(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum")


def apart(
    logits: Float[Tensor, "readings tokens vocabulary"], expected: Int[Tensor, "readings tokens"]
) -> Float[Tensor, ""]:
    """D in nats, summed over all tokens that are not padding; all first readings before all second ones.

    >>> import torch
    >>> apart(torch.tensor([[[0.0, 1.0]], [[0.0, 2.0]]]), torch.tensor([[1], [1]]))
    tensor(0.0749)

    Source: Liang, Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks".
    """
    first, second = logits.log_softmax(dim=-1).chunk(2)
    both_ways = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1)
    return (both_ways * (expected.chunk(2)[0] != PAD)).sum() / 2


def loss_of(
    model: TranslatingModel,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, " batch"],
    target: Int[Tensor, "batch target"],
    expected: Int[Tensor, "batch target"],
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> Float[Tensor, ""]:
    """The summed loss of predicting every expected token from those before it; its logits are not kept if need not be.

    A compiler sees the whole, and fuses as it likes.

    Args:
        r_drop: α; 0 = every pair is read once.
    """
    readings = 2 if r_drop else 1
    source, lengths, target, labels = (
        repeat(given, "batch ... -> (readings batch) ...", readings=readings)
        for given in (source, lengths, target, expected)
    )
    if torch.compiler.is_compiling() or not isinstance(model, Projecting):
        logits = model(source, lengths, target).logits
        of_all = smoothed_loss(logits, labels, smoothing)
        return (of_all + r_drop * apart(logits, labels)) / 2 if r_drop else of_all
    vectors, projection = model.vectors(source, lengths, target), model.to_logits
    loss: Tensor = ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        rearrange(vectors, "(readings batch) tokens d_model -> readings (batch tokens) d_model", readings=readings),
        projection.weight,
        projection.bias,
        rearrange(expected, "batch tokens -> (batch tokens)").long(),
        smoothing,
        r_drop,
    )
    return loss


class TeacherForced(nn.Module):
    """A translating model whose output is its loss: the whole of a training step's forward, in one module to wrap."""

    PREFIX = "model."
    """What the names of the model's parameters begin with here."""

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
        """The summed loss of predicting every expected token from those before it."""
        return loss_of(self.model, source, lengths, target, expected, self.smoothing, self.r_drop)
