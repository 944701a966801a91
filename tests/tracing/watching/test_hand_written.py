"""The everyday ways to write attention by hand, and what is not attention but looks like it."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import regard

N_STEPS = 3
KEPT = []
"""The weights of each call of `keep`."""


def keep(weights):
    KEPT.append(weights)
    return weights


def luong(states, query):
    weights = keep((states @ query[:, :, None]).squeeze(-1).softmax(-1))
    return (weights[:, None] @ states)[:, 0]


def one_row(states, query):
    return (keep((query[:, None] @ states.mT).softmax(-1)) @ states)[:, 0]


def transposed_before_the_softmax(states, query):
    scores = torch.bmm(states, query[:, :, None]).transpose(1, 2)
    return torch.bmm(keep(scores.softmax(-1)), states)[:, 0]


def softmax_over_another_axis(states, query):
    return (keep(torch.bmm(states, query[:, :, None]).softmax(1)).transpose(1, 2) @ states)[:, 0]


def multiply_and_sum(states, query):
    weights = keep((states * query[:, None]).sum(-1).softmax(-1))
    return (weights[..., None] * states).sum(1)


def letters(states, query):
    return torch.einsum("bs,bsd->bd", keep(torch.einsum("bd,bsd->bs", query, states).softmax(-1)), states)


def values_first(states, query):
    weights = keep(torch.bmm(states, query.unsqueeze(2)).squeeze(2).softmax(1))
    return torch.bmm(states.transpose(1, 2), weights.unsqueeze(2)).squeeze(2)


def masked(states, query):
    scores = (states @ query[:, :, None]).squeeze(-1)
    weights = keep((scores / 2).masked_fill(torch.arange(states.shape[1]) > 4, -1e9).softmax(-1))
    return (weights.unsqueeze(1) @ states).squeeze(1)


def expanded(states, query):
    weights = keep((states @ query[:, :, None]).softmax(1))
    return (weights.expand_as(states) * states).sum(dim=1, keepdim=True).squeeze(1)


def one_head_added(states, query):
    weights = keep((states * query[:, None]).sum(-1).softmax(-1))
    return (weights[:, None, :, None] * states[:, None]).sum(2)[:, 0]


SPELLINGS = [
    luong, one_row, transposed_before_the_softmax, softmax_over_another_axis, multiply_and_sum, letters, values_first,
    masked, expanded, one_head_added,
]  # fmt: skip


class Decoder(nn.Module):
    """A recurrent encoder and decoder, whose attention is a function of encoder states [b s d] and a query [b d]."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.function, self.encode, self.cell = function, nn.GRU(5, 5, batch_first=True), nn.GRUCell(5, 5)

    def forward(self, x):
        states, _ = self.encode(x)
        state = 3 * states[:, -1]
        for _ in range(N_STEPS):
            state = self.cell(self.function(states, state), state)
        return state


def watched_by(model, *inputs):
    """Run a model plainly and watched, with the same output; return the record."""
    plain = model(*inputs)
    KEPT.clear()
    with regard.watching(model) as watched:
        assert torch.equal(model(*inputs), plain)
    return watched


@pytest.mark.parametrize("n_states", [7, 1])
@pytest.mark.parametrize("function", SPELLINGS)
def test_attention_of_a_recurrent_decoder_has_the_weights_of_the_code(function, n_states):
    watched = watched_by(Decoder(function), torch.randn(3, n_states, 5))
    assert (len(watched.steps), watched.unseen) == (N_STEPS, {})
    for step, weights in zip(watched.steps, KEPT, strict=True):
        assert step.attended.pattern.shape == (3, 1, 1, n_states)
        assert_close(step.attended.pattern.dense(), weights.reshape(3, 1, 1, n_states), rtol=1e-6, atol=1e-7)
    assert watched.check().max_error < 1e-6


@pytest.mark.parametrize("function", [f for f in SPELLINGS if f not in (multiply_and_sum, one_head_added)])
def test_its_queries_and_keys_are_found(function):
    watched = watched_by(Decoder(function), torch.randn(3, 7, 5))
    assert watched.steps[0].attended.pattern.query.shape == (3, 1, 1, 5)


class Function(nn.Module):
    """A module with one function of itself and its input, a gate, and parameters."""

    def __init__(self, function, **attributes):
        super().__init__()
        self.function, self.gate, self.table = function, nn.Linear(5, 4), nn.Parameter(torch.randn(5, 4))
        self.experts = nn.ModuleList(nn.Linear(5, 5) for _ in range(4))
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.function(self, x)

    def mixture(self, x):
        return torch.stack([expert(x) for expert in self.experts], dim=-2)


def renormalised(query, key, value):
    weights = (query @ key.mT).softmax(-1)
    return (weights / weights.sum(-2, keepdim=True)) @ value


def gated(query, key, value):
    return (0.7 * (query @ key.mT).softmax(-1) + 0.3 * torch.eye(5).expand(2, 5, 5)) @ value


def of_three_factors(query, key, value):
    return torch.einsum("bqk,bkd,de->bqe", (query @ key.mT).softmax(-1), value, torch.eye(12))


def by_logarithms(query, key, value):
    return (query @ key.mT).log_softmax(-1).exp() @ value


def without_softmax(query, key, value):
    return (query @ key.mT) @ value


def compared(query, key, value):
    return value * (query @ key.mT).softmax(-1).amax(-1, keepdim=True)


@pytest.mark.parametrize("compute", [renormalised, gated, of_three_factors, by_logarithms])
def test_attention_that_is_not_followed_is_named_beside_attention_that_is(compute):
    """The classes of the modules are not named like attention, as that of ConViT's gated attention."""
    model = nn.Sequential(
        Function(lambda _, x: (x @ x.mT).softmax(-1) @ x), Function(lambda _, x: compute(x, 2 * x, x))
    )
    watched = watched_by(model, torch.randn(2, 5, 12))
    assert [step.path for step in watched.steps] == ["0"]
    assert watched.unseen == {"1": "it computes no softmax of scores whose result is multiplied with values"}


@pytest.mark.parametrize("compute", [without_softmax, compared])
def test_products_without_a_softmax_between_them_are_not_named_beside_attention(compute):
    model = nn.Sequential(
        Function(lambda _, x: (x @ x.mT).softmax(-1) @ x), Function(lambda _, x: compute(x, 2 * x, x))
    )
    watched = watched_by(model, torch.randn(2, 5, 12))
    assert ([step.path for step in watched.steps], watched.unseen) == (["0"], {})


def test_attention_without_a_batch():
    def attention(_, x):
        return keep((x @ x[-1]).softmax(0)) @ x

    (step,) = watched_by(Function(attention), torch.randn(7, 5)).steps
    assert torch.equal(step.attended.pattern.dense(), KEPT[0][None, None, None])


def test_the_softmax_of_a_graph_attention_is_over_an_inner_axis():
    def attention(_, x):
        scores = torch.einsum("bihd,bjhd->bijh", x, x)
        return torch.einsum("bijh,bjhd->bihd", keep(scores.softmax(2)), x)

    (step,) = watched_by(Function(attention), torch.randn(2, 7, 3, 5)).steps
    assert_close(step.attended.pattern.dense(), KEPT[0].permute(0, 3, 1, 2))
    assert step.attended.pattern.query.shape == (2, 3, 7, 5)


class HeadsFirst(nn.Module):
    """Attention whose first axis joins heads and batch, the heads first, as in many implementations of FastSpeech."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(12, 12) for _ in range(3))
        self.bias = torch.randn(6, 5, 5)

    def forward(self, x):
        query, key, value = (
            layer(x).view(2, 5, 3, 4).permute(2, 0, 1, 3).contiguous().view(-1, 5, 4)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.bmm(query, key.transpose(1, 2)) / 2 + self.bias
        scores = scores.masked_fill(~torch.ones(5, 5).tril().bool(), -1e9)
        return torch.bmm(keep(scores.softmax(-1)), value).view(3, 2, 5, 4).permute(1, 2, 0, 3).flatten(2)


def test_heads_before_the_batch_in_one_axis_are_told_apart():
    (step,) = watched_by(HeadsFirst(), torch.randn(2, 5, 12)).steps
    assert_close(step.attended.pattern.dense(), KEPT[0].view(3, 2, 5, 5).transpose(0, 1))
    assert step.attended.pattern.query.shape == (2, 3, 5, 4)  # found, so that the scores are not stored as a whole


def one_query_of_every_head(_, x):
    scores = torch.einsum("bhd,bshd->bhs", x[:, -1], x)
    return torch.einsum("bhs,bshd->bhd", keep(scores.softmax(-1)), x)


def test_one_query_of_every_head_needs_the_number_of_heads():
    (step,) = watched_by(Function(one_query_of_every_head, n_heads=3), torch.randn(2, 7, 3, 5)).steps
    assert_close(step.attended.pattern.dense(), KEPT[0][:, :, None])
    watched = watched_by(Function(one_query_of_every_head), torch.randn(2, 7, 3, 5))
    assert watched.steps == []
    assert watched.unseen == {
        "(the model itself)": "its weights have several axes without queries, such as batch, heads and windows; give "
        "the module its number of heads as n_heads"
    }


@pytest.mark.parametrize("shape", [(14, 7), (-1, 7), (2, 7, 7, 1)])
def test_scores_may_be_viewed_in_any_shape_that_keeps_the_rows(shape):
    def attention(_, x):
        axis = -1 if shape[-1] == 7 else 2
        return keep((x @ x.mT).reshape(shape).softmax(axis).view(2, 7, 7)) @ x

    (step,) = watched_by(Function(attention), torch.randn(2, 7, 5)).steps
    assert_close(step.attended.pattern.dense()[:, 0], KEPT[0], rtol=1e-6, atol=1e-7)


GATES = {
    "a gate": lambda self, x: x[..., :4] * self.gate(x).softmax(-1),
    "a gate, summed": lambda self, x: (x[..., :4] * self.gate(x).softmax(-1)).sum(-1),
    "an entropy": lambda self, x: ((weights := self.gate(x).softmax(-1)) * weights.log()).sum(-1),
}


@pytest.mark.parametrize("name", GATES)
def test_a_gate_is_not_taken_for_attention(name):
    watched = watched_by(Function(GATES[name]), torch.randn(3, 7, 5))
    assert (watched.steps, watched.unseen) == ([], {})


OF_PARAMETERS = {
    "a mixture of experts": lambda self, x: (self.mixture(x) * self.gate(x).softmax(-1)[..., None]).sum(-2),
    "a noisy mixture": lambda self, x: (self.gate(x) + torch.ones(7, 4)).softmax(-1)[..., None, :] @ self.mixture(x),
    "a mixture by a table": lambda self, x: torch.einsum(
        "btn,btnd->btd", (x @ self.table).relu().softmax(-1), self.mixture(x)
    ),
    "a classifier": lambda self, x: self.gate(x).softmax(-1) @ self.table.mT,
    "a mixture of layers": lambda self, x: (torch.stack([x] * 4) * self.table[0].softmax(0).view(4, 1, 1, 1)).sum(0),
}


@pytest.mark.parametrize("name", OF_PARAMETERS)
def test_a_softmax_over_features_of_parameters_is_not_taken_for_attention(name):
    watched = watched_by(Function(OF_PARAMETERS[name]), torch.randn(3, 7, 5))
    assert watched.steps == []
    assert watched.unseen == {
        "(the model itself)": "its softmax is over features that a layer with parameters computes, as in a mixture of "
        "experts; give its class a name with Attention if it is attention"
    }
    both = nn.Sequential(Decoder(one_row), Function(OF_PARAMETERS[name]))
    with regard.watching(both) as watched:
        both[0](torch.randn(3, 7, 5))
        both[1](torch.randn(3, 7, 5))
    assert ({step.path for step in watched.steps}, watched.unseen) == ({"0"}, {})


class LocationAttention(Function):
    """Attention whose scores do not depend on the keys: known by the name of its class."""


def test_attention_with_scores_of_parameters_is_known_by_its_name():
    def attention(self, x):
        weights = keep(self.gate(x[:, -1]).softmax(-1))
        return weights[:, None] @ x[:, :4]

    (step,) = watched_by(LocationAttention(attention), torch.randn(3, 7, 5)).steps
    assert_close(step.attended.pattern.dense(), KEPT[0][:, None, None])


def test_weights_that_are_changed_after_the_softmax_are_named():
    def changed(_, x):
        return (((x * x[:, -1:]).sum(-1).softmax(-1) * 0.5)[..., None] * x).sum(1)

    watched = watched_by(Function(changed), torch.randn(3, 7, 5))
    reason = "it computes no softmax of scores whose result is multiplied with values"
    assert watched.unseen == {"(the model itself)": reason}
