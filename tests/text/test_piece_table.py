"""Tests of reading the table of pieces in a SentencePiece model file, against SentencePiece itself."""

import pytest
from refusals import refusal
from sentencepiece import SentencePieceProcessor

from regard.text.piece_table import (
    BPE,
    CONTROL,
    SPECIAL,
    UNKNOWN,
    Piece,
    algorithm_of,
    pieces_of,
    read_varint,
    varint_bytes,
    with_pieces,
)
from regard.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary.train(["the cat sat", "the mat", "ein Hündchen"] * 9, n_tokens=40)


def test_the_pieces_are_those_that_sentencepiece_reads():
    processor, pieces = VOCABULARY.processor, pieces_of(VOCABULARY.model)
    assert [piece.text for piece in pieces] == VOCABULARY.pieces(range(len(VOCABULARY)))
    assert [piece.score for piece in pieces] == VOCABULARY.scores().tolist()
    assert [piece.kind == CONTROL for piece in pieces] == [processor.IsControl(n) for n in range(len(pieces))]
    assert [piece.kind == UNKNOWN for piece in pieces] == [processor.IsUnknown(n) for n in range(len(pieces))]
    assert pieces[:4] == list(SPECIAL)
    assert algorithm_of(VOCABULARY.model) == BPE


def test_pieces_in_another_order_divide_a_text_as_before():
    pieces = pieces_of(VOCABULARY.model)
    turned = Vocabulary(with_pieces(VOCABULARY.model, [*SPECIAL, *reversed(pieces[4:])]))
    assert pieces_of(turned.model) == [*SPECIAL, *reversed(pieces[4:])]
    text = "the Hündchen sat"
    assert turned.surfaces(text) == VOCABULARY.surfaces(text)
    n = len(pieces)
    assert [n + 3 - token for token in turned.encode(text)] == VOCABULARY.encode(text)


def test_a_control_piece_is_never_found_in_a_text():
    model = with_pieces(VOCABULARY.model, [*pieces_of(VOCABULARY.model), Piece("▁cats", 0.0, CONTROL)])
    assert SentencePieceProcessor(model_proto=model).Encode("cats", out_type=str) == VOCABULARY.surfaces("cats")


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32 - 1])
def test_whole_numbers(number):
    assert read_varint(varint_bytes(number), 0) == (number, len(varint_bytes(number)))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"\x0b", "the field at byte 0 has the unknown type 3"),
        (b"\x0a\x05ab", "the field at byte 0 ends after the message"),
        (b"\x0a\x80", "a number ends after the message"),
        (b"\x0a\x02\x08\x07", "the text, score or kind of a piece is damaged"),
    ],
)
def test_other_bytes_are_refused(message, said):
    assert refusal(ValueError, pieces_of, message) == said
