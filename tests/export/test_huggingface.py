"""Tests of exports to transformers: the folder loads as any other, and gives equal logits, pieces and texts."""

import json
from dataclasses import replace

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from regard import InputError, trace
from regard.export import huggingface as export
from regard.export.parity import compare
from regard.transformer.config import PRESETS, TransformerConfig
from regard.translation.translator import Translator

LINES = ["the cat sat", "zwei 猫", "a"]
SHAPES = {
    "MarianMTModel": [
        {"norm": "post", "joint": True, "share": "all"},
        {"norm": "post", "share": "target", "activation": "gelu"},
        {"norm": "post", "share": "none", "n_key_heads": 2, "n_decoder_layers": 1},
    ],
    "PegasusForConditionalGeneration": [
        {"norm": "pre", "joint": True, "share": "all", "activation": "gelu_tanh"},
        {"norm": "pre", "share": "target", "n_decoder_layers": 1},
        {"norm": "pre", "share": "none", "turned": True, "n_key_heads": 1},
        {"norm": "pre", "positions": "learned", "activation": "swish"},
    ],
}


@pytest.mark.parametrize(("name", "shape"), [(name, shape) for name, some in SHAPES.items() for shape in some], ids=str)
def test_every_shape_translates_the_same(translator_of, tmp_path, name, shape):
    translator = translator_of(**shape)
    export.write(translator, tmp_path)
    opened = export.LoadedExport(tmp_path)
    assert type(opened.model).__name__ == name
    parity = compare(translator, opened, LINES)
    assert parity.n_same == len(LINES)
    assert parity.difference < 1e-5
    again = Translator.load(tmp_path, "cpu")
    config = translator.model.config
    assert again.model.config == replace(config, n_key_heads=None, n_decoder_layers=config.decoder_layers)
    assert [one.pieces(range(len(one))) for one in (again.source_vocabulary, again.target_vocabulary)] == [
        one.pieces(range(len(one))) for one in (translator.source_vocabulary, translator.target_vocabulary)
    ]
    parity = compare(again, opened, LINES)
    assert parity.n_same == len(LINES)
    assert parity.difference < 1e-5


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_an_architecture(preset):
    config = TransformerConfig.preset(preset, n_source_tokens=7, n_target_tokens=7)
    assert list(export.unsupported_reasons(config)) == []


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_padded_batch_has_the_same_logits_and_never_writes_padding(translator_of, tmp_path, norm):
    translator = translator_of(norm=norm)
    export.write(translator, tmp_path)
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path), AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    given = tokenizer(LINES, return_tensors="pt", padding=True)
    lengths = given["attention_mask"].sum(dim=1)
    ids = [[*translator.source_vocabulary.encode(line), 3] for line in LINES]
    assert [row[:n] for row, n in zip(given["input_ids"].tolist(), lengths.tolist(), strict=True)] == ids
    target = torch.tensor([[2, 5, 7], [2, 11, 13], [2, 17, 19]])
    with torch.inference_mode():
        theirs = model.eval()(**given, decoder_input_ids=target).logits
        ours = translator.model(given["input_ids"], lengths, target).logits
    assert_close(theirs[..., : ours.shape[-1]], ours, rtol=1e-4, atol=1e-4)
    found = model.generate(**given, max_new_tokens=9)
    assert not {0, 2} & set(found[:, 1].tolist())
    assert int(found.max()) < len(translator.target_vocabulary)


def test_ids_are_those_of_the_vocabularies(translator_of, tmp_path):
    translator = translator_of()
    export.write(translator, tmp_path)
    for name, vocabulary in (("vocab", translator.source_vocabulary), ("target_vocab", translator.target_vocabulary)):
        ids = json.loads((tmp_path / f"{name}.json").read_text())
        assert list(ids.values()) == list(range(len(vocabulary)))
        assert list(ids) == vocabulary.pieces(range(len(vocabulary)))


def test_settings_and_models_that_transformers_lacks_are_refused(translator_of, tmp_path):
    assert refusal(InputError, export.write, translator_of(positions="rotary", activation="swiglu"), tmp_path) == (
        "transformers has no architecture for this translator: positions='rotary', which neither Marian nor Pegasus "
        "has; activation='swiglu', while Marian and Pegasus have no gated activations. Export it with --to ctranslate2 "
        "or --to onnx."
    )
    assert refusal(InputError, export.write, translator_of(positions="learned", norm="post"), tmp_path) == (
        "transformers has no architecture for this translator: positions='learned' with norm='post', which Marian "
        "does not have (Pegasus has norm='pre'). Export it with --to ctranslate2 or --to onnx."
    )
    assert refusal(InputError, export.checked_model, object()) == (
        "transformers has no architecture for a object translator; export it with --to onnx."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_trace_of_it_names_the_tokens_as_the_translator_does(translator_of, tmp_path, joint):
    translator = translator_of(norm="post", joint=joint)
    export.write(translator, tmp_path)
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)
    theirs = trace(model, "the cat sat", target="il gatto", tokenizer=tokenizer)
    (ours,) = translator.score(["the cat sat"], ["il gatto"])
    assert [token.text for token in theirs.source] == [token.text for token in ours.trace.source]
    assert [token.text for token in theirs.target[1:]] == [token.text for token in ours.trace.target[1:]]
    for layer, pattern in theirs.cross.items():
        assert_close(pattern.dense(), ours.trace.cross[layer].dense(), rtol=1e-4, atol=1e-5)
