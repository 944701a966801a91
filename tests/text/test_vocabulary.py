"""Vocabularies: texts survive encoding, unknown characters are reported, words and pieces fit together."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marian_folder import sentencepiece
from refusals import refusal
from sentencepiece import SentencePieceTrainer

from regard import InputError
from regard.text.cleaning import clean_text
from regard.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary, sample_lines

LINES = ["the cat sat on the mat", "ein Hund läuft schnell", "그것은 뱀이다", "日本語の文"] * 5
VOCABULARY = Vocabulary.train(LINES, n_tokens=80)
WORDS = st.text(alphabet="".join(sorted(set("".join(LINES)) - {" "})), min_size=1, max_size=7)


@given(st.lists(WORDS, max_size=6).map(" ".join))
def test_a_text_of_known_letters_survives(text):
    assert VOCABULARY.decode(VOCABULARY.encode(text)) == text
    assert VOCABULARY.unknown(text) == []


@given(st.text(alphabet="thecatson \t\u00a0\u3000\u2028\x00\ufeff▁"))
def test_raw_text_has_the_ids_of_its_clean_form(text):
    assert VOCABULARY.decode(VOCABULARY.encode(text)) == clean_text(text)


def test_surfaces_by_hand():
    vocabulary = Vocabulary.train(["a b c"] * 9, 16)
    assert vocabulary.surfaces(" bb \u3000żż▁a") == ["▁b", "b", "▁", "żż", "▁a"]
    assert vocabulary.surfaces("") == []


def test_few_pieces_are_the_parts_of_words(number_names):
    english = Vocabulary.train([source for source, _ in number_names], 86)
    pieces = set(english.pieces(range(len(english))))
    assert {"▁hundred", "▁thousand", "▁and", "▁seven", "ty"} <= pieces
    unseen = "nine hundred and ninety-nine thousand and seventy-six"
    assert english.decode(english.encode(unseen)) == unseen


def test_the_special_ids_are_where_everybody_expects_them():
    assert VOCABULARY.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert not {PAD, BOS, EOS} & set(VOCABULARY.encode("the cat <s> </s> <pad>"))


def test_unknown_characters_are_returned_once_in_order():
    assert VOCABULARY.unknown("the żółw and ż ✓ ★") == ["ż", "ó", "ł", "w", "✓", "★"]
    assert UNK in VOCABULARY.encode("żółw")


def test_the_same_text_gives_the_same_vocabulary():
    assert Vocabulary.train(LINES, 80) == VOCABULARY
    assert Vocabulary.train(LINES[1:], 60) != VOCABULARY
    assert len({Vocabulary.train(LINES, 80), VOCABULARY}) == 1


@pytest.mark.parametrize("n_tokens", [1, 30, 10_000])
def test_a_size_that_the_text_does_not_allow_becomes_one_that_it_does(n_tokens):
    vocabulary = Vocabulary.train(LINES, n_tokens)
    letters = len(set("".join(LINES)) - {" "})
    assert letters < len(vocabulary) < 300
    assert vocabulary.decode(vocabulary.encode(LINES[2])) == LINES[2]


def test_many_texts_are_cut_as_each_by_itself():
    assert VOCABULARY.encode_all(LINES) == [VOCABULARY.encode(line) for line in LINES]
    assert VOCABULARY.encode_all([]) == []


def test_rare_letters_can_be_left_out():
    vocabulary = Vocabulary.train(["a b c"] * 500 + ["ż"], 20, coverage=0.999)
    assert vocabulary.unknown("a ż") == ["ż"]


def test_with_bytes_no_character_is_unknown_and_all_come_back():
    vocabulary = Vocabulary.train(LINES, 400, byte_fallback=True)
    text = "a 뱀▅ẞ <s> 🐍"
    assert vocabulary.unknown(text) == []
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.pieces(range(4, 260)) == [f"<0x{byte:02X}>" for byte in range(256)]
    assert len(Vocabulary.train(LINES, 20, byte_fallback=True)) > 256


def test_all_letters_are_known_however_many_they_are():
    often, rare = "".join(map(chr, range(0x4E00, 0x4E00 + 1200))), "ż"
    many = Vocabulary.train([often[n : n + 20] for n in range(0, 1200, 20)] * 20 + [rare], 2_000)
    assert many.unknown("ż丂") == []


@pytest.mark.parametrize("odd", ["<unk>", "<s> ẞ", "</s>", "<pad>ż", "a▅ż"])
def test_letters_are_known_wherever_they_are(odd):
    """SentencePiece leaves out lines with ▅ and text that looks like a special piece."""
    vocabulary = Vocabulary.train([*LINES, odd], 60)
    assert vocabulary.unknown(odd) == (["▅"] if "▅" in odd else [])


def test_letters_that_sentencepiece_must_keep_change_no_other_piece(monkeypatch):
    def table(vocabulary):
        return list(zip(vocabulary.pieces(range(len(vocabulary))), vocabulary.scores(), strict=True))

    asked, train = Vocabulary.train(LINES, 60), SentencePieceTrainer.Train
    monkeypatch.setattr(SentencePieceTrainer, "Train", lambda **options: train(**options | {"required_chars": ""}))
    assert table(Vocabulary.train(LINES, 60)) == table(asked)


def test_lines_are_sampled_from_all():
    assert sample_lines(map(str, range(5)), 5) == ["0", "1", "2", "3", "4"]
    counts = Counter(int(line) for line in sample_lines((str(n // 100) for n in range(10_000)), 2_000))
    assert len(counts) == 100
    assert all(6 <= count <= 38 for count in counts.values())  # 20 each, and four standard deviations
    assert sample_lines(map(str, range(100)), 9) == sample_lines(map(str, range(100)), 9)


def test_a_saved_vocabulary_is_loaded(tmp_path):
    VOCABULARY.save(tmp_path / "some.spm")
    assert Vocabulary.load(tmp_path / "some.spm") == VOCABULARY
    assert repr(VOCABULARY) == f"Vocabulary(n_tokens={len(VOCABULARY)})"


def test_empty_lines_lone_surrogates_and_damaged_files_are_refused(tmp_path):
    assert refusal(InputError, Vocabulary.train, ["", "  "], 10) == (
        "there is no text to make a vocabulary of: every line is empty; give lines with words."
    )
    for call in (VOCABULARY.encode, VOCABULARY.unknown, VOCABULARY.surfaces):
        assert refusal(InputError, call, "a\ud800") == (
            "the text has a lone surrogate (U+D800 at position 2), which UTF-8 cannot encode; remove it."
        )
    assert refusal(InputError, Vocabulary.load, tmp_path / "none.spm") == (
        f"cannot read the vocabulary {tmp_path}/none.spm: no such file or directory."
    )
    for damaged in (b"", b"no model", VOCABULARY.model[: len(VOCABULARY.model) // 2]):
        path = tmp_path / "damaged.spm"
        path.write_bytes(damaged)
        message = f"{path} is not a SentencePiece model, or is damaged."
        assert refusal(InputError, Vocabulary.load, path) == message


def test_a_vocabulary_of_another_program_is_refused(tmp_path):
    path = tmp_path / "other.spm"
    path.write_bytes(sentencepiece(LINES, vocab_size=33))
    assert refusal(InputError, Vocabulary.load, path) == (
        f"{path} is a SentencePiece model whose first pieces are <unk>, <s>, </s>, ▁; a vocabulary of regard begins "
        "with <pad>, <unk>, <s>, </s>."
    )


def test_a_text_that_sentencepiece_cannot_use_is_refused(monkeypatch):
    def broken(*given):
        raise RuntimeError("INTERNAL: something else")

    monkeypatch.setattr("regard.text.vocabulary.train_model", broken)
    message = "SentencePiece makes no vocabulary of these 2 lines: INTERNAL: something else."
    assert refusal(InputError, Vocabulary.train, ["a", "b"], 20) == message
