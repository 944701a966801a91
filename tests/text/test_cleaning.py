"""Cleaning: what is removed, what stays, what is refused."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from regard import InputError
from regard.text.cleaning import checked_clean_text, clean_text


def test_clean_text_does_not_change():
    for text in ("l'été — 日本 語", "می‌خواهم", "👩‍👧 x", "q\u0301"):  # joiners and combining marks are of the text
        assert clean_text(text) == text


def test_letters_in_parts_are_composed():
    assert clean_text("e\u0301te\u0301 \u1107\u1162\u11b7") == "été 뱀"


def test_every_control_character_is_removed_or_is_a_space():
    for number in (*range(0x20), *range(0x7F, 0xA0)):
        assert clean_text(f"a{chr(number)}b") == ("a b" if chr(number).isspace() else "ab")


@given(st.text())
def test_cleaned_text_is_clean(text):
    tidy = clean_text(text)
    assert clean_text(tidy) == tidy
    assert tidy == tidy.strip()
    assert "  " not in tidy
    assert "▁" not in tidy
    assert {unicodedata.category(letter) for letter in tidy} & {"Cc", "Zl", "Zp"} == set()
    assert {letter for letter in tidy if letter.isspace()} <= {" "}
    assert [x for x in text if x.isalnum()] == [x for x in tidy if x.isalnum()]


def test_half_a_character_is_refused():
    assert checked_clean_text("𝄞  whole") == "𝄞 whole"
    assert refusal(InputError, checked_clean_text, "ab\ud834") == (
        "the text has a lone surrogate (U+D834 at position 3), which UTF-8 cannot encode; remove it."
    )
