"""Marian folders of transformers as translators: the pieces, logits and translations that transformers computes."""

import json
import shutil
import warnings

import pytest
import torch
from marian_folder import CODE, PAIRS, random_marian, write_marian
from refusals import refusal
from torch.testing import assert_close
from transformers import MarianMTModel, MarianTokenizer

from regard import InputError
from regard.export import export
from regard.text.vocabulary import BOS, EOS, PAD, UNK
from regard.translation.marian_folder import read_marian
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy
from regard.translation.translator import Translator

TEXTS = list(dict.fromkeys(source for source, _ in PAIRS))[:12]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A Marian folder that no test changes."""
    return write_marian(tmp_path_factory.mktemp("marian") / "opus")


@pytest.fixture
def folder(written, tmp_path):
    """A copy of the Marian folder that a test may change."""
    return shutil.copytree(written, tmp_path / "opus")


@pytest.fixture(scope="module")
def theirs(written):
    """transformers' tokenizer and model."""
    with warnings.catch_warnings(action="ignore"):
        return MarianTokenizer.from_pretrained(written), MarianMTModel.from_pretrained(written).eval()


@pytest.fixture(scope="module")
def translator(written):
    return Translator.load(written, "cpu")


def marian_ids(folder, vocabulary):
    """Return, for each id of regard's vocabulary, the id in Marian's table of the piece with the same text."""
    table = json.loads((folder / "vocab.json").read_text())
    table[f"▁{CODE}"] = table[CODE]
    pieces = vocabulary.pieces(range(len(vocabulary)))
    return [table.get({"<s>": "<pad>", "<pad>": None}.get(piece, piece)) for piece in pieces]


def test_a_text_has_the_pieces_of_marians_tokenizer(translator, theirs):
    tokenizer, _ = theirs
    for text in [*TEXTS, f"{CODE} seven", "Ünknown ½", "Ｆｕｌｌ", "q", "quq", "é et zé"]:
        ids = translator.source_vocabulary.encode(text)
        pieces = [piece.replace(f"▁{CODE}", CODE) for piece in translator.source_vocabulary.pieces(ids)]
        assert [*pieces, "</s>"] == tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids)
    for text in (target for _, target in PAIRS[:12]):
        pieces = translator.target_vocabulary.pieces(translator.target_vocabulary.encode(text))
        assert [*pieces, "</s>"] == tokenizer.convert_ids_to_tokens(tokenizer(text_target=text).input_ids)


def test_the_logits_of_every_piece_are_marians(written, translator, theirs):
    _, model = theirs
    ids = marian_ids(written, translator.target_vocabulary)
    to_marian = torch.tensor([-1 if number is None else number for number in ids])
    assert (to_marian == -1).nonzero().flatten().tolist() == [PAD]
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(4, len(to_marian), (3, 7), generator=generator)
    source[:, -1] = EOS
    target = torch.randint(4, len(to_marian), (3, 11), generator=generator)
    target[:, 0], target[0, 4] = BOS, UNK
    found = translator.model(source, torch.tensor([7, 7, 7]), target).logits
    expected = model(input_ids=to_marian[source], decoder_input_ids=to_marian[target]).logits
    assert expected.std() > 0.5
    kept = to_marian >= 0
    assert_close(found[:, :, kept], expected[:, :, to_marian[kept]], rtol=1e-5, atol=1e-5)
    found, expected = found.log_softmax(-1), expected.log_softmax(-1)
    assert_close(found[:, :, kept], expected[:, :, to_marian[kept]], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("search", "beams"), [(Greedy(), 1), (Beam(size=4), 4)])
def test_translations_are_those_of_generate(translator, theirs, search, beams):
    tokenizer, model = theirs
    for one in translator.translate(TEXTS[:5], search=search):
        given = tokenizer(one.source, return_tensors="pt")
        limit = 3 * given.input_ids.shape[1] + 20
        options = {"num_beams": beams, "do_sample": False, "bad_words_ids": [[model.config.pad_token_id]]}
        ids = model.generate(**given, **options, max_length=min(limit, 40) + 1)[0]
        assert one.text == tokenizer.decode(ids, skip_special_tokens=True)[: len(one.text)]
        assert len(one.target_ids) > 3


def test_a_long_text_is_translated_by_sentences_that_all_have_its_language_code(translator, monkeypatch):
    monkeypatch.setattr("regard.translation.translator.UNKNOWN_LONGEST", 5)  # the model reads 40 pieces
    sentences = ["four.", "seven.", "nine."]
    for text in (" ".join([CODE, *sentences]), " ".join([CODE, *sentences * 5])):
        (one,) = translator.translate([text], split=True)
        expected = translator.translate([f"{CODE} {sentence}" for sentence in sentences])
        assert [part.text for part in one.parts] == [part.text for part in expected] * text.count("seven")
        assert one.text == " ".join(part.text for part in one.parts)
        assert one.alignment.source_words == tuple(text.split())
        assert {source for source, _ in one.alignment.pairs} <= set(range(len(text.split())))
    (plain,) = translator.translate([" ".join([">>deu<<", *sentences])], split=True)  # not a piece of the vocabulary
    assert [part.source for part in plain.parts] == [">>deu<< four.", "seven.", "nine."]


def test_it_is_exported_to_transformers_again(written, translator, tmp_path):
    export(written, "huggingface", tmp_path / "out")
    again = Translator.load(tmp_path / "out", "cpu")
    texts, targets = TEXTS[:3], [target for _, target in PAIRS[:3]]
    for one, other in zip(translator.score(texts, targets), again.score(texts, targets), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
    assert len(again.source_vocabulary) == len(translator.source_vocabulary)
    assert again.model.config.n_source_tokens == translator.model.config.n_source_tokens  # no new row is needed


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()
    if name == "source.spm":
        assert refusal(InputError, Translator.load, folder).startswith(f"{folder} has no translator: there is no ")
    assert refusal(InputError, read_marian, folder) == (
        f"{folder} is incomplete: {name} is missing; a Marian folder has it beside config.json."
    )


def test_a_damaged_table_is_refused(folder):
    path = folder / "vocab.json"
    table = json.loads(path.read_text())
    without_unknown = {piece: number for piece, number in table.items() if piece != "<unk>"}
    n = len(table)
    for content, message in (
        ("{", "is damaged: it is not JSON; copy the folder again."),
        ("[1]", "is damaged: it is not a JSON object; copy the folder again."),
        (
            json.dumps({**table, "more": n}),
            f"gives 'more' the id {n}, and the model has the ids 0 to {n - 1}; copy the whole folder again.",
        ),
        (json.dumps(without_unknown), "has no piece <unk>; a Marian vocabulary has one for unknown words."),
    ):
        path.write_text(content)
        assert refusal(InputError, read_marian, folder) == f"{path} {message}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_start_token_id": None}, "{path} has decoder_start_token_id = None; it must be the id of a piece."),
        (
            {"decoder_start_token_id": 0},
            "{path} gives special pieces the ids pad {last}, start 0 and end 0, which do not fit vocab.json with {n} "
            "pieces; copy the whole folder again.",
        ),
        (
            {"encoder_layers": 10**30},
            f"{{path}} has encoder_layers = {10**30:,}, more than the tensors in its file of parameters; copy the "
            "folder again.",
        ),
        (
            {"model_type": "bart"},
            "{folder} contains a model of type 'bart'; only 'marian' and 'pegasus' can become a Transformer.",
        ),
    ],
)
def test_a_config_that_cannot_be_used_is_refused(folder, changes, message):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | changes))
    n = config["vocab_size"]
    assert refusal(InputError, read_marian, folder) == message.format(path=path, folder=folder, n=n, last=n - 1)


def test_a_model_that_no_transformer_equals_is_refused(folder):
    n = json.loads((folder / "config.json").read_text())["vocab_size"]
    model = random_marian(n, eos_token_id=0, pad_token_id=n - 1, decoder_ffn_dim=31)
    model.save_pretrained(folder)
    assert refusal(InputError, read_marian, folder) == (
        f"{folder} has no Marian model that can be read: this Marian model has encoder_ffn_dim=29 and "
        "decoder_ffn_dim=31; a Transformer has the same in both."
    )
