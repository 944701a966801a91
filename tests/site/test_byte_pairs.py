"""Tests of the tables of byte-level tokenizers, and of every refusal."""

import json
import re

import pytest
from causal_models import GPT2, LLAMA, byte_tokenizer
from refusals import refusal
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers

from regard import InputError
from regard.site.byte_pairs import class_of
from regard.site.tokenizer import tokenizer_tables

ADVICE = "; a site splits texts into tokens as the tokenizers of GPT-2 and BERT do; choose a model such as GPT-2."


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        (r"\p{L}", "aÉ뱀ſ\u3005", "0 \u0301\u0378\x85"),
        (r"\s", " \n\x85\u2028\u3000", "a0\ufeff\u200b"),
        ("digits", "0٣Ⅷ½²", "a-뱀"),
    ],
)
def test_a_class_has_the_characters_that_the_tokenizer_splits_off(name, inside, outside):
    written = class_of(name)
    ranges = [(int(first, 16), int(last, 16)) for first, last in re.findall(r"\\u\{(\w+)\}-\\u\{(\w+)\}", written)]
    members = {code for first, last in ranges for code in range(first, last + 1)}
    assert {ord(letter) for letter in inside} <= members
    assert not {ord(letter) for letter in outside} & members


def test_the_tables_are_those_of_the_tokenizer():
    tokenizer = byte_tokenizer(LLAMA, begins=True)
    tables = tokenizer_tables(tokenizer, 1203)
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    assert (tables["kind"], tables["before"], tables["after"], tables["special"]) == ("bytes", [0], [], [0])
    assert tables["merges"] == model["merges"]
    more = {"[1200]": 1200, "[1201]": 1201, "[1202]": 1202}  # ids that only the model has
    assert {piece: i for i, piece in enumerate(tables["pieces"])} == model["vocab"] | more
    assert (tables["bytes"]["a"], tables["bytes"]["Ġ"], len(tables["bytes"])) == (97, 32, 256)
    assert len(tables["splits"]) == 2


def split_by(splitter):
    def change(tokenizer):
        tokenizer.backend_tokenizer.pre_tokenizer = splitter

    return change


def normalised(tokenizer):
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()


def with_suffix(tokenizer):
    tokenizer.backend_tokenizer.model.end_of_word_suffix = "</w>"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (normalised, "changes the letters of a text first (NFC)"),
        (with_suffix, "has end_of_word_suffix = '</w>'"),
        (split_by(pre_tokenizers.Whitespace()), "does not write the bytes of a text as GPT-2 does"),
        (split_by(pre_tokenizers.ByteLevel(add_prefix_space=True)), "puts a space before a text"),
        (
            split_by(pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), GPT2])),
            "splits a text by a pre_tokenizer of type Punctuation",
        ),
        (
            split_by(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex("a+"), "isolated"), GPT2])),
            "splits a text by a pre_tokenizer of type Split",
        ),
    ],
)
def test_other_tokenizers_are_refused(change, reason):
    tokenizer = byte_tokenizer(GPT2)
    change(tokenizer)
    name = type(tokenizer).__name__
    assert refusal(InputError, tokenizer_tables, tokenizer, 0) == f"{name} {reason}{ADVICE}"


def test_a_tokenizer_without_pieces_for_some_bytes_is_refused(monkeypatch):
    tokenizer = byte_tokenizer(GPT2)
    description = json.loads(tokenizer.backend_tokenizer.to_str())
    del description["model"]["vocab"]["Ń"]
    monkeypatch.setattr("regard.site.tokenizer.json.loads", lambda text: description)
    assert refusal(InputError, tokenizer_tables, tokenizer, 0) == (
        f"{type(tokenizer).__name__} has no piece for some bytes{ADVICE}"
    )


def test_a_token_that_depends_on_the_letters_around_it_is_refused():
    tokenizer = byte_tokenizer(GPT2)
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True)])
    assert refusal(InputError, tokenizer_tables, tokenizer, 0) == (
        f"{type(tokenizer).__name__} looks at the letters around '<mask>', which a site does not; choose a model such "
        "as MiniLM or GPT-2."
    )
