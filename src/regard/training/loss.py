"""The training loss: cross-entropy with label smoothing, and optionally R-Drop.

With the smoothing ε and K tokens in the vocabulary ([k = expected] is 1 for the expected token, 0 for all others):

    q(k) = (1 - ε) [k = expected] + ε / K        loss = - Σ over tokens Σ over k  q(k) log softmax(logits)_k

With R-Drop the model predicts every target twice, with different dropout. The loss has a term for the divergence D
between the two predicted distributions p and p′ of each token:

    loss = Σ over tokens  (loss of p + loss of p′ + α D) / 2          D = (KL(p ‖ p′) + KL(p′ ‖ p)) / 2

The loss is the sum over target tokens, not the mean. The training loop divides by the number of tokens of a step, in
all its batches and processes: a mean of means would give the tokens of small batches more weight.

Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4; Liang, Wu et al. 2021, "R-Drop: Regularized
Dropout for Neural Networks".
"""

from typing import Protocol, runtime_checkable

from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.training.projected_loss import ProjectedLoss


@runtime_checkable
class ProjectingModel(Protocol):
    """A model whose last layer can be computed separately: its logits are `to_logits(vectors(…))`."""

    @property
    def to_logits(self) -> nn.Linear: ...

    def vectors(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]: ...


def loss_of(
    model: ProjectingModel,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, " batch"],
    target: Int[Tensor, "batch target"],
    expected: Int[Tensor, "batch target"],
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the training loss of a batch in nats, summed over all target tokens that are not padding.

    Args:
        lengths: the number of tokens of each source, without padding.
        target: BOS and the tokens of the target: the input of the decoder.
        expected: the tokens of the target and EOS: the labels.
        smoothing: ε of label smoothing.
        r_drop: R-Drop's α; 0 = one prediction of each target, without R-Drop.
    """
    n_predictions = 2 if r_drop else 1
    source, lengths, target = (
        repeat(tensor, "batch ... -> (predictions batch) ...", predictions=n_predictions)
        for tensor in (source, lengths, target)
    )
    vectors, projection = model.vectors(source, lengths, target), model.to_logits
    by_prediction = "(predictions batch) tokens d_model -> predictions (batch tokens) d_model"
    loss: Tensor = ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        rearrange(vectors, by_prediction, predictions=n_predictions),
        projection.weight,
        projection.bias,
        rearrange(expected, "batch tokens -> (batch tokens)").long(),
        smoothing,
        r_drop,
    )
    return loss


class TeacherForced(nn.Module):
    """A module whose `forward` returns the training loss of a batch (`loss_of`).

    DDP and FSDP need such a module: they work only if the whole forward pass is in one `forward`.
    """

    PREFIX = "model."
    """The prefix of every parameter name in this module: the attribute `model` holds all parameters."""

    def __init__(self, model: ProjectingModel, smoothing: float, r_drop: float = 0.0) -> None:
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
