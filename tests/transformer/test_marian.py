"""Tests of converting Marian models from and to transformers: the logits are those that transformers computes."""

import pytest
import torch
from loud import loud, small
from model_laws import texts
from refusals import refusal
from torch.testing import assert_close
from transformers import BartConfig, BartForConditionalGeneration, MarianConfig, MarianMTModel

from regard.errors import InputError
from regard.transformer.marian import from_marian, to_marian
from regard.transformer.model import Transformer

LENGTHS = torch.tensor([5, 11, 7])
SOURCE, TARGET = texts([5, 11, 7], 31), texts([13, 13, 13], 31, seed=1)
TARGET[:, 0] = 0  # Marian's decoder starts with padding

SIZES = {
    "vocab_size": 31, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 29, "decoder_ffn_dim": 29, "max_position_embeddings": 41,
    "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0, "forced_eos_token_id": 3,
    "scale_embedding": True,
}  # fmt: skip

KINDS = {
    "as OPUS-MT": ("all", {"activation_function": "swish"}),
    "two vocabularies": ("target", {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 37}),
    "nothing shared": ("none", {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    "not scaled": ("none", {"scale_embedding": False, "activation_function": "relu"}),
}
"""By name: `share` of the Transformer that a Marian model becomes, and the model's options."""


def marian(kind: str, **given: object) -> MarianMTModel:
    """Return a Marian model with large random parameters, also the output bias; sinusoidal positions are unchanged."""
    model = MarianMTModel(MarianConfig(**{**SIZES, **KINDS[kind][1], **given}))
    sides = model.model.encoder, model.model.decoder
    waves = [side.embed_positions.weight.clone() for side in sides]
    loud(model)
    for side, wave in zip(sides, waves, strict=True):
        side.embed_positions.weight.data.copy_(wave)
    model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(2))
    return model


def logits(model: MarianMTModel) -> torch.Tensor:
    seen = torch.arange(SOURCE.shape[1]) < LENGTHS[:, None]
    return model(input_ids=SOURCE, attention_mask=seen, decoder_input_ids=TARGET).logits


@pytest.mark.parametrize("kind", KINDS)
def test_a_marian_model_gives_the_same_logits(kind):
    model = marian(kind)
    copy = from_marian(model)
    assert copy.config.share == KINDS[kind][0]
    assert logits(model).std() > 0.5
    assert_close(copy(SOURCE, LENGTHS, TARGET).logits, logits(model), rtol=1e-6, atol=1e-6)


def test_patterns_are_the_attentions_that_transformers_gives():
    model = marian("as OPUS-MT")
    model.set_attn_implementation("eager")
    seen = torch.arange(SOURCE.shape[1]) < LENGTHS[:, None]
    expected = model(input_ids=SOURCE, attention_mask=seen, decoder_input_ids=TARGET, output_attentions=True)
    predicted = from_marian(model)(SOURCE, LENGTHS, TARGET)
    for layer, weights in enumerate(expected.cross_attentions):
        assert_close(predicted.cross[layer].dense(), weights, rtol=1e-5, atol=1e-6)
    for layer, weights in enumerate(expected.decoder_attentions):
        assert_close(predicted.decoder[layer].dense(), weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_marian_model_converted_and_converted_back_has_the_same_logits(kind):
    model = marian(kind)
    again = to_marian(from_marian(model))
    assert_close(logits(again), logits(model), rtol=1e-6, atol=1e-6)
    assert again.config.tie_word_embeddings == (KINDS[kind][0] != "none")
    assert again.config.share_encoder_decoder_embeddings == (KINDS[kind][0] == "all")


@pytest.mark.parametrize(
    "given",
    [{"share": "target"}, {"share": "none", "activation": "squared_relu"}, {"n_target_tokens": 31, "share": "all"}],
)
def test_a_transformer_becomes_a_marian_model_that_is_saved_and_read(given, tmp_path):
    model = loud(Transformer(small(norm="post", **given)))
    theirs = to_marian(model)
    config = theirs.config
    ids = config.pad_token_id, config.bos_token_id, config.decoder_start_token_id, config.eos_token_id
    assert ids == (0, 2, 2, 3)
    expected = model(SOURCE, LENGTHS, TARGET).logits
    assert_close(logits(theirs), expected, rtol=1e-6, atol=1e-6)
    theirs.save_pretrained(tmp_path)
    assert_close(logits(MarianMTModel.from_pretrained(tmp_path, dtype=torch.float64)), expected, rtol=1e-6, atol=1e-6)
    assert_close(from_marian(tmp_path)(SOURCE, LENGTHS, TARGET).logits, expected, rtol=1e-6, atol=1e-6)


def test_generate_of_transformers_gives_the_ids_of_our_greedy_search():
    model = loud(Transformer(small(norm="post", n_target_tokens=31, share="all")))
    seen = torch.arange(SOURCE.shape[1]) < LENGTHS[:, None]
    ids = to_marian(model).generate(
        input_ids=SOURCE, attention_mask=seen, max_new_tokens=9, num_beams=1, do_sample=False
    )
    state, tokens, running = model.start(SOURCE, LENGTHS), torch.full((3, 1), 2), torch.ones(3, 1, dtype=torch.bool)
    for expected in ids[:, 1:].split(1, dim=1):
        step = model.step(tokens, state)
        tokens, state = torch.where(running, step.logits.argmax(dim=-1), 0), step.state
        assert tokens.tolist() == expected.tolist()
        running = running & (tokens != 3)
    assert ids[:, 0].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"norm": "pre"}, "norm='pre', and Marian's blocks are post-norm"),
        ({"positions": "rotary"}, "positions='rotary', and Marian has sinusoidal positions"),
        ({"n_key_heads": 2}, "n_key_heads=2, and Marian has n_key_heads equal to n_heads=6"),
        ({"activation": "geglu"}, "activation='geglu', and Marian has no gated activations"),
        (
            {"norm": "pre", "positions": "learned"},
            "norm='pre', and Marian's blocks are post-norm; positions='learned', and Marian has sinusoidal positions",
        ),
    ],
)
def test_a_transformer_that_marian_cannot_express_is_refused(given, reason):
    model = Transformer(small(**{"norm": "post", **given}))
    assert refusal(InputError, to_marian, model) == f"this Transformer cannot become a Marian model: {reason}."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"encoder_attention_heads": 4},
            "this Marian model has encoder_attention_heads=4 and decoder_attention_heads=6; a Transformer has the "
            "same in both.",
        ),
        (
            {"decoder_ffn_dim": 31},
            "this Marian model has encoder_ffn_dim=29 and decoder_ffn_dim=31; a Transformer has the same in both.",
        ),
        (
            {"activation_function": "quick_gelu"},
            "this Marian model has activation_function='quick_gelu'; a Transformer supports relu, gelu, "
            "gelu_pytorch_tanh, swish, silu, mish, relu2, tanh.",
        ),
    ],
)
def test_a_marian_model_that_is_no_transformer_is_refused(given, message):
    assert refusal(ValueError, from_marian, marian("as OPUS-MT", **given)) == message


def test_a_folder_without_a_marian_model_is_refused(tmp_path):
    missing = tmp_path / "none"
    message = f"{missing} has no config.json; give the folder of a saved Marian model."
    assert refusal(InputError, from_marian, missing) == message
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 2, "decoder_ffn_dim": 2}
    heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1}
    BartForConditionalGeneration(BartConfig(vocab_size=7, d_model=2, **sizes, **heads)).save_pretrained(tmp_path)
    message = f"{tmp_path} contains a model of type 'bart'; only 'marian' and 'pegasus' can become a Transformer."
    assert refusal(InputError, from_marian, tmp_path) == message
