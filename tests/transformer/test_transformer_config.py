"""The Transformer's config: presets, there and back as plain values, and every refusal."""

import dataclasses
import json

import pytest
from refusals import refusal

from regard.transformer.config import PRESETS, TransformerConfig

BOTH = {"n_source_tokens": 97, "n_target_tokens": 97}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_build_and_go_to_json_and_back(name):
    config = TransformerConfig.preset(name, **BOTH, n_decoder_layers=2)
    assert (config.n_source_tokens, config.n_decoder_layers, config.share) == (97, 2, "all")
    assert TransformerConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_base_is_the_papers():
    """Table 3 and sections 3.1 to 3.5."""
    config = TransformerConfig.preset("base", **BOTH)
    paper = {
        "d_model": 512, "n_heads": 8, "d_ff": 2048, "n_layers": 6, "n_decoder_layers": None, "norm": "post",
        "positions": "sinusoidal", "activation": "relu", "share": "all", "dropout": 0.1, "attention_dropout": 0.0,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in paper} == paper
    assert config.d_head == 64


def test_presets_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        PRESETS["base"] = {}


def test_an_unknown_preset_is_refused():
    assert refusal(ValueError, TransformerConfig.preset, "bas", **BOTH) == (
        "preset='bas' is unknown; did you mean 'base'? There are 'tiny', 'small', 'base', 'big'."
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"norm": "prenorm"}, "norm='prenorm' is unknown; did you mean 'pre'? There are 'post', 'pre'."),
        (
            {"positions": "rotory"},
            "positions='rotory' is unknown; did you mean 'rotary'? There are 'sinusoidal', 'learned', 'rotary'.",
        ),
        (
            {"activation": "swglu"},
            "activation='swglu' is unknown; did you mean 'swiglu'? There are 'relu', 'gelu', 'gelu_tanh', 'swish', "
            "'silu', 'mish', 'squared_relu', 'tanh', 'glu', 'bilinear', 'reglu', 'geglu', 'swiglu'.",
        ),
        ({"share": "al"}, "share='al' is unknown; did you mean 'all'? There are 'none', 'target', 'all'."),
        ({"d_model": 0}, "d_model=0 is a count; it must be a whole number of at least 1."),
        ({"n_layers": 2.0}, "n_layers=2.0 is a count; it must be a whole number of at least 1."),
        ({"n_decoder_layers": 0}, "n_decoder_layers=0 is a count; it must be a whole number of at least 1."),
        ({"n_key_heads": -1}, "n_key_heads=-1 is a count; it must be a whole number of at least 1."),
        ({"n_source_tokens": -3}, "n_source_tokens=-3 is a count; it must be a whole number of at least 0."),
        ({"d_ff": True}, "d_ff=True is a count; it must be a whole number of at least 1."),
        ({"dropout": 1.0}, "dropout=1.0 must be a probability of at least 0 and below 1."),
        ({"attention_dropout": -0.1}, "attention_dropout=-0.1 must be a probability of at least 0 and below 1."),
        (
            {"d_model": 10, "n_heads": 4},
            "d_model=10 does not split evenly into n_heads=4; head counts that divide it: [1, 2, 5, 10].",
        ),
        (
            {"n_heads": 8, "n_key_heads": 3},
            "n_heads=8 does not split evenly into groups for n_key_heads=3; head counts that divide it: [1, 2, 4, 8].",
        ),
        (
            {"d_model": 15, "n_heads": 5, "positions": "rotary"},
            "positions='rotary' rotates pairs of numbers, so that d_model / n_heads must be even; it is 15 / 5 = 3.",
        ),
        (
            {"n_source_tokens": 0, "n_target_tokens": 0},
            "n_source_tokens=0 and n_target_tokens=0 leave the model without a vocabulary; give the size of the "
            "source vocabulary, of the target vocabulary, or of both.",
        ),
        (
            {"n_target_tokens": 89, "share": "all"},
            "share='all' shares one embedding between source and target, so n_source_tokens=97 and n_target_tokens=89 "
            "must be equal; with two vocabularies take share='target' or share='none'.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(without_type_checks, given, message):
    assert refusal(ValueError, TransformerConfig, **{**BOTH, **given}) == message
