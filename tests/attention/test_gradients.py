"""Tests of derivatives through attention: backward, forward mode, torch.func, vmap."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vmap
from torch.testing import assert_close

import regard.attention.backends.fused as fused_backend
import regard.attention.gradients as gradients
import regard.attention.weights as weights_module
from regard import Additive, Alibi, Causal, Entmax, Hard, ScaledDot, Softmax, Sparsemax, StraightThrough, attend
from regard.attention.call import Call
from regard.attention.gradients import are_concrete, checkpointed

pytestmark = [  # torch's own
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]

KINDS = {
    "fused": {},
    "a bias that is a rule": {"score": ScaledDot(bias=Alibi(torch.tensor([0.5, 0.25])))},
    "softcap": {"score": ScaledDot(softcap=2.0)},
    "sinks": {"normalise": Softmax(sinks=torch.tensor([0.5, -1.0]))},
    "entmax by sorting": {"normalise": Entmax()},
    "entmax by bisection": {"normalise": Entmax(alpha=1.3)},
    "sparsemax": {"normalise": Sparsemax()},
    "hard, straight through": {"normalise": Hard(StraightThrough())},
}


FORWARD = [name for name in KINDS if name not in ("entmax by sorting", "entmax by bisection", "hard, straight through")]
"""Kinds that have forward derivatives; the gradients of the others are functions that torch.compile would not take."""


@pytest.fixture(params=KINDS)
def loss(request, normal, monkeypatch):
    """Return a loss as a function of the query, with fixed keys and values, computed in blocks of a few queries."""
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 2 * 19 * 3)
    key, value = normal(2, 1, 2, 19, 4, dtype=torch.float64).unbind()
    return lambda query: attend(query, key, value, mask=Causal(), **KINDS[request.param]).context.square().sum()


def test_the_gradient_by_torch_func_is_that_of_a_backward_pass(normal, loss):
    query = normal(1, 2, 7, 4, dtype=torch.float64).requires_grad_()
    (expected,) = torch.autograd.grad(loss(query), query)
    assert_close(grad(loss)(query.detach()), expected)


@pytest.mark.parametrize("loss", FORWARD, indirect=True)
def test_forward_derivatives_are_those_of_a_backward_pass(normal, loss):
    query, direction = (normal(1, 2, 7, 4, dtype=torch.float64) for _ in range(2))
    value, derivative = jvp(loss, (query,), (direction,))
    assert_close(value, loss(query))
    query.requires_grad_()
    (expected,) = torch.autograd.grad(loss(query), query)
    assert_close(derivative, (expected * direction).sum())
    with forward_ad.dual_level():
        assert_close(forward_ad.unpack_dual(loss(forward_ad.make_dual(query, direction))).tangent, derivative)


def test_vmap_of_a_loss_and_of_its_gradient_equals_a_loop(normal, loss):
    queries = normal(3, 1, 2, 7, 4, dtype=torch.float64)
    assert_close(vmap(loss)(queries), torch.stack([loss(query) for query in queries]))
    assert_close(vmap(grad(loss))(queries), torch.stack([grad(loss)(query) for query in queries]))


def test_gradients_of_a_network_by_torch_func(normal):
    """An additive score normally recomputes its hidden layer in the backward pass, which torch.func cannot do."""
    score, (query, key, value) = Additive(4, 4, 5), normal(3, 1, 2, 7, 4).unbind()
    parameters = dict(score.named_parameters())
    expected = torch.autograd.grad(attend(query, key, value, score=score).context.sum(), list(parameters.values()))

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.score = score

        def forward(self):
            return attend(query, key, value, score=self.score).context.sum()

    reader, detached = Reader(), {f"score.{name}": parameter.detach() for name, parameter in parameters.items()}
    found = grad(lambda given: functional_call(reader, given))(detached)
    assert_close(tuple(found.values()), expected)


def test_a_checkpointed_function_is_called_again_in_the_backward_pass_alone(normal):
    calls = []

    def square(x):
        calls.append(torch.is_grad_enabled())
        return x.square()

    x = normal(5).requires_grad_()
    (gradient,) = torch.autograd.grad(checkpointed(square, x).sum(), x)
    assert_close(gradient, 2 * x)
    assert len(calls) == 2
    with torch.no_grad():
        checkpointed(square, x)
    assert calls[2:] == [False]


@pytest.mark.parametrize("older", [False, True])
def test_an_error_in_a_checkpointed_function_changes_nothing_later(normal, monkeypatch, older):
    """Also on versions of torch whose hooks stay on while the error's traceback lives, as it does in a notebook."""
    if older:
        monkeypatch.setattr(gradients, "ERROR_LEAVES_HOOKS", True)
    x, fails = normal(5).requires_grad_(), [True]

    def square(x):
        if fails:
            raise KeyboardInterrupt("stopped")
        return x.square()

    with pytest.raises(KeyboardInterrupt, match="stopped") as kept:
        checkpointed(square, x)
    fails.clear()
    (gradient,) = torch.autograd.grad(checkpointed(square, x).sum() + (x * x).sum(), x)
    assert_close(gradient, 4 * x)
    result = checkpointed(square, x)
    fails.append(True)
    with pytest.raises(KeyboardInterrupt, match="stopped"):  # in the backward pass
        result.sum().backward()
    assert kept.value.__traceback__ is not None


@pytest.mark.parametrize("options", [{}, {"score": ScaledDot(bias=Alibi())}], ids=["tiled", "fused"])
def test_random_numbers_are_drawn_again_on_the_device_of_the_call(normal, monkeypatch, options):
    """torch's checkpoint restores the random generators only of the devices of its tensor arguments."""
    given, checkpoint = [], gradients.checkpoint

    def kept(function, *arguments, **how):
        assert how["preserve_rng_state"]
        given.append({argument.device for argument in arguments if isinstance(argument, torch.Tensor)})
        return checkpoint(function, *arguments, **how)

    monkeypatch.setattr(gradients, "checkpoint", kept)
    query = normal(1, 2, 19, 4).requires_grad_()
    # attend chooses the fused backend with dropout only on a GPU
    backend = fused_backend.fused_context if options else weights_module.context_of
    call = Call.of(query, query, query, options.get("score", ScaledDot()), None, Softmax())
    backend(call, 0.5).sum().backward()
    assert given == [{query.device}]


def test_tensors_of_a_transformation_of_torch_are_not_plain():
    from torch._subclasses.fake_tensor import FakeTensorMode

    assert are_concrete([torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.nn.Buffer(torch.ones(2))])
    with FakeTensorMode() as fake:
        assert not are_concrete([fake.from_tensor(torch.ones(2))])
    with forward_ad.dual_level():
        assert not are_concrete([torch.ones(2)])
    seen = []
    vmap(lambda x: (seen.append(are_concrete([x])), x)[1])(torch.ones(2))
    assert seen == [False]
