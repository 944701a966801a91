"""Tests of the Transformer: logits do not depend on later tokens, on padding, or on decoding in steps; its sizes."""

import pytest
import torch
from loud import loud, small
from model_laws import LENGTHS, SOURCE, TARGET, Laws, run, start
from refusals import refusal
from torch.testing import assert_close

from regard.transformer.config import TransformerConfig
from regard.transformer.decoder import Decoder
from regard.transformer.encoder import Encoder
from regard.transformer.model import Transformer

KINDS = {
    "pre": {},
    "post": {"norm": "post"},
    "learned": {"positions": "learned", "share": "none"},
    "rotary": {"positions": "rotary", "n_key_heads": 2},
    "gated": {"activation": "swiglu", "n_target_tokens": 31, "share": "all"},
}


@pytest.fixture(params=KINDS)
def model(request) -> Transformer:
    return loud(Transformer(small(**KINDS[request.param])))


class TestLaws(Laws):
    """The tests of model_laws.py, which every translating model must pass."""


def test_every_earlier_token_changes_the_logits(model):
    logits = run(model).logits
    for place in range(6):
        changed = TARGET.clone()
        changed[:, place] = (TARGET[:, place] + 1) % 31
        assert ((run(model, target=changed).logits[:, 6] - logits[:, 6]).abs().amax(dim=-1) > 1e-6).all()


def test_padding_takes_no_gradient_of_the_source(model):
    run(model, source=torch.where(SOURCE == 0, 30, SOURCE)).logits.square().sum().backward()
    if model.config.share != "all":
        used = {int(token) for row, length in zip(SOURCE, LENGTHS, strict=True) for token in row[:length]}
        moved = model.encoder.embedding.by_token.weight.grad.abs().sum(dim=1) > 0
        assert moved.nonzero().flatten().tolist() == sorted(used)
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_the_repr_of_a_state_has_its_sizes(model):
    state = start(model).select(torch.tensor([1, 1]))
    assert repr(state) == "DecodingState(n_tokens=0, rows=2, source=11, layers=3)"


def test_a_step_projects_no_source(model):
    state, projected = start(model), []
    for block in model.decoder.blocks:
        block.cross_attention.to_key.register_forward_hook(lambda *_: projected.append(1))
    model.step(TARGET[:, :1], state)
    assert projected == []


def test_patterns_are_those_of_every_block(model):
    predicted = run(model)
    assert [len(predicted.encoder), len(predicted.decoder), len(predicted.cross)] == [2, 3, 3]
    assert predicted.encoder[0].shape == (3, 6, 11, 11)
    assert predicted.decoder[0].shape == (3, 6, 13, 13)
    weights = predicted.cross[2].dense()
    assert weights.shape == (3, 6, 13, 11)
    assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    assert (weights[0, :, :, 5:] == 0).all()
    assert (predicted.decoder[1].dense().triu(1) == 0).all()


def test_patterns_times_values_are_the_contexts_of_the_model(model):
    seen, block = run(model).cross[0], model.decoder.blocks[0]
    reads = []
    block.cross_attention.register_forward_hook(lambda module, given, read: reads.append(read))
    run(model)
    assert_close(seen.apply(seen.value), reads[0].attended.context)


def test_shared_embeddings_are_one_parameter():
    sizes = {}
    for share in ("none", "target", "all"):
        model = Transformer(small(n_source_tokens=37, share=share))
        sizes[share] = sum(parameter.numel() for parameter in model.parameters())
        source, target = model.encoder.embedding.by_token.weight, model.decoder.embedding.by_token.weight
        output = model.decoder.to_logits.weight
        assert (target is output, source is target) == (share != "none", share == "all")
    assert sizes["none"] - sizes["target"] == sizes["target"] - sizes["all"] == 37 * 24


@pytest.mark.parametrize(("preset", "millions"), [("base", 65), ("big", 213)])
def test_sizes_are_the_papers(preset, millions):
    """Table 3 of the paper rounds; ours has an output bias besides, 0.04 million numbers of it."""
    with torch.device("meta"):
        model = Transformer(TransformerConfig.preset(preset, n_source_tokens=37_000, n_target_tokens=37_000))
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.035)


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout"])
def test_dropout_is_for_training_alone(kind):
    model = loud(Transformer(small(**{"dropout": 0.0, kind: 0.5})))
    assert not torch.equal(run(model.train()).logits, run(model).logits)
    assert torch.equal(run(model.eval()).logits, run(model).logits)


def test_a_fresh_models_loss_starts_near_that_of_guessing():
    """ln 997 = 6.9 nats, and up to 2 more: the token just read, still on the residual path, scores high where the
    output projection is the embedding."""
    for norm in ("pre", "post"):
        torch.manual_seed(0)
        config = TransformerConfig.preset("small", n_source_tokens=997, n_target_tokens=997, norm=norm)
        model, target = Transformer(config).eval(), torch.randint(997, (5, 23))
        logits = model(torch.randint(997, (5, 19)), torch.full((5,), 19), target).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        assert 6.9 < float(loss.detach()) < 8.9


# Parts alone


def test_an_encoder_alone_equals_the_transformers(model):
    encoder = Encoder(model.config).double().eval()
    encoder.load_state_dict(model.encoder.state_dict())
    assert_close(encoder(SOURCE, torch.tensor(LENGTHS)).output, model.encoder(SOURCE, torch.tensor(LENGTHS)).output)
    assert repr(encoder(SOURCE).patterns[1]) == "Pattern(batch=3, heads=6, queries=11, keys=11)"


def test_a_decoder_without_a_source_is_a_language_model():
    decoder = loud(Decoder(small(n_source_tokens=0)))
    names = [name for name, _ in decoder.named_parameters()]
    assert not any("cross" in name for name in names)
    decoded = decoder(TARGET)
    assert (decoded.cross, decoded.state.n_tokens) == ((), 13)
    assert repr(decoded.state) == "DecodingState(n_tokens=13, rows=3, layers=3)"
    first = decoder(TARGET[:, :5])
    rows = torch.tensor([1, 1, 0])
    after = decoder(TARGET[rows, 5:], first.state.select(rows))
    assert_close(after.logits, decoded.logits[rows, 5:])


def test_texts_may_be_longer_than_max_tokens_unless_positions_are_learned():
    model = loud(Transformer(small(max_tokens=7)))
    longer = loud(Transformer(small(max_tokens=64)))
    assert_close(run(model).logits, run(longer).logits)
    assert refusal(ValueError, run, Transformer(small(max_tokens=7, positions="learned"))) == (
        "a text of 11 tokens is longer than the max_tokens=7 that have a learned position; shorten it, or build and "
        "train LearnedPositions with more."
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Encoder(small(n_source_tokens=0)),
            "n_source_tokens=0 leaves an encoder without a vocabulary; give the size of its vocabulary.",
        ),
        (
            lambda: Decoder(small(n_target_tokens=0)),
            "n_target_tokens=0 leaves a decoder without a vocabulary; give the size of its vocabulary.",
        ),
        (
            lambda: Decoder(small())(TARGET),
            "got no memory for n_source_tokens=31; a decoder that was built for a source takes the encoder's output "
            "as its memory, and one with n_source_tokens=0 takes none.",
        ),
        (
            lambda: Decoder(small(n_source_tokens=0)).start(torch.zeros(1, 2, 24)),
            "got a memory for n_source_tokens=0; a decoder that was built for a source takes the encoder's output "
            "as its memory, and one with n_source_tokens=0 takes none.",
        ),
    ],
)
def test_a_missing_vocabulary_or_memory_is_refused(build, message):
    assert refusal(ValueError, lambda: build()) == message
