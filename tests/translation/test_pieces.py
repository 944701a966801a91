"""Pieces as text: the characters that they stand for, and their words."""

import pytest

from regard.text.vocabulary import UNK
from regard.translation.pieces import text_of_pieces, trace_tokens, word_of_each_piece, words_and_pieces


@pytest.mark.parametrize(
    ("pieces", "text", "word_of"),
    [
        ([], "", ()),
        (["▁"], "", (0,)),
        (["▁Ein", "▁Hund", "."], "Ein Hund.", (0, 1, 1)),
        (["▁", "E", "in", "▁", "▁Hund"], "Ein  Hund", (0, 0, 0, 1, 1)),
        (["▁a▁b", "c"], "a bc", (0, 1)),  # a piece of two words belongs to the first
        (["▁a", "▁"], "a", (0, 0)),
        (["a", "b"], "ab", (0, 0)),
        (["▁", "<0xEB>", "<0xB1>", "<0x80>", "▁<0x41>"], "뱀 <0x41>", (0, 0, 0, 0, 1)),
        (["▁", "<0xEB>", "<0xB1>", "▁a"], "\ufffd a", (0, 0, 0, 1)),  # half a letter
        (["▁a", "<0x20>", "b", "<0xE3>", "<0x80>", "<0x80>", "c"], "a b　c", (0, 1, 1, 2, 2, 2, 2)),
        (["▁日本語", "です"], "日本語です", (0, 0)),
    ],
)
def test_letters_and_words(pieces, text, word_of):
    assert text_of_pieces(pieces) == text
    assert word_of_each_piece(pieces) == word_of
    assert not pieces or len(text.split()) == max([0, *word_of]) + (text != "")


@pytest.mark.parametrize(
    ("text", "word_of"),
    [
        ("the cat sat", ["the", "cat", "sat"]),
        ("the \ufeff cat sat", ["the", "cat", "sat"]),
        ("\x01 the\x01 cat\x0b\x02 sat \x03", ["the\x01", "cat", "sat"]),
        ("the▁cat sat", ["the▁cat", "the▁cat", "sat"]),
        ("the▁ ▁ ▁cat sat", ["the▁", "▁cat", "sat"]),
        ("\x01 \x02", []),
    ],
)
def test_words_are_those_of_the_text_whatever_the_vocabulary_leaves_out(vocabularies, text, word_of):
    ids = vocabularies[0].encode(text)
    pieces = vocabularies[0].pieces(ids)
    assert UNK not in ids
    words, numbers = words_and_pieces(text, pieces)
    begins = [n for n, piece in zip(numbers, pieces, strict=True) if piece.startswith("▁")]
    assert words == tuple(text.split())
    assert [words[n] for n in begins] == word_of
    assert words_and_pieces(text, pieces[:2], is_complete=False) == (words, numbers[:2])


def test_a_vocabulary_that_changes_the_letters_has_words_of_its_own():
    assert words_and_pieces("½", ["▁1", "▁2"]) == (("1", "2"), (0, 1))
    assert words_and_pieces("１ ２", ["▁12"]) == (("12",), (0,))


def test_real_pieces_spell_what_the_vocabulary_decodes(vocabularies):
    for vocabulary in vocabularies:
        for text in ("the cat sat", "ein hund, zur katze", " a  b "):
            ids = vocabulary.encode(text)
            if UNK not in ids:
                assert text_of_pieces(vocabulary.pieces(ids)) == vocabulary.decode(ids)


def test_pieces_as_tokens():
    tokens = trace_tokens(["<s>", "▁a", "b", "▁", "ẞ", "<0xEB>", "</s>"], [2, 5, 6, 7, 1, 8, 3], {2, 3})
    assert [token.text for token in tokens] == ["<s>", "a", "b", "␣", "[UNK:ẞ]", "‹EB›", "</s>"]
    assert [token.joined for token in tokens] == [False, False, True, False, True, True, False]
    assert [token.special for token in tokens] == [True, False, False, False, False, False, True]
