"""Pieces as letters and words."""

import pytest

from regard.translation.pieces import shown, spelled, unknown_runs, with_letters, words_of


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
    assert spelled(pieces) == text
    assert words_of(pieces) == word_of
    assert not pieces or len(text.split()) == max([0, *word_of]) + (text != "")


def test_real_pieces_spell_what_the_vocabulary_decodes(vocabularies):
    for vocabulary in vocabularies:
        for text in ("the cat sat", "ein hund, zur katze", " a  b "):
            ids = vocabulary.encode(text)
            if 1 not in ids:
                assert spelled(vocabulary.pieces(ids)) == vocabulary.decode(ids)


def test_unknown_letters_are_put_back_where_they_can_be_told():
    assert unknown_runs("漢字 and ẞ", {"漢", "字", "ẞ"}) == ["漢字", "ẞ"]
    assert with_letters(["<unk>", "▁a", "<unk>"], [1, 5, 1], ["漢字", "ẞ"]) == ("漢字", "▁a", "ẞ")
    assert with_letters(["<unk>", "▁a", "<unk>"], [1, 5, 1], ["漢字"]) == ("⁇", "▁a", "⁇")


def test_pieces_as_tokens():
    tokens = shown(["<s>", "▁a", "b", "▁", "ẞ", "<0xEB>", "</s>"], [2, 5, 6, 7, 1, 8, 3], {2, 3})
    assert [token.text for token in tokens] == ["<s>", "a", "b", "␣", "[UNK:ẞ]", "‹EB›", "</s>"]
    assert [token.joined for token in tokens] == [False, False, True, False, True, True, False]
    assert [token.special for token in tokens] == [True, False, False, False, False, False, True]
