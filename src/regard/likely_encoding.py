"""Guess the encoding of bytes that are not UTF-8, to name it in an error message."""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable


def is_common_hangul(letter: str) -> bool:
    """Return whether a letter is one of the 2,350 frequent Korean syllables of KS X 1001."""
    return "가" <= letter <= "힣" and len(letter.encode("euc_kr")) == 2  # all other syllables get 8 bytes from "euc_kr"


def is_kana(letter: str) -> bool:
    return "ぁ" <= letter <= "ヶ"


def is_han(letter: str) -> bool:
    return "\u4e00" <= letter <= "\u9fff"


EAST_ASIAN: dict[str, tuple[str, Callable[[str], bool]]] = {
    "CP949": ("cp949", is_common_hangul),  # CP949 extends EUC-KR, and stands for it too
    "SHIFT_JIS": ("cp932", is_kana),
    "EUC-JP": ("euc_jp", is_kana),
    "GB18030": ("gb18030", is_han),
}
"""The East Asian encodings: the name in iconv, the name in Python, and a test for letters frequent in the language."""

LEAST_SHARE = 0.3
"""An encoding is accepted only if at least this proportion of the letters outside ASCII are frequent letters."""


def likely_encoding(data: bytes) -> str:
    """Return the most likely encoding of a line that is not UTF-8, by its name in iconv, such as CP949.

    In the East Asian encodings nearly every letter has two bytes of 0x80 or above. In LATIN1, such a byte usually
    stands alone between ASCII letters.
    """
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "UTF-16"
    n_high = sum(byte >= 0x80 for byte in data)
    n_paired = sum(len(run) for run in re.findall(rb"[\x80-\xff]{2,}", data))
    if n_paired < 0.8 * n_high:
        return "LATIN1"
    # GB18030 comes last, since it decodes nearly any bytes as Chinese characters.
    for name, (codec, is_frequent) in EAST_ASIAN.items():
        if share_of_frequent_letters(data, codec, is_frequent) >= LEAST_SHARE:
            return name
    return "LATIN1"


def ends_within_character(data: bytes) -> bool:
    """Return whether a line is UTF-8 that ends in the middle of a character.

    The result is False if all complete characters are ASCII: the end may then be a letter of LATIN1.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and not data[: error.start].isascii()
    return False


def share_of_frequent_letters(data: bytes, codec: str, is_frequent: Callable[[str], bool]) -> float:
    """Return the proportion of letters outside ASCII that are frequent; 0 if `data` is not encoded in `codec`."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return 0.0
    letters = [letter for letter in text if not letter.isascii() and letter.isalpha()]
    return sum(map(is_frequent, letters)) / len(letters) if letters else 0.0
