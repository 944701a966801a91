"""Make the font file that comes with regard, from the font Noto Sans CJK.

    python -m regard.views.picture.letters.make_subset NotoSansCJK-Regular.ttc

The subset has all Hangul syllables and jamo, the kana, full-width forms, and the Chinese characters of GB 2312 level 1
and of JIS X 0208 level 1; no hints and layout tables, because pictures do not need them.
"""

import sys
from pathlib import Path

from fontTools import subset

from regard.views.picture.fonts import OWN_FONT, OWN_FONT_FILE

RANGES = (0x1100, 0x11FF), (0x3000, 0x30FF), (0x3131, 0x318E), (0xAC00, 0xD7A3), (0xFF01, 0xFFE6)
"""The first and the last code point of each block of characters in the font, besides the Chinese characters."""

KOREAN_FACE = 1
"""The index, in the file NotoSansCJK-Regular.ttc, of the font with the Korean forms of letters."""


def level_1(encoding: str, first: int, last: int) -> set[str]:
    """Return the frequent letters (level 1) of a two-byte encoding: the first of their bytes is `first` to `last`."""
    pairs = (bytes([row, cell]) for row in range(first, last + 1) for cell in range(0xA1, 0xFF))
    return {letter for pair in pairs if (letter := pair.decode(encoding, errors="ignore"))}


def make_subset(source: Path) -> None:
    letters = {chr(code) for first, last in RANGES for code in range(first, last + 1)}
    letters |= level_1("gb2312", 0xB0, 0xD7)  # rows 16 to 55
    letters |= level_1("euc_jp", 0xB0, 0xCF)  # JIS X 0208, rows 16 to 47
    options = subset.Options(
        font_number=KOREAN_FACE, hinting=False, layout_features=[], name_IDs=["*"], notdef_outline=True
    )
    options.drop_tables += ["vmtx", "vhea", "VORG", "GSUB", "GPOS", "BASE", "DSIG"]
    font = subset.load_font(source, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=map(ord, letters))
    subsetter.subset(font)
    joined = OWN_FONT.replace(" ", "")
    # OpenType name IDs: 1 and 16 = family, 3 = unique identifier, 4 = full name, 6 = PostScript name
    names = {1: OWN_FONT, 16: OWN_FONT, 3: f"regard;{joined}", 4: f"{OWN_FONT} Regular", 6: f"{joined}-Regular"}
    for record in font["name"].names:
        record.string = names.get(record.nameID, record.toUnicode())
    font["CFF "].cff.fontNames[0] = names[6]
    subset.save_font(font, OWN_FONT_FILE, options)


if __name__ == "__main__":
    make_subset(Path(sys.argv[1]))
