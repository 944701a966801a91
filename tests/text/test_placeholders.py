"""Items of typed lines by hand, and the law that signs and items change into each other without loss."""

import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.cleaning import clean_text
from regard.text.placeholders import BEGIN, END, SIGNS, Placeholders, with_items, with_sign_pieces, with_signs
from regard.text.vocabulary import Vocabulary

KOREAN, ENGLISH = Placeholders(latin=False), Placeholders(latin=True)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Kotanu는 어디 있어?", ["Kotanu"]),
        ("이 신발은 34,500원이야.", ["34,500"]),
        ("주소는 테헤란로 152야.", ["152"]),
        ("https://a.example/b?c=1을 봐.", ["https://a.example/b?c=1"]),
        ("https://ko.example/위키/한국_역사?쪽=둘, 다음", ["https://ko.example/위키/한국_역사?쪽=둘"]),
        ("www.한글.example/가을 (https://fr.example/Café)에서", ["www.한글.example/가을", "https://fr.example/Café"]),
        ("https://a.example/에는 https://b.example/2월_1일/의", ["https://a.example/", "https://b.example/2월_1일/"]),
        ("https://ja.example/日本を見て。", ["https://ja.example/"]),
        ("me@a-b.example로 보내 줘.", ["me@a-b.example"]),
        ("Maria Silva와 Windows 11을 샀다.", ["Maria Silva", "Windows"]),
        ("전화는 010-1234-5678, 2:30에.", ["010-1234-5678", "2:30"]),
        ("7시에 40명이 3만 원을 냈다.", []),
        ("150만 명, 1,500 만 명", []),
        ("150km를 달렸다.", ["150"]),
        ("<synthetic> 톰은 갔다.", []),
        ("⟡ 표를 봐, Tom.", ["⟡", "Tom"]),
        ("톰은 뱉다, 뱀, 쉽지 않다.", []),
    ],
)
def test_items_of_korean_lines(text, items):
    assert list(KOREAN.signs(text)) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Tom ate 떡볶이 and 김밥 나라 in 2013.", ["떡볶이", "김밥 나라", "2013"]),
        ("See www.rome.com.", ["www.rome.com"]),
        ("I am 7 years old.", []),
    ],
)
def test_items_of_english_lines(text, items):
    assert list(ENGLISH.signs(text)) == items


def test_decomposed_letters_are_no_items_and_stay_whole():
    assert KOREAN.signs(clean_text("Rene\u0301\u1102\u1173\u11ab 123")) == {"René": SIGNS[0], "123": SIGNS[1]}


@given(st.text("톰은는 a12,.-'A\u00e9" + SIGNS, max_size=40).map(clean_text), st.sampled_from([KOREAN, ENGLISH]))
def test_items_come_back(text, placeholders):
    signs = placeholders.signs(text)
    assert with_items(with_signs(text, signs), signs) == text


@given(
    st.text("톰a12,.-'A\u00e9", max_size=20),
    st.lists(st.text("톰a1.A", min_size=1, max_size=3), min_size=1, max_size=3, unique=True),
)
def test_signs_replace_what_a_regular_expression_finds(text, items):
    """Boundaries as one regular expression: the longest item of those that begin at a place, from left to right."""
    signs = dict(zip(items, SIGNS, strict=False))
    longest_first = sorted(items, key=len, reverse=True)
    found = re.sub("|".join(f"{BEGIN}{re.escape(item)}{END}" for item in longest_first), lambda m: signs[m[0]], text)
    assert with_signs(text, signs) == found


def test_a_pair_has_signs_only_for_items_of_both_texts():
    source, target = KOREAN.signed_pair("Kotanu는 123쪽과 456쪽을 본다.", "Kotanus saw Kotanu read 123 of 4567 pages.")
    assert (source, target) in [
        (f"{one}는 {two}쪽과 456쪽을 본다.", f"Kotanus saw {one} read {two} of 4567 pages.")
        for one, two in permutations(SIGNS, 2)
    ]


def test_every_sign_is_the_first_of_some_pair():
    pairs = [KOREAN.signed_pair(f"Kotanu는 {word} 갔다.", "Kotanu left.") for word in "또막곧늘참꼭"]
    assert {target[0] for _, target in pairs} == set(SIGNS)


def test_a_name_that_stands_twice_in_a_text_is_left():
    names = {"톰": "Tom"}
    assert KOREAN.signed_pair("톰은 갔다.", "Tomorrow Tom leaves.", names)[1][9] in SIGNS
    for pair in (("톰은 톰이다.", "Tom is Tom."), ("톰은 갔다.", "Tom left Tom."), ("톰은 갔다.", "He left.")):
        assert KOREAN.signed_pair(*pair, names) == pair


def test_signs_are_pieces_of_their_own_and_other_pieces_stay():
    plain = Vocabulary.train(["톰은 ⟐ 갔다", "톰이 왔다"] * 9, 30)
    signed = with_sign_pieces(plain)
    between = signed.pieces(signed.encode("는"))[1:]
    assert signed.pieces(signed.encode("⟐는⟡ 톰은")) == ["▁", "⟐", *between, "⟡", "▁톰은"]
    assert signed.decode(signed.encode("톰은 ⟢ 갔다")) == "톰은 ⟢ 갔다"
    assert signed.encode("톰이 왔다") == plain.encode("톰이 왔다")


def test_a_translator_has_placeholders_if_both_vocabularies_have_the_signs():
    korean, english = Vocabulary.train(["톰은 갔다 OK"] * 9, 30), Vocabulary.train(["Tom left"] * 9, 30)
    assert Placeholders.of(korean, with_sign_pieces(english)) is None
    assert Placeholders.of(with_sign_pieces(korean), with_sign_pieces(english)) == KOREAN
    assert Placeholders.of(with_sign_pieces(english), with_sign_pieces(korean)) == ENGLISH
