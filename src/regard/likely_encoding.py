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
"""For each East Asian encoding, by its name in iconv: its name in Python, and a function that returns whether a letter
is frequent in the language."""

FEWEST_SHARE = 0.3
"""An encoding is accepted only if at least this proportion of the letters outside ASCII are frequent letters."""


def likely_encoding(data: bytes) -> str:
    """Return the most likely encoding of a line that is not UTF-8, by its name in iconv, such as CP949.

    In the East Asian encodings nearly every letter has two bytes of 0x80 or above. In LATIN1, such a byte usually
    stands alone between ASCII letters.
    """
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "UTF-16"
    high = sum(byte >= 0x80 for byte in data)
    paired = sum(len(run) for run in re.findall(rb"[\x80-\xff]{2,}", data))
    if paired < 0.8 * high:
        return "LATIN1"
    # GB18030 comes last, since it decodes nearly any bytes as Chinese characters.
    return next((name for name, how in EAST_ASIAN.items() if share_of(data, *how) >= FEWEST_SHARE), "LATIN1")


def ends_within_character(data: bytes) -> bool:
    """Return whether a line is UTF-8 that ends in the middle of a character.

    An earlier character must be outside ASCII: a single byte of 0x80 or above may also be a letter of LATIN1.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and not data[: error.start].isascii()
    return False


def share_of(data: bytes, codec: str, is_frequent: Callable[[str], bool]) -> float:
    """Return the share of frequent letters among the letters outside ASCII; 0 if `data` is not encoded in `codec`."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return 0.0
    letters = [letter for letter in text if not letter.isascii() and letter.isalpha()]
    return sum(map(is_frequent, letters)) / len(letters) if letters else 0.0
