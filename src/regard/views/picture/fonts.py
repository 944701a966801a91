"""Tokens as labels of a picture: fonts that have their letters, how wide they are, where lines break.

matplotlib's own font has no Korean, Japanese or Chinese, so the other installed fonts are asked for what is missing.
Letters that no installed font has are drawn as □, and `Fonts.advice` names the font to install.
"""

import unicodedata
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontEntry, FontProperties, fontManager, get_font

from regard.views.labels import visible

BASE = "DejaVu Sans"
"""The font that comes with matplotlib, and so looks the same everywhere."""

MISSING = "□"

SCRIPTS = {
    "HIRAGANA": ("Noto Sans CJK JP", "Noto Sans JP", "Hiragino Sans", "Yu Gothic", "Meiryo", "IPAGothic"),
    "KATAKANA": ("Noto Sans CJK JP", "Noto Sans JP", "Hiragino Sans", "Yu Gothic", "Meiryo", "IPAGothic"),
    "HANGUL": ("Noto Sans CJK KR", "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic", "NanumGothic"),
    "CJK": ("Noto Sans CJK SC", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", "WenQuanYi Zen Hei", "SimHei"),
}
"""The fonts to ask first for each script, as Unicode names it; Japanese before Chinese, whose letters it shares."""

WESTERN = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "MODIFIER")
"""The scripts that Noto's font without a surname has."""

DPI = 288
"""The resolution at which text is measured; widths are given in inches."""


@dataclass(frozen=True, slots=True)
class Fonts:
    """The fonts that a picture's texts are drawn with.

    Attributes:
        family: names of fonts; a letter is drawn with the first that has it.
        missing: letters that none of them has.
    """

    family: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    def drawn(self, text: str) -> str:
        """A text as it can be drawn: □ for letters that no font has, nothing for format signs, which have no shape.

        >>> Fonts(("DejaVu Sans",), missing=frozenset("뱀")).drawn("뱀\u200b=snake")
        '□=snake'
        """
        return "".join(MISSING if letter in self.missing else letter for letter in visible(text) if has_shape(letter))

    @property
    def advice(self) -> str:
        """Which font to install for the letters that are missing; empty where none is."""
        if not self.missing:
            return ""
        letters = sorted(self.missing)
        wanted = ", ".join(dict.fromkeys(font_for(letter) for letter in letters))
        codes = ", ".join(f"U+{ord(letter):04X}" for letter in letters[:3]) + (" …" if len(letters) > 3 else "")
        return f"{MISSING} stands for letters that no installed font has ({codes}); install {wanted} to see them."

    def properties(self, size: float, bold: bool = False) -> FontProperties:
        """What matplotlib takes for a font; the size in points."""
        return FontProperties(family=list(self.family), size=size, weight="bold" if bold else "normal")

    def width(self, text: str, size: float, bold: bool = False) -> float:
        """How wide a text is, in inches."""
        if not text:
            return 0.0
        pixels, _, _ = ruler().get_text_width_height_descent(self.drawn(text), self.properties(size, bold), False)
        return float(pixels) / DPI

    def shortened(self, text: str, size: float, width: float, bold: bool = False) -> str:
        """A text cut off with … where it is wider than a width in inches."""
        if self.width(text, size, bold) <= width:
            return text
        too_long = bisect(range(1, len(text)), width, key=lambda kept: self.width(f"{text[:kept]}…", size, bold))
        return f"{text[: max(1, too_long)]}…"

    def lines(self, text: str, size: float, width: float) -> list[str]:
        """A text broken between words into lines no wider than a width in inches."""
        lines: list[str] = []
        for word in text.split():
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.width(longer, size) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines


def fonts_for(text: str) -> Fonts:
    """The fonts for a text: matplotlib's own, then those that have what it lacks."""
    text = visible(text)
    missing = set(filter(has_shape, text)) - letters_of(BASE, text)
    family = [BASE]
    for entry in candidates(missing) if missing else ():
        found = has(entry.fname, missing)
        if found:
            family.append(entry.name)
            missing -= found
        if not missing:
            break
    return Fonts(tuple(family), frozenset(missing))


def candidates(letters: set[str]) -> Iterator[FontEntry]:
    """The installed fonts other than matplotlib's own, those made for the scripts of the letters first."""
    found = {script_of(letter) for letter in letters}
    first = [name for script, names in SCRIPTS.items() if script in found for name in names]
    rank = {name: place for place, name in reversed(list(enumerate(first)))}
    upright = [e for e in fontManager.ttflist if e.style == "normal" and e.weight in ("normal", "regular", 400, 500)]
    others = [e for e in upright if e.name != BASE and not e.name.startswith(("Last Resort", "cm", "STIX"))]
    seen: set[str] = set()
    for entry in sorted(others, key=lambda e: (rank.get(e.name, len(first)), e.name, e.fname)):
        if entry.name not in seen:
            seen.add(entry.name)
            yield entry


def letters_of(name: str, text: str) -> set[str]:
    """The letters of a text that a font, given by its name, has."""
    return set().union(*(has(entry.fname, set(text)) for entry in fontManager.ttflist if entry.name == name))


def has(path: str, letters: set[str]) -> set[str]:
    """The letters that a font file has; none where the file is gone or is no font that can be read."""
    try:
        font = get_font(path)
    except (OSError, RuntimeError):
        return set()
    return {letter for letter in letters if font.get_char_index(ord(letter))}


def has_shape(letter: str) -> bool:
    """Whether there is something to draw: not so for format signs."""
    return unicodedata.category(letter) != "Cf"


def font_for(letter: str) -> str:
    """A free font that has a letter.

    >>> font_for("뱀"), font_for("क"), font_for("🐍")
    ('Noto Sans CJK KR', 'Noto Sans Devanagari', 'Noto Emoji')
    """
    script = script_of(letter)
    if script in SCRIPTS:
        return SCRIPTS[script][0]
    if unicodedata.category(letter)[0] not in "LM":
        return "Noto Emoji" if ord(letter) >= 0x1F000 else "Noto Sans Symbols 2"
    return "Noto Sans" if script in WESTERN else f"Noto Sans {script.title()}"


def script_of(letter: str) -> str:
    """The script of a letter, by the first word of its name in Unicode."""
    return unicodedata.name(letter, "SYMBOLS").split()[0]


@cache
def ruler() -> RendererAgg:
    """What texts are measured with."""
    return RendererAgg(DPI, DPI, DPI)
