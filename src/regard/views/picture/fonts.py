"""The fonts for the text of a picture: which fonts have its letters, how wide the text is, where its lines break.

matplotlib's own font has no Korean, Japanese or Chinese letters. Letters that it lacks are drawn with other installed
fonts, or with the font that comes with regard: letters/NotoSansCJK-subset.otf has all Hangul syllables, the kana, and
5,009 Chinese characters (those of GB 2312 level 1 and JIS X 0208 level 1). A letter that no font has is drawn as □, and
`Fonts.advice` names a font to install.
"""

import unicodedata
from bisect import bisect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontEntry, FontProperties, findfont, findSystemFonts, fontManager, get_font

from regard.visible_text import FIRST_STRONG_ISOLATE, POP_ISOLATE, escape_controls

BASE = "DejaVu Sans"
"""The font that comes with matplotlib and is therefore the same on every machine."""

OWN_FONT = "Noto Sans CJK of regard"
OWN_FONT_FILE = Path(__file__).parent / "letters" / "NotoSansCJK-subset.otf"
"""The font that comes with regard."""

MISSING = "□"
"""The character that is drawn in place of a letter that no installed font has."""

SCRIPTS = {
    "HIRAGANA": ("Noto Sans CJK JP", "Noto Sans JP", "Hiragino Sans", "Yu Gothic", "Meiryo", "IPAGothic"),
    "KATAKANA": ("Noto Sans CJK JP", "Noto Sans JP", "Hiragino Sans", "Yu Gothic", "Meiryo", "IPAGothic"),
    "HANGUL": ("Noto Sans CJK KR", "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic", "NanumGothic"),
    "CJK": ("Noto Sans CJK SC", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", "WenQuanYi Zen Hei", "SimHei"),
}
"""For each script, by its name in Unicode, the preferred fonts. Japanese kana come before Chinese characters ("CJK"),
so that a Japanese text takes its Chinese characters from a Japanese font."""

WESTERN = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "MODIFIER")
"""The scripts whose letters the font Noto Sans has. Each other script has its own font, such as Noto Sans Thai."""

DPI = 288
"""The resolution at which the width of a text is measured, in dots per inch."""


@dataclass(frozen=True, slots=True)
class Fonts:
    """The fonts of a picture's text. In all methods, `width` is in inches and `size`, the font size, in points.

    Attributes:
        family: the names of fonts; each letter is drawn with the first of these fonts that has the letter.
        missing: the letters of the text that no installed font has.
    """

    family: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    def drawable(self, text: str) -> str:
        r"""Return a text without format characters, and with □ in place of letters that no font has.

        >>> Fonts(("DejaVu Sans",), missing=frozenset("뱀")).drawable("뱀\N{ZERO WIDTH SPACE}=snake")
        '□=snake'
        """
        isolates = FIRST_STRONG_ISOLATE + POP_ISOLATE
        letters = (c for c in escape_controls(text, keep=isolates) if c in isolates or has_glyph(c))
        return "".join(MISSING if letter in self.missing else letter for letter in letters)

    @property
    def advice(self) -> str:
        """A sentence that names the fonts to install for the missing letters; empty if no letter is missing."""
        if not self.missing:
            return ""
        letters = sorted(self.missing)
        names = ", ".join(dict.fromkeys(free_font(letter) for letter in letters))
        codes = ", ".join(f"U+{ord(letter):04X}" for letter in letters[:3]) + (" …" if len(letters) > 3 else "")
        return f"{MISSING} stands for letters that no installed font has ({codes}); install {names} to see them."

    def properties(self, size: float, bold: bool = False) -> FontProperties:
        return FontProperties(family=list(self.family), size=size, weight="bold" if bold else "normal")

    def width(self, text: str, size: float, bold: bool = False) -> float:
        if not text:
            return 0.0
        pixels, _, _ = renderer().get_text_width_height_descent(self.drawable(text), self.properties(size, bold), False)
        return float(pixels) / DPI

    def shortened(self, text: str, size: float, width: float, bold: bool = False) -> str:
        """Return a text whose end is replaced by … if the text is wider than `width`."""
        if self.width(text, size, bold) <= width:
            return text

        def width_of_first(n_letters: int) -> float:
            return self.width(f"{text[:n_letters]}…", size, bold)

        letter_counts = range(1, len(text))
        n_that_fit = bisect(letter_counts, width, key=width_of_first)  # 1, 2, …: as many counts fit as letters
        return f"{text[: max(1, n_that_fit)]}…"

    def lines(self, text: str, size: float, width: float) -> list[str]:
        """Return a text as lines of at most `width`, broken between words; a wider word is a line of its own."""
        lines: list[str] = []
        for word in text.split():
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.width(longer, size) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines


def fonts_for(text: str) -> Fonts:
    """Return matplotlib's own font, and fonts for those letters of a text that matplotlib's font lacks."""
    text = escape_controls(text)
    foreign_letters = set(filter(has_glyph, text)) - letters_in_file(findfont(BASE), set(text))
    if not foreign_letters:
        return Fonts((BASE,))
    add_own_font()
    fonts = fonts_with(foreign_letters)
    if fonts.missing and add_fonts_installed_since():
        fonts = fonts_with(foreign_letters)
    return fonts


def fonts_with(letters: set[str]) -> Fonts:
    """Return matplotlib's own font, and other fonts that together have these letters as far as possible."""
    family, missing = [BASE], set(letters)
    for entry in candidate_fonts(letters):
        if letters_of_font := letters_in_file(entry.fname, missing):
            family.append(entry.name)
            missing -= letters_of_font
        if not missing:
            break
    return Fonts(tuple(family), frozenset(missing))


def add_own_font() -> None:
    """Add the font that comes with regard to matplotlib's list, as a regular and as a bold font.

    matplotlib warns if there is no bold font for a bold text.
    """
    if all(entry.name != OWN_FONT for entry in fontManager.ttflist):
        fontManager.addfont(OWN_FONT_FILE)
        fontManager.ttflist.append(replace(fontManager.ttflist[-1], weight=700))


def add_fonts_installed_since() -> bool:
    """Add to matplotlib's list the fonts installed after the list was made; return whether there are such fonts."""
    listed = {Path(entry.fname) for entry in fontManager.ttflist}
    unlisted = [path for path in map(Path, findSystemFonts()) if path not in listed]
    for path in unlisted:
        with suppress(OSError, RuntimeError):  # the file is not a readable font
            fontManager.addfont(path)
    return bool(unlisted)


def candidate_fonts(letters: set[str]) -> Iterator[FontEntry]:
    """Yield all installed fonts except matplotlib's own, the most suitable first.

    First come the preferred fonts for the scripts of `letters`, then the font that comes with regard, then all others.
    """
    scripts = {script_of(letter) for letter in letters}
    preferred = [name for script, names in SCRIPTS.items() if script in scripts for name in names]
    rank = {name: number for number, name in enumerate(dict.fromkeys([*preferred, OWN_FONT]))}
    upright = [e for e in fontManager.ttflist if e.style == "normal" and e.weight in ("normal", "regular", 400, 500)]
    # "cm" and "STIX" are matplotlib's fonts for formulas; Last Resort draws a placeholder for every letter
    usable = [e for e in upright if e.name != BASE and not e.name.startswith(("Last Resort", "cm", "STIX"))]
    yielded_names: set[str] = set()
    for entry in sorted(usable, key=lambda e: (rank.get(e.name, len(rank)), e.name, e.fname)):
        if entry.name not in yielded_names:
            yielded_names.add(entry.name)
            yield entry


def letters_in_file(path: str, letters: set[str]) -> set[str]:
    """Return the letters that the font in a file has; an empty set if the file is not a readable font."""
    try:
        font = get_font(path)
    except (OSError, RuntimeError):
        return set()
    return {letter for letter in letters if font.get_char_index(ord(letter))}


def quoted(label: str) -> str:
    """Return a label in quotation marks and Unicode isolates, so that Arabic or Hebrew does not reverse other text."""
    return f"“{FIRST_STRONG_ISOLATE}{label}{POP_ISOLATE}”"


def has_glyph(letter: str) -> bool:
    """Return False for a format character, such as a zero-width joiner: it is never drawn."""
    return unicodedata.category(letter) != "Cf"


def free_font(letter: str) -> str:
    """Return the name of a free font that has a letter, for the advice to the user.

    >>> free_font("뱀"), free_font("क"), free_font("🐍")
    ('Noto Sans CJK KR', 'Noto Sans Devanagari', 'Noto Emoji')
    """
    script = script_of(letter)
    if script in SCRIPTS:
        return SCRIPTS[script][0]
    if unicodedata.category(letter)[0] not in "LM":
        return "Noto Emoji" if ord(letter) >= 0x1F000 else "Noto Sans Symbols 2"
    return "Noto Sans" if script in WESTERN else f"Noto Sans {script.title()}"


def script_of(letter: str) -> str:
    """Return the script of a letter: the first word of its name in Unicode, such as "HANGUL"."""
    return unicodedata.name(letter, "SYMBOLS").split()[0]


@cache
def renderer() -> RendererAgg:
    return RendererAgg(width=DPI, height=DPI, dpi=DPI)
