"""Tests of exports to CTranslate2: equal log-probabilities for all settings of a Transformer, equal beam search."""

import ctranslate2
import pytest
import torch
from refusals import refusal

from regard import InputError
from regard.export import ctranslate2 as export
from regard.export.parity import compare
from regard.transformer.feed_forward import ACTIVATIONS
from regard.translation.search.beam import Beam
from regard.translation.search.interface import SourceBatch

LINES = ["the cat sat", "zwei 猫", "a"]
SHAPES = [
    {"joint": True, "share": "all", "activation": "relu"},
    {"norm": "post", "share": "target", "n_decoder_layers": 3, "activation": "gelu"},
    {"norm": "pre", "positions": "learned", "share": "none", "activation": "silu"},
    {"norm": "post", "positions": "learned", "activation": "gelu_tanh"},
    {"norm": "pre", "positions": "rotary", "n_key_heads": 2, "activation": "swiglu"},
    {"norm": "post", "positions": "rotary", "activation": "swish"},
    {"activation": "tanh"},
    {"activation": "glu"},
    {"activation": "reglu"},
    {"activation": "geglu"},
]


def test_every_activation_that_ctranslate2_has_is_in_a_shape():
    known = {name for name, names in ACTIVATIONS.items() if names.ctranslate2}
    assert {shape["activation"] for shape in SHAPES} == known


def written(translator, folder):
    export.write(translator, folder)
    return export.LoadedExport(folder)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_translates_the_same(translator_of, tmp_path, shape):
    translator = translator_of(**shape)
    parity = compare(translator, written(translator, tmp_path), LINES)
    assert parity.n_same == len(LINES)
    assert parity.difference < 1e-5


def test_beam_search_finds_the_same(translator_of, tmp_path):
    """Without penalties both rank by log P alone; logits are sharpened, so that no two texts are equally probable."""
    translator = translator_of(norm="post")
    with torch.no_grad():
        translator.model.decoder.to_logits.weight.mul_(2)
    opened = written(translator, tmp_path)
    options = {"beam_size": 4, "length_penalty": 0, "min_decoding_length": 0}
    options["suppress_sequences"] = [["<pad>"], ["<s>"]]
    for line in LINES:
        sources = SourceBatch.of(translator.model, [[*translator.source_vocabulary.encode(line), 3]])
        own = Beam(4, length_penalty=0.0, coverage_penalty=0.0).run(translator.model, sources)[0][0]
        pieces = [opened.source_processor.encode(line, out_type=str)]
        found = opened.translator.translate_batch(pieces, max_decoding_length=sources.limits[0], **options)
        if not own.cut:  # a text that is cut off has an EOS in ours and none in theirs
            assert [opened.target_processor.piece_to_id(piece) for piece in found[0].hypotheses[0]] == list(own.tokens)


def test_the_folder_is_all_that_is_needed(translator_of, tmp_path):
    """The exported folder alone is enough to translate, loaded as CTranslate2's users do, in int8."""
    translator = translator_of()
    opened = written(translator, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json", "model.bin", "source.spm", "source_vocabulary.json", "target.spm", "target_vocabulary.json",
    ]  # fmt: skip
    small = ctranslate2.Translator(str(tmp_path), compute_type="int8", intra_threads=1)
    found = small.translate_batch([opened.source_processor.encode(LINES[0], out_type=str)])
    assert isinstance(opened.target_processor.decode_pieces(found[0].hypotheses[0]), str)


def test_activations_and_models_that_ctranslate2_lacks_are_refused(translator_of, tmp_path):
    assert refusal(InputError, export.write, translator_of(activation="mish"), tmp_path) == (
        "CTranslate2 has no activation 'mish'; it has relu, gelu, gelu_tanh, swish, silu, tanh, glu, reglu, geglu, "
        "swiglu. Export this model with --to onnx."
    )
    assert refusal(InputError, export.checked_model, object()) == (
        "CTranslate2 runs Transformers, and this is a object translator; export it with --to onnx."
    )
    assert list(tmp_path.iterdir()) == []
