"""A translator's folder: reading what was written, and messages for folders that are damaged or no translator."""

import errno
import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from refusals import refusal
from safetensors.torch import load_file
from torch.testing import assert_close

from regard import InputError
from regard.tensor_file import write_tensors
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.translator_folder import read_translator, write_translator


@pytest.fixture
def folder(tmp_path, translator):
    return write_translator(
        tmp_path / "a" / "de", translator.model, translator.source_vocabulary, translator.target_vocabulary, {"best": 7}
    )


def change(folder, **fields):
    path = folder / "translator.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def refused(folder):
    """Return why the folder cannot be read, with DIR for its path."""
    return refusal(InputError, read_translator, folder).replace(str(folder), "DIR")


def test_what_is_written_is_read(folder, translator):
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["model.safetensors", "source.spm", "target.spm", "translator.json"]
    read = read_translator(folder)
    assert read.extra == {"best": 7}
    assert read.model.config == translator.model.config
    assert not read.model.training
    state = read.model.state_dict()
    assert state.keys() == translator.model.state_dict().keys()
    for name, tensor in translator.model.state_dict().items():
        assert_close(state[name], tensor, rtol=0, atol=0)
    assert read.source_vocabulary == translator.source_vocabulary
    assert read.target_vocabulary == translator.target_vocabulary


def test_parameters_that_are_one_are_written_once_and_are_one_again(folder):
    assert "decoder.embedding.by_token.weight" in load_file(folder / "model.safetensors")
    assert "decoder.to_logits.weight" not in load_file(folder / "model.safetensors")
    model = read_translator(folder).model
    assert model.decoder.to_logits.weight is model.decoder.embedding.by_token.weight


def test_one_vocabulary_for_both_is_one_file(tmp_path, vocabularies):
    both, _ = vocabularies
    config = TransformerConfig.preset("tiny", n_source_tokens=len(both), n_target_tokens=len(both))
    write_translator(tmp_path, Transformer(config), both, both)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["model.safetensors", "translator.json", "vocabulary.spm"]
    read = read_translator(tmp_path)
    assert read.source_vocabulary is read.target_vocabulary


def test_reading_leaves_the_random_numbers_alone(folder):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    read_translator(folder)
    assert_close(torch.rand(3), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["source.spm", "model.safetensors"])
def test_what_was_there_stays_when_writing_fails(folder, translator, name):
    """The operating system limits the size of files to half of this file's, so that writing fails."""
    resource = pytest.importorskip("resource", reason="has limits")
    messages = {
        "source.spm": f"cannot write a translator into {folder}: file too large; name another folder.",
        "model.safetensors": (
            f"cannot write {folder}/model.safetensors (Error while serializing: I/O error: File too large (os error "
            f"{errno.EFBIG})); make room on its disk, or name another folder."
        ),
    }
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before[name]) // 2, usual[1]))
    try:
        contents = translator.model, translator.source_vocabulary, translator.target_vocabulary
        assert refusal(InputError, write_translator, folder, *contents) == messages[name]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_without_a_translator_is_refused(tmp_path):
    assert refused(tmp_path / "none") == "DIR does not exist; give the folder that regard train wrote with --out."
    (tmp_path / "file").write_text("")
    assert refused(tmp_path / "file") == "DIR is a file; give the folder that regard train wrote with --out."
    assert refused(tmp_path) == (
        "DIR has no translator: there is no translator.json in it; give the folder that regard train wrote with "
        "--out (it is a translator from the first evaluation on)."
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"format": "other"},
            "DIR/translator.json was not written by regard; give the folder that regard train wrote with --out.",
        ),
        (
            {"version": 4, "regard": "9.1"},
            "DIR/translator.json is of version 4 and this version of regard reads version 3; use the "
            "version that wrote it, or train the translator again.",
        ),
        ({"kind": "transformr"}, "DIR/translator.json names the unknown kind 'transformr'; nearest: transformer."),
        ({"joint": 1}, "DIR/translator.json is damaged: joint must be a bool; copy the folder again."),
        ({"config": []}, "DIR/translator.json is damaged: config must be a dict; copy the folder again."),
    ],
)
def test_a_description_that_cannot_be_used_is_refused(folder, fields, message):
    change(folder, **fields)
    assert refused(folder) == message


def test_a_description_that_is_no_json_is_refused(folder):
    (folder / "translator.json").write_text('{"format":')
    assert refused(folder) == (
        "DIR/translator.json is damaged: it is not JSON; copy the folder again, or train once more."
    )
    (folder / "translator.json").write_text("[1]")
    assert refused(folder) == (
        "DIR/translator.json was not written by regard; give the folder that regard train wrote with --out."
    )


def test_a_description_that_may_not_be_read_is_refused(folder, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert refused(folder) == (
        "cannot read DIR/translator.json: permission denied; make it readable, or copy the folder again."
    )


def test_a_config_that_cannot_be_is_refused(folder, translator):
    config = asdict(translator.model.config)
    change(folder, config={**config, "n_layer": 3})
    assert refused(folder) == (
        "DIR/translator.json has the unknown config 'n_layer'; nearest: n_layers. "
        "If a newer regard wrote it, install that with pip install -U regard."
    )
    change(folder, config={**config, "n_layers": 1000})
    n_tensors = len(load_file(folder / "model.safetensors"))
    assert refused(folder) == (
        f"DIR/model.safetensors does not fit translator.json beside it: n_layers=1000, and the file has {n_tensors} "
        "tensors; copy the whole folder again."
    )
    change(folder, config={**config, "max_tokens": 10**9})
    assert refused(folder) == (
        "DIR/translator.json has max_tokens=1000000000, whose table of positions would have "
        f"{10**9 * config['d_model']:,} numbers, more than the model itself; copy the whole folder again."
    )
    change(folder, config={**config, "d_model": 2**53, "positions": "rotary"})
    assert refused(folder) == (
        "DIR/translator.json describes a model that cannot be built: RuntimeError Storage size calculation overflowed "
        f"with sizes=[{2**53}, {2**53}]."
    )
    change(folder, config={**config, "dropout": 2.0})
    assert refused(folder) == (
        "DIR/translator.json has an invalid config: dropout=2.0 must be a probability of at least 0 and below 1."
    )


@pytest.mark.parametrize(
    ("alignment", "message"),
    [
        ({"layer": 3}, "aligns words by layer 3, and the model has 3, counted from 0; copy the folder again."),
        (
            {"layer": 0, "head": -1},
            "aligns words by head -1, and the model has 2, counted from 0; copy the folder again.",
        ),
        ({"step": "writes"}, "has an invalid alignment: step='writes' must be one of 'predicts', 'reads'."),
        ({"lare": 1}, "has an invalid alignment: AlignmentRule has no 'lare'."),
        ([1], "has an invalid alignment: it is not an object."),
    ],
)
def test_an_alignment_that_cannot_be_is_refused(folder, alignment, message):
    change(folder, alignment=alignment)
    assert refused(folder) == f"DIR/translator.json {message}"


def test_a_folder_of_an_earlier_regard_aligns_by_the_default(folder):
    path = folder / "translator.json"
    about = json.loads(path.read_text())
    del about["alignment"]
    path.write_text(json.dumps(about))
    assert read_translator(folder).alignment_rule == AlignmentRule()


@pytest.mark.parametrize("name", ["model.safetensors", "source.spm", "target.spm"])
def test_a_folder_without_one_of_its_files_is_refused(folder, name):
    (folder / name).unlink()
    assert refused(folder) == f"DIR is incomplete: {name} is missing; copy the folder again."


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_parameters_that_end_too_soon_are_refused(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert refused(folder) == "DIR/model.safetensors is damaged, or is not a safetensors file; copy it again."


def test_parameters_of_another_model_are_refused(folder, translator):
    again = "DIR/model.safetensors does not fit translator.json beside it; copy the whole folder again"
    path, tensors = folder / "model.safetensors", load_file(folder / "model.safetensors")
    write_tensors(path, {**tensors, "more": torch.zeros(2)})
    assert refused(folder) == f"{again}: the model has no parameter more."
    bias = tensors.pop("decoder.to_logits.bias")
    write_tensors(path, tensors)
    assert refused(folder) == f"{again}: the parameter decoder.to_logits.bias is missing."
    write_tensors(path, {**tensors, "decoder.to_logits.bias": bias[:5].clone()})
    assert refused(folder) == (
        f"{again}: decoder.to_logits.bias has the shape (5,) and the model takes {tuple(bias.shape)}."
    )


def test_a_vocabulary_of_another_model_is_refused(folder):
    source, target = (folder / "source.spm").read_bytes(), len(read_translator(folder).target_vocabulary)
    n_source = len(read_translator(folder).source_vocabulary)
    (folder / "target.spm").write_bytes(source)
    assert refused(folder) == (
        f"DIR does not fit together: target.spm has {n_source} tokens and the model was built for {target}; "
        "copy the whole folder again, or train into a new one."
    )


def test_parameters_of_another_type_are_refused(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    write_tensors(path, tensors | {"decoder.to_logits.bias": tensors["decoder.to_logits.bias"].to(torch.complex64)})
    assert refused(folder) == (
        "DIR/model.safetensors is damaged: decoder.to_logits.bias has numbers of the type torch.complex64, and a "
        "parameter is a floating-point number; copy the folder again."
    )


def test_a_vocabulary_with_a_piece_that_is_not_utf_8_is_refused(folder):
    path = folder / "source.spm"
    content = path.read_bytes()
    place = content.index("▁".encode())
    path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
    assert refused(folder) == "DIR/source.spm is not a SentencePiece model, or is damaged."
