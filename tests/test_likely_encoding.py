"""Tests of guessing the encoding of bytes: sentences of many languages, encoded by Python's codecs."""

import pytest

from regard.likely_encoding import ends_within_character, likely_encoding

SENTENCES = [
    ("뱀은 독이 있어서 매우 위험하다.", "euc-kr", "CP949"),
    ("뱀", "cp949", "CP949"),
    ("펲시맨이 똠방각하를 만났다 (2007년)", "cp949", "CP949"),  # syllables that EUC-KR lacks
    ("へびはとても危険です。", "cp932", "SHIFT_JIS"),
    ("へびはとても危険です。", "euc_jp", "EUC-JP"),
    ("蛇非常危险，因为它有毒。", "gb18030", "GB18030"),
    ("Das Mädchen aß Äpfel in Österreich.", "latin-1", "LATIN1"),
    ("Un café près de la forêt, où l'été dure.", "latin-1", "LATIN1"),
    ("El niño comió en Ávila.", "latin-1", "LATIN1"),
    ("Ärger", "latin-1", "LATIN1"),
    ("ein Hund", "utf-16", "UTF-16"),
]


@pytest.mark.parametrize(("text", "codec", "name"), SENTENCES)
def test_the_encoding_is_named(text, codec, name):
    assert likely_encoding(text.encode(codec)) == name


def test_a_text_that_ends_within_a_character_is_recognised():
    for text in ("뱀은 독이 있다", "Das Mädchen aß", "a 😀 and 😀"):
        data = text.encode()
        for size in range(len(data)):
            cut = data[:size].decode(errors="ignore").encode() != data[:size]
            assert ends_within_character(data[:size]) == (cut and not data[:size].decode(errors="ignore").isascii())
    assert not any(ends_within_character(text.encode(codec)) for text, codec, _ in SENTENCES)


def test_any_bytes_have_a_likely_encoding():
    for first in range(256):
        assert likely_encoding(bytes([first, 0xFF, 0x80, first]))
    assert likely_encoding(b"") == "LATIN1"
