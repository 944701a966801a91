"""Tests of the readable text of tokens, for each family of tokenizers, built here from a few words."""

import json

import pytest
import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import ByT5Tokenizer, MarianTokenizer, PreTrainedTokenizerFast

from regard.tracing.tokens.readable_tokens import readable_tokens


def shown(tokenizer, text):
    encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    return readable_tokens(tokenizer, encoded, text)


def byte_level(*merges):
    """Return a tokenizer like GPT-2's: bytes, joined by the given merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [tuple(merge.split()) for merge in merges]
    vocabulary = {piece: i for i, piece in enumerate([*alphabet, *("".join(pair) for pair in pairs)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def metaspace(*pieces):
    """Return a tokenizer like T5's, with the given pieces; ▁ marks the beginning of a word."""
    tokenizer = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(("<unk>", *pieces))], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def test_word_pieces_keep_the_texts_own_letters(minilm):
    tokens = shown(minilm.tokenizer, "The Eiffel Tower.")
    assert [token.text for token in tokens] == ["[CLS]", "The", "E", "iff", "el", "Tower", ".", "[SEP]"]
    assert [token.text for token in tokens if token.joined] == ["iff", "el", "."]
    assert [token.special for token in tokens] == [True, *[False] * 6, True]


def test_two_number_signs_are_a_marker_of_word_pieces_alone(minilm):
    """Without a text to read them from, as for a token that a model wrote."""
    tokenizer = byte_level("# #", "## a")
    pieces = ["##", "##a", "a"]
    encoded = {"input_ids": torch.tensor([tokenizer.convert_tokens_to_ids(pieces)])}
    assert [token.text for token in readable_tokens(tokenizer, encoded, "")] == pieces
    encoded = {"input_ids": torch.tensor([minilm.tokenizer.convert_tokens_to_ids(["ve", "##s"])])}
    assert [token.text for token in readable_tokens(minilm.tokenizer, encoded, "")] == ["ve", "s"]


def test_korean_letters_stand_alone(minilm):
    tokens = shown(minilm.tokenizer, "뱀이")
    assert [token.text for token in tokens[1:-1]] == ["ㅂ", "ㅐ", "ㅁ", "ㅇ", "ㅣ"]


def test_what_the_tokenizer_does_not_know_is_named_and_not_taken_for_added(minilm):
    tokens = shown(minilm.tokenizer, "독이 있어서 [UNK]")
    assert [token.text for token in tokens[-3:]] == ["[UNK:있어서]", "[UNK]", "[SEP]"]
    assert [token.special for token in tokens[-3:]] == [False, True, True]


def test_markup_is_text(minilm):
    tokens = shown(minilm.tokenizer, "a <script> b")
    assert [token.text for token in tokens[1:-1]] == ["a", "<", "script", ">", "b"]
    assert [token.joined for token in tokens[1:-1]] == [False, False, True, True, False]


def test_byte_level_pieces_lose_their_marks():
    tokens = shown(byte_level("i t", "Ġ it"), "it it\nit")
    assert [token.text for token in tokens] == ["it", "it", "⏎", "it"]
    assert [token.joined for token in tokens] == [False, False, False, True]


def test_a_letter_of_several_byte_level_pieces_is_shown_by_its_bytes():
    tokens = shown(byte_level(), "뱀")
    assert [token.text for token in tokens] == ["‹EB›", "‹B1›", "‹80›"]


def test_a_generated_byte_level_piece_shows_the_letters_that_its_bytes_spell():
    tokenizer = byte_level("ë ±", "ë± Ģ", "Ġ ë±Ģ")
    encoded = {"input_ids": tokenizer("뱀 뱀é", return_tensors="pt")["input_ids"]}  # no places in a text
    tokens = readable_tokens(tokenizer, encoded, "")
    assert [token.text for token in tokens] == ["뱀", "뱀", "‹C3›", "‹A9›"]
    assert [token.joined for token in tokens] == [False, False, True, True]


def test_pieces_of_sentencepiece_lose_their_marks():
    tokens = shown(metaspace("▁the", "▁sna", "ke"), "the snake")
    assert [token.text for token in tokens] == ["the", "sna", "ke"]
    assert [token.joined for token in tokens] == [False, False, True]


def test_a_tokenizer_without_offsets_is_read_by_its_pieces(minilm):
    encoded = minilm.tokenizer("The venomous", return_tensors="pt")
    tokens = readable_tokens(minilm.tokenizer, encoded, "The venomous")
    assert [token.text for token in tokens] == ["[CLS]", "the", "venom", "ous", "[SEP]"]
    assert [token.joined for token in tokens] == [False, False, False, True, False]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")  # which changes punctuation marks alone
def test_pieces_of_a_marian_tokenizer_go_on_where_no_word_begins(tmp_path):
    (tmp_path / "text").write_text("a dog runs .\nthe dogs run .\n" * 9)
    for side in ("source", "target"):
        SentencePieceTrainer.train(
            input=tmp_path / "text", model_prefix=tmp_path / side, vocab_size=26, minloglevel=2, model_type="bpe"
        )
    model = SentencePieceProcessor(model_file=f"{tmp_path / 'source.model'}")
    pieces = [model.id_to_piece(number) for number in range(len(model))]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate([*pieces, "<pad>"])}))
    tokenizer = MarianTokenizer(f"{tmp_path}/source.model", f"{tmp_path}/target.model", f"{tmp_path}/vocab.json")
    tokens = readable_tokens(tokenizer, tokenizer("the dog runs.", return_tensors="pt"), "the dog runs.")
    assert any(token.joined for token in tokens)
    assert "".join(" " * (not token.joined) + token.text for token in tokens) == " the dog runs. </s>"


def test_the_bytes_of_a_letter_are_shown_by_a_tokenizer_of_bytes():
    tokenizer = ByT5Tokenizer()
    tokens = readable_tokens(tokenizer, tokenizer("a뱀", return_tensors="pt"), "a뱀")
    assert [token.text for token in tokens] == ["a", "‹EB›", "‹B1›", "‹80›", "</s>"]
    assert [token.joined for token in tokens] == [False, True, True, True, False]


def test_a_mask_of_the_reader_s_own_is_a_word_of_the_text(minilm):
    tokens = shown(minilm.tokenizer, "The capital is [MASK].")
    assert [token.text for token in tokens] == ["[CLS]", "The", "capital", "is", "[MASK]", ".", "[SEP]"]
    assert [token.special for token in tokens] == [True, *[False] * 5, True]
    assert [token.joined for token in tokens][5]


@pytest.mark.parametrize("text", ["😀 ok", "é́", "a​b"])
def test_no_token_is_shown_as_nothing(minilm, text):
    assert all(token.text.strip() for token in shown(minilm.tokenizer, text))
