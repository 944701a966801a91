"""Tests of reading SentencePiece models of other programs: equal pieces of every text, but regard's special ids."""

import pytest
from marian_folder import PAIRS, pieces_in, sentencepiece
from refusals import refusal
from sentencepiece import SentencePieceProcessor

from regard import InputError
from regard.text.foreign_vocabulary import vocabulary_from_model, vocabulary_from_table
from regard.text.vocabulary import PAD, UNK, Vocabulary


@pytest.fixture
def file_of(tmp_path):
    """Return a function: file_of(model) writes a SentencePiece model to a file and returns its path."""

    def write(model):
        (tmp_path / "own.model").write_bytes(model)
        return tmp_path / "own.model"

    return write


TEXTS = [pair[0] for pair in PAIRS[:40]] + ["Ｆｕｌｌ width ½", "", "twenty-one  spaces"]
LINES = [pair[0] for pair in PAIRS]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model_type": "bpe"},
        {"pad_id": 3, "bos_id": -1, "eos_id": 1, "unk_id": 0},
        {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "pad_piece": "[PAD]", "unk_piece": "[UNK]"},
        {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
        {"byte_fallback": True, "vocab_size": 320},
        {"model_type": "char", "vocab_size": 30, "user_defined_symbols": ["<x>"]},
    ],
)
def test_a_users_own_model_divides_every_text_as_before(tmp_path, file_of, options):
    model = sentencepiece(LINES, **options)
    path = file_of(model)
    vocabulary, theirs = vocabulary_from_model(path), SentencePieceProcessor(model_proto=model)
    assert vocabulary.pieces(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    unknown = theirs.unk_id()
    for text in TEXTS:
        ids = vocabulary.encode(text)
        expected = [UNK if token == unknown else theirs.IdToPiece(token) for token in theirs.Encode(text)]
        assert [UNK if token == UNK else vocabulary.pieces([token])[0] for token in ids] == expected
        assert vocabulary.decode(ids) == theirs.Decode(theirs.Encode(text))
    vocabulary.save(tmp_path / "saved.spm")
    assert Vocabulary.load(tmp_path / "saved.spm") == vocabulary


def test_a_model_with_regards_ids_is_taken_as_it_is(file_of):
    path = file_of(Vocabulary.train(LINES, 50).model)
    assert vocabulary_from_model(path).model == path.read_bytes()


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "own.model"
    path.write_text("twenty-one\n")
    assert refusal(InputError, vocabulary_from_model, path) == (
        f"{path} is not a SentencePiece model, or is damaged; copy it again, or name another file."
    )
    assert refusal(InputError, vocabulary_from_model, tmp_path / "none") == (
        f"cannot read the vocabulary {tmp_path / 'none'}: no such file or directory."
    )


def test_a_model_with_too_few_pieces_is_refused(file_of):
    path = file_of(sentencepiece(["ab ba"] * 9, vocab_size=7, model_type="char", hard_vocab_limit=False))
    assert refusal(InputError, vocabulary_from_model, path) == (
        f"{path} has 6 pieces; a vocabulary has at least 16 and at most 1,048,576: "
        "train another model with spm_train --vocab_size."
    )


def test_a_special_name_with_another_meaning_is_refused(file_of):
    path = file_of(sentencepiece(LINES, user_defined_symbols=["<pad>"]))
    assert refusal(InputError, vocabulary_from_model, path) == (
        f"{path} has <pad> as an ordinary piece; it must be a special piece or absent: train the model without it."
    )


def test_a_table_of_ids_is_the_order_of_the_pieces(file_of):
    path = file_of(sentencepiece(LINES))
    table = [*reversed(pieces_in(path.read_bytes())), "▁sept", "", "<pad>"]
    vocabulary = vocabulary_from_table(path, table)
    assert vocabulary.pieces(range(4, len(vocabulary))) == [*table[:-2], f"<{2 + len(table)}>", f"<{3 + len(table)}>"]
    theirs = SentencePieceProcessor(model_proto=path.read_bytes())
    for text in [*TEXTS, "sept"]:
        assert vocabulary.surfaces(text) == theirs.Encode(text, out_type=str)
    assert vocabulary.decode([4 + table.index("▁sept"), PAD]) == "sept"


def test_pieces_without_an_id_are_divided(file_of):
    """Where Marian reads <unk>, the text is divided into the other pieces; only a letter without a piece is <unk>."""
    path = file_of(sentencepiece(LINES))
    table = pieces_in(path.read_bytes())
    assert vocabulary_from_table(path, table).surfaces("seven") == ["▁seven"]
    assert vocabulary_from_table(path, [one for one in table if one != "▁seven"]).surfaces("seven") == ["▁", "seven"]
    letters = vocabulary_from_table(path, [one for one in table if "v" not in one])
    assert letters.surfaces("seven") == ["▁", "s", "e", "v", "en"]
    assert letters.unknown("seven") == ["v"]


def test_a_bpe_model_without_some_pieces_of_the_table_is_refused(file_of):
    path = file_of(sentencepiece(LINES, model_type="bpe"))
    table = pieces_in(path.read_bytes())
    theirs = SentencePieceProcessor(model_proto=path.read_bytes())
    assert vocabulary_from_table(path, table).surfaces("seven") == theirs.Encode("seven", out_type=str)
    assert refusal(InputError, vocabulary_from_table, path, [*table, "▁sept", "▁huit"]) == (
        f"{path} is a BPE model, and the table of ids has 2 pieces that it lacks; SentencePiece would merge them, so "
        "the texts would have other pieces than in Marian."
    )


def test_a_table_with_a_piece_twice_is_refused(file_of):
    path = file_of(sentencepiece(LINES))
    table = pieces_in(path.read_bytes())
    assert refusal(InputError, vocabulary_from_table, path, [*table, table[0]]) == (
        f"{path} does not fit its table of ids: RuntimeError INTERNAL: {table[0]} is already defined."
    )
