"""Training that starts from a Marian model of transformers, and training with the user's own vocabularies."""

from dataclasses import replace

import pytest
import torch
from marian_folder import PAIRS, sentencepiece, write_marian
from refusals import refusal
from safetensors.torch import load_file
from sentencepiece import SentencePieceProcessor

from regard import InputError
from regard.text.vocabulary import PAD
from regard.training.settings.train_config import VocabularySettings
from regard.training.train import train
from regard.translation.marian_folder import read_marian
from regard.translation.translator_folder import read_translator


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    return write_marian(tmp_path_factory.mktemp("marian") / "opus")


@pytest.fixture
def french(tmp_path):
    for side, name in enumerate(("a.en", "a.fr")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS[:80]), encoding="utf-8")
    return tmp_path / "a.en", tmp_path / "a.fr"


def test_training_starts_with_marians_parameters_and_vocabularies(tmp_path, french, onwards, marian):
    train(*french, tmp_path / "more", onwards(marian, learning_rate=1e-9))
    one, other = read_marian(marian), read_translator(tmp_path / "more")
    assert one.model.config == other.model.config
    assert (one.source_vocabulary, one.target_vocabulary) == (other.source_vocabulary, other.target_vocabulary)
    for name, tensor in one.model.state_dict().items():
        torch.testing.assert_close(tensor, other.model.state_dict()[name], rtol=0, atol=1e-6)


def test_training_lowers_the_loss(tmp_path, french, onwards, marian):
    evaluation = {"every_steps": 20}
    config = onwards(marian, max_steps=40, batch_tokens=400, learning_rate=3e-3, evaluation=evaluation)
    trained = train(*french, tmp_path / "more", config)
    first, best = (tmp_path / "more" / "log.jsonl").read_text().splitlines()[0], trained.best
    assert best is not None
    assert best.loss_nats < 0.75 * float(first.split('"loss_nats": ')[1].split(",")[0])
    parameters = load_file(tmp_path / "more" / "model.safetensors")
    assert parameters["decoder.to_logits.bias"][PAD] < -90


def test_bpe_dropout_needs_bpe(tmp_path, french, onwards, marian):
    config = onwards(marian, {"bpe_dropout": 0.1})
    assert refusal(InputError, train, *french, tmp_path / "more", config) == (
        "vocabulary.bpe_dropout = 0.1: the given vocabulary is not made by byte-pair encoding; leave it out, or give a "
        "vocabulary of spm_train --model_type=bpe."
    )


@pytest.fixture
def own(tmp_path):
    """Write a SentencePiece model of each language, as a user's own; return the paths."""
    paths = tmp_path / "en.model", tmp_path / "fr.model"
    for path, lines in zip(paths, zip(*PAIRS, strict=True), strict=True):
        path.write_bytes(sentencepiece(lines, vocab_size=55))
    return paths


def with_file(settings, file, **vocabulary):
    return replace(settings, vocabulary=VocabularySettings(file=file, **vocabulary))


def test_the_users_own_vocabularies_are_used(tmp_path, french, quick, own):
    train(*french, tmp_path / "out", with_file(quick(max_steps=3), f"{own[0]},{own[1]}"))
    contents = read_translator(tmp_path / "out")
    for vocabulary, path, text in (
        (contents.source_vocabulary, own[0], "seventy-one"),
        (contents.target_vocabulary, own[1], "soixante et onze"),
    ):
        assert vocabulary.surfaces(text) == SentencePieceProcessor(model_file=str(path)).Encode(text, out_type=str)
        assert len(vocabulary) == 56  # and padding, which SentencePiece's default lacks


def test_one_vocabulary_is_for_both_languages(tmp_path, french, quick, own):
    train(*french, tmp_path / "out", with_file(quick(max_steps=3), str(own[1])))
    contents = read_translator(tmp_path / "out")
    assert contents.source_vocabulary is contents.target_vocabulary
    assert contents.model.config.share == "all"
    own[1].unlink()
    assert train(*french, tmp_path / "out", with_file(quick(max_steps=3), str(own[1]))).step == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_tokens": 99}, "vocabulary.n_tokens = 99: FILE has 56 pieces"),
        ({"joint": False}, "vocabulary.joint = false: FILE has one vocabulary"),
        ({"coverage": 0.99}, "vocabulary.coverage = 0.99: FILE has letters of its own"),
        ({"byte_fallback": True}, "vocabulary.byte_fallback = true: FILE has letters of its own"),
    ],
)
def test_settings_of_another_vocabulary_are_refused(tmp_path, french, quick, own, settings, said):
    assert refusal(InputError, train, *french, tmp_path / "out", with_file(quick(), str(own[0]), **settings)) == (
        said.replace("FILE", str(own[0])) + "; leave it out, or train without a vocabulary of your own."
    )


def test_three_vocabularies_are_refused(tmp_path, french, quick):
    assert refusal(InputError, train, *french, tmp_path / "out", with_file(quick(), "a.model,b.model,c.model")) == (
        "vocabulary.file = a.model,b.model,c.model names 3 files; give one for both languages, or two with a comma "
        "between."
    )


def test_a_vocabulary_besides_a_translators_is_refused(tmp_path, french, onwards, marian, own):
    assert refusal(InputError, train, *french, tmp_path / "out", onwards(marian, {"file": str(own[0])})) == (
        f"vocabulary.file = {own[0]}: training begins with {marian}, which has vocabularies of its own; leave it out, "
        "or train a new translator."
    )
