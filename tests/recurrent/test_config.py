"""The recurrent config: presets, conversion to plain values and back, and every message."""

import dataclasses
import json

import pytest
from refusals import refusal

from regard import Recurrent, RecurrentConfig
from regard.recurrent.config import PRESETS

BOTH = {"n_source_tokens": 97, "n_target_tokens": 89}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_build_and_go_to_json_and_back(name):
    config = RecurrentConfig.preset(name, **BOTH, max_tokens=101)
    assert (config.n_source_tokens, config.n_target_tokens, config.max_tokens) == (97, 89, 101)
    assert RecurrentConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_fields_of_a_preset_can_be_replaced(cell):
    model = Recurrent(RecurrentConfig.preset("tiny", **BOTH, cell=cell))
    assert type(model.decoder.cells.layers).__name__ == cell.upper()


def test_presets_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        PRESETS["base"] = {}


def test_an_unknown_preset_is_refused():
    assert refusal(ValueError, RecurrentConfig.preset, "smal", **BOTH) == (
        "preset='smal' is unknown; did you mean 'small'? There are 'tiny', 'small', 'base', 'big'."
    )


def test_what_does_not_fit_is_refused(without_type_checks):
    cases = [
        ({"cell": "gnu"}, "cell='gnu' is unknown; did you mean 'gru'? There are 'lstm', 'gru'."),
        (
            {"form": "bahdanu"},
            "form='bahdanu' is unknown; did you mean 'bahdanau'? There are 'luong', 'luong_feeding', 'bahdanau'.",
        ),
        (
            {"score": "aditive"},
            "score='aditive' is unknown; did you mean 'additive'? There are 'dot', 'scaled_dot', 'general', "
            "'additive', 'concat', 'cosine', 'location', 'location_aware'.",
        ),
        (
            {"attention": "local"},
            "attention='local' is unknown; did you mean 'local_p'? There are 'soft', 'hard', 'local_m', 'local_p'.",
        ),
        ({"share": "all"}, "share='all' is unknown; did you mean 'none'? There are 'none', 'target'."),
        ({"d_model": 0}, "d_model=0 is a count; it must be a whole number of at least 1."),
        ({"d_model": 7}, "d_model=7 is shared by the two directions of the encoder, so it must be even."),
        ({"n_layers": 2.0}, "n_layers=2.0 is a count; it must be a whole number of at least 1."),
        ({"reach": -1}, "reach=-1 is a count; it must be a whole number of at least 1."),
        ({"max_tokens": True}, "max_tokens=True is a count; it must be a whole number of at least 1."),
        ({"n_source_tokens": 0}, "n_source_tokens=0 is a count; it must be a whole number of at least 1."),
        ({"n_target_tokens": 0}, "n_target_tokens=0 is a count; it must be a whole number of at least 1."),
        ({"dropout": 1.0}, "dropout=1.0 must be a probability of at least 0 and below 1."),
    ]
    found = [refusal(ValueError, lambda fields=fields: RecurrentConfig(**{**BOTH, **fields})) for fields, _ in cases]
    assert found == [message for _, message in cases]
