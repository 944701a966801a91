"""The recurrent model: logits do not depend on later tokens, padding, or the division of the target into steps."""

import pytest
import torch
import torch.nn.functional as F
from model_laws import LENGTHS, SOURCE, TARGET, Laws, run, start
from refusals import refusal
from torch.testing import assert_close

from regard import Recurrent, RecurrentConfig

KINDS = {
    "luong": {"attention": "local_m", "score": "dot"},
    "feeding": {"form": "luong_feeding", "cell": "gru", "share": "none", "attention": "local_p", "score": "concat"},
    "bahdanau": {"form": "bahdanau", "score": "additive", "n_layers": 1},
    "aware, luong": {"score": "location_aware"},
    "aware, bahdanau": {"form": "bahdanau", "score": "location_aware", "attention": "hard"},
}
"""Each form, each kind of attention, and the score with which Luong's form reads token by token."""


@pytest.fixture(params=KINDS)
def model(request, loud) -> Recurrent:
    return loud(**KINDS[request.param])


class TestLaws(Laws):
    """The properties that every `TranslatingModel` must have."""


def test_padding_takes_no_gradient_of_the_source(model):
    run(model, source=torch.where(SOURCE == 0, 30, SOURCE)).logits.square().sum().backward()
    used = {int(token) for row, length in zip(SOURCE, LENGTHS, strict=True) for token in row[:length]}
    moved = model.encoder.embedding.weight.grad.abs().sum(dim=1) > 0
    assert moved.nonzero().flatten().tolist() == sorted(used)


def test_a_gradient_reaches_every_parameter(model):
    run(model).logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in model.parameters())


def test_patterns_of_selected_rows_are_those_of_the_rows(model):
    state, rows = model.step(TARGET[:, :4], start(model)).state, torch.tensor([2, 0, 0, 1, 2])
    step, expected = model.step(TARGET[rows, 4:6], state.select(rows)), model.step(TARGET[:, 4:6], state)
    after, expected_after = model.step(TARGET[rows, 6:7], step.state), model.step(TARGET[:, 6:7], expected.state)
    assert_close(after.cross[0].dense(), expected_after.cross[0].dense()[rows])


def test_a_state_without_gradients_may_be_continued_with_gradients_or_autocast(loud):
    model = loud().float()
    with torch.no_grad():
        state = start(model)
    expected = model.step(TARGET[:, :3], start(model)).logits
    found = model.step(TARGET[:, :3], state).logits
    assert_close(found, expected)
    found.sum().backward()
    assert model.decoder.to_logits.weight.grad.any()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert model.step(TARGET[:, :3], state).logits.dtype == torch.bfloat16


def test_the_repr_of_a_state_has_its_sizes(model):
    state = start(model).select(torch.tensor([1, 1]))
    assert repr(state) == f"State(n_tokens=0, rows=2, source=11, layers={model.config.n_layers})"


@pytest.mark.parametrize("score", ["additive", "concat", "location_aware"])
def test_a_step_projects_no_source(loud, score, monkeypatch):
    model = loud(score=score, form="bahdanau")
    state = start(model)
    monkeypatch.setattr(type(model.decoder.reader.score), "prepare", None)
    model.step(TARGET[:, :3], state).cross[0].dense()


def test_rows_of_the_pattern_sum_to_one(model):
    weights = run(model).cross[0].dense()
    assert weights.shape == (3, 1, 13, 11)
    for row, length in enumerate(LENGTHS):
        assert (weights[row, ..., length:] == 0).all()
    sums, attention = weights.sum(dim=-1), model.config.attention
    if attention == "local_p":
        assert ((sums > 0) & (sums <= 1)).all()
    elif attention == "local_m":  # a row whose window has gone past the source's end reads nothing
        seen = torch.arange(13) - model.config.reach < torch.tensor(LENGTHS)[:, None]
        assert_close(sums[:, 0], seen.double())
        assert not seen.all()
    else:
        assert_close(sums, torch.ones_like(sums))


def test_the_pattern_times_the_states_is_the_context_of_the_decoder(model, monkeypatch):
    contexts, attention_vector = [], type(model.decoder).attention_vector

    def spy(decoder, context, states, embedded):
        contexts.append(context)
        return attention_vector(decoder, context, states, embedded)

    monkeypatch.setattr(type(model.decoder), "attention_vector", spy)
    seen = run(model).cross[0]
    states = model.encoder(SOURCE, torch.tensor(LENGTHS)).states
    assert_close(seen.apply(states[:, None])[:, 0], torch.cat(contexts, dim=1))


def test_attention_changes_the_logits(model):
    """Encoder states in another order give other logits."""
    state = start(model)
    object.__setattr__(state.memory, "states", state.memory.states.flip(1))  # of a frozen dataclass
    assert (model.step(TARGET, state).logits - run(model).logits).abs().max() > 1e-3


def test_shared_embeddings_are_one_parameter(loud):
    sizes = {}
    for share in ("none", "target"):
        model = loud(share=share)
        sizes[share] = sum(parameter.numel() for parameter in model.parameters())
        assert (model.decoder.embedding.weight is model.decoder.to_logits.weight) == (share == "target")
    assert sizes["none"] - sizes["target"] == 37 * 14


def test_base_has_the_size_of_the_published_model():
    """20.5 million parameters at the vocabularies of pytorch-seq2seq's tutorial on Multi30k."""
    with torch.device("meta"):
        model = Recurrent(RecurrentConfig.preset("base", n_source_tokens=7_853, n_target_tokens=5_893))
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(20.5, rel=0.1)


@pytest.mark.parametrize("name", ["layers", "embeddings and outputs"])
def test_dropout_is_for_training_alone(loud, name):
    model = loud(dropout=0.5, n_layers=2 if name == "layers" else 1)
    if name == "layers":
        model.encoder.dropout.p = model.decoder.dropout.p = 0.0
    assert not torch.equal(run(model.train()).logits, run(model).logits)
    assert torch.equal(run(model.eval()).logits, run(model).logits)


@pytest.mark.parametrize("kind", ["luong", "bahdanau"])
def test_dropout_changes_what_becomes_logits_and_not_what_the_next_step_is_fed(loud, kind):
    model, seen = loud(**KINDS[kind], dropout=0.5).train(), []
    model.decoder.to_logits.register_forward_pre_hook(lambda layer, given: seen.append(given[0]))
    state = model.step(TARGET, start(model)).state
    assert 0.35 < float((seen[0] == 0).double().mean()) < 0.65
    assert state.output.all()


def test_an_lstm_starts_with_open_forget_gates():
    layers = Recurrent(RecurrentConfig(n_source_tokens=7, n_target_tokens=7, d_model=6)).decoder.cells.layers
    assert layers.bias_ih_l0.tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    assert not layers.bias_hh_l0.any()
    gates = layers.weight_hh_l0.detach().split(6)
    for gate in gates:
        assert_close(gate @ gate.T, torch.eye(6), atol=1e-5, rtol=0)


def test_the_loss_of_a_fresh_model_is_that_of_guessing():
    """ln 997 = 6.9 nats."""
    torch.manual_seed(0)
    model = Recurrent(RecurrentConfig.preset("small", n_source_tokens=997, n_target_tokens=997)).eval()
    target = torch.randint(997, (5, 23))
    logits = model(torch.randint(997, (5, 19)), torch.full((5,), 19), target).logits[:, :-1]
    assert 6.8 < float(F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).detach()) < 7.2


def test_a_text_longer_than_a_location_score_allows_is_refused(loud):
    assert refusal(ValueError, run, loud(score="location", max_tokens=7)) == (
        "there are 11 keys and this Location has scores for 7 positions; build it with max_keys=11 or more, or give "
        "fewer keys."
    )


@pytest.mark.parametrize("kind", ["luong", "feeding", "bahdanau", "aware, bahdanau"])
def test_texts_may_be_longer_than_max_tokens(loud, kind):
    assert_close(run(loud(**KINDS[kind], max_tokens=3)).logits, run(loud(**KINDS[kind], max_tokens=64)).logits)


@pytest.mark.parametrize("kind", ["luong", "bahdanau", "aware, bahdanau"])
def test_logits_under_autocast_are_near_those_of_float32(loud, kind):
    model = loud(**KINDS[kind]).float()
    with torch.no_grad():
        expected = run(model).logits
        with torch.autocast("cpu", torch.bfloat16):
            rounded = run(model).logits
    assert rounded.dtype == torch.bfloat16
    assert (rounded.float() - expected).abs().median() < 0.05 * expected.abs().median()
