"""Tests of the loss without stored logits: against torch's loss over all logits, by gradcheck, and its memory."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard.text.vocabulary import PAD
from regard.training import projected_loss
from regard.training.projected_loss import ProjectedLoss

TOKENS, VOCABULARY, WIDTH = 23, 31, 7
with_and_without_r_drop = pytest.mark.parametrize(("n_predictions", "r_drop"), [(1, 0.0), (2, 5.0)])


@pytest.fixture(params=[1, 5, 23, 100])
def parts(request, monkeypatch):
    """Set the number of tokens that are processed at a time."""
    monkeypatch.setattr(projected_loss, "LEAST_ROWS", request.param)
    monkeypatch.setitem(projected_loss.LOGITS_AT_ONCE, "cpu", 1)


@pytest.fixture
def given(normal):
    """Return a function: given(float64) returns vectors, the projection, and labels; every third label is padding."""

    def tensors(dtype=torch.float32, n_predictions=1, sizes=(TOKENS, VOCABULARY, WIDTH)):
        tokens, vocabulary, width = sizes
        labels = torch.randint(1, vocabulary, (tokens,), generator=torch.Generator().manual_seed(1))
        labels[::3] = PAD
        shapes = (n_predictions, tokens, width), (vocabulary, width), (vocabulary,)
        return [normal(*shape, dtype=dtype).requires_grad_() for shape in shapes], labels

    return tensors


def torch_loss(x, weight, bias, labels, smoothing, r_drop=0.0):
    logits = F.linear(x, weight, bias)
    losses = [
        F.cross_entropy(of_reading, labels, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
        for of_reading in logits
    ]
    if len(losses) == 1:
        return losses[0]
    p, q = logits[:, labels != PAD].log_softmax(dim=-1)
    kl = [F.kl_div(*pair, log_target=True, reduction="sum") for pair in ((p, q), (q, p))]
    return (sum(losses) + r_drop * sum(kl) / 2) / 2


def gradients(loss, tensors, labels, smoothing, *r_drop, times=1.0):
    """Return a loss, and its gradients multiplied by `times`."""
    total = loss(*tensors, labels, smoothing, *r_drop)
    return [total.detach(), *torch.autograd.grad(total * times, tensors)]


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_torchs_loss_of_all_logits(given, smoothing):
    tensors, labels = given(torch.float64)
    expected = gradients(torch_loss, tensors, labels, smoothing, times=3.0)
    assert_close(gradients(ProjectedLoss.apply, tensors, labels, smoothing, times=3.0), expected)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("r_drop", [0.5, 5.0])
def test_r_drop_is_torchs_divergence(given, r_drop):
    tensors, labels = given(torch.float64, n_predictions=2)
    expected = gradients(torch_loss, tensors, labels, 0.1, r_drop, times=3.0)
    assert_close(gradients(ProjectedLoss.apply, tensors, labels, 0.1, r_drop, times=3.0), expected)


@pytest.mark.parametrize("parts", [2, 100], indirect=True)
@pytest.mark.usefixtures("parts")
@with_and_without_r_drop
def test_gradcheck(given, n_predictions, r_drop):
    tensors, labels = given(torch.float64, n_predictions, sizes=(5, 7, 3))
    assert torch.autograd.gradcheck(lambda *tensors: ProjectedLoss.apply(*tensors, labels, 0.1, r_drop), tensors)


@with_and_without_r_drop
def test_large_logits_overflow_nowhere(given, n_predictions, r_drop):
    tensors, labels = given(torch.float64, n_predictions)
    tensors = [(tensor * 300).detach().requires_grad_() for tensor in tensors]
    expected = gradients(torch_loss, tensors, labels, 0.1, r_drop)
    assert_close(gradients(ProjectedLoss.apply, tensors, labels, 0.1, r_drop), expected)
    assert expected[0] > 1e4


@pytest.mark.usefixtures("parts")
@with_and_without_r_drop
def test_predictions_of_padding_do_not_matter(given, n_predictions, r_drop):
    tensors, labels = given(n_predictions=n_predictions)
    before = gradients(ProjectedLoss.apply, tensors, labels, 0.1, r_drop)
    with torch.no_grad():
        tensors[0][:, labels == PAD] *= 100
    after = gradients(ProjectedLoss.apply, tensors, labels, 0.1, r_drop)
    assert_close(after, before, rtol=0, atol=0)
    assert not after[1][:, labels == PAD].any()
    assert after[1][:, labels != PAD].any(dim=-1).all()


@with_and_without_r_drop
def test_the_result_is_the_same_bit_for_bit(given, n_predictions, r_drop):
    """The same input gives the same bits, so that a resumed training takes the same steps."""
    tensors, labels = given(n_predictions=n_predictions)
    once, again = (gradients(ProjectedLoss.apply, tensors, labels, 0.1, r_drop) for _ in range(2))
    assert all(map(torch.equal, once, again))


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor that an operation creates."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.size = max(self.size, *(t.numel() for t in torch.utils._pytree.tree_leaves(made) if torch.is_tensor(t)), 0)
        return made


@with_and_without_r_drop
def test_all_logits_are_never_held(given, n_predictions, r_drop, monkeypatch):
    monkeypatch.setattr(projected_loss, "LEAST_ROWS", 5)
    monkeypatch.setitem(projected_loss.LOGITS_AT_ONCE, "cpu", 12 * VOCABULARY)
    tensors, labels = given(n_predictions=n_predictions)
    with Largest() as largest:
        gradients(ProjectedLoss.apply, tensors, labels, 0.1, r_drop)
    assert largest.size == 12 * VOCABULARY


def test_without_a_backward_pass_there_are_no_gradients(given):
    tensors, labels = given()
    with torch.inference_mode():
        loss = ProjectedLoss.apply(*tensors, labels, 0.1)
    assert_close(loss, torch_loss(*tensors, labels, 0.1).detach())
    assert loss.grad_fn is None


@pytest.mark.usefixtures("parts")
@with_and_without_r_drop
@pytest.mark.parametrize("autocast", [True, False])
def test_bfloat16_is_as_near_as_torchs(given, autocast, n_predictions, r_drop):
    """Under autocast, parameters and gradients are float32, else bfloat16; sums are always float32."""
    exact, labels = given(torch.float64, n_predictions)
    tensors = [t.detach().to(torch.float32 if autocast else torch.bfloat16).requires_grad_() for t in exact]
    rounded = [t.detach().bfloat16().double().requires_grad_() for t in exact]
    expected = gradients(torch_loss, rounded, labels, 0.1, r_drop)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        found = gradients(ProjectedLoss.apply, tensors, labels, 0.1, r_drop)
        theirs = gradients(torch_loss, tensors, labels, 0.1, r_drop)
    assert [tensor.dtype for tensor in found[1:]] == [tensor.dtype for tensor in tensors]
    for mine, other, right in zip(found, theirs, expected, strict=True):
        assert (mine - right).norm() <= 1.5 * (other - right).norm() + 1e-3 * right.norm()
