"""Texts that are hard to split into tokens, of many scripts, and random ones."""

import random

TEXTS = [
    "The snake is very dangerous because it has a venom.",
    "It rains,it pours;the old man's snoring (again)!",
    "뱀은 독이 있기 때문에 매우 위험하다. 한국어 낱말, ㅋㅋㅋ 그리고 조합형 한글",
    "الثعبان خطير جدًا لأنه سامّ، و١٢٣",
    "הַנָּחָשׁ מְסֻכָּן מְאֹד",
    "蛇はとても危険です。毒があるからだ。ﾊﾝｶｸ カナ がぎぐ",
    "蛇很危险，因为它有毒。𠀀𪜀 豈 ﬁ ﬃ Ⅷ ½ ②",
    "Ångström naïve café crème brûlée ÉÈÊ e\u0301 o\u0308 ñ İstanbul ıı ẞß ŒÆ ſ K Ω",
    "Việt Nam đẹp, ngữ pháp; Čeština, žluťoučký kůň; Ελληνικά ΣΊΣΥΦΟΣ",
    "हिन्दी में साँप ज़हरीला है। தமிழ் பாம்பு ภาษาไทย งูพิษ",
    "👩‍👩‍👧‍👦 flags 🇰🇷 and 👍🏽 emoji, zero\u200bwidth, soft\u00adhyphen, nb\u00a0space",
    "control \x00 \x01 \x1b[31m \x7f \x85 \u2028 \u2029 \u202e \ufeff \ufffd end",
    "tab\tline\nreturn\r\nform\x0cfeed\x0bend \u3000 wide",
    "[MASK] of [CLS] and [SEP][PAD] [UNK] [mask] [MASKED]",
    "a" * 100 + " " + "b" * 101 + " " + "antidisestablishmentarianism" * 4,
    "x" * 99 + "é" + " " + "x" * 100 + "é",
    "https://example.org/a_b-c?d=e&f=%20#g user@example.com #tag $5.00 1,000.5 ±3° 10⁻³ §4 ¿qué? «ça»",
    "snake_case camelCase ALLCAPS C++ C# .NET don't won't 'tis rock'n'roll 7th U.S.A.",
    "\u302e\U0001d165 \U0001d165\u302e a\u0327\u0301 a\u0301\u0327 \u1100\u1161\u11a8 각 \uac01\u11a8",
    "\u0890 \u0897 \u1b4e \u2e52\u2e5d \U00011f00 \U0001e5ff \U000e0001 \ue000 \U0010ffff",
    "!",
    "\u0301",
    "\u200b",
]
"""Texts of many scripts, with letters that are dropped, taken apart, or newer than the tokenizer's Unicode."""


def random_texts() -> list[str]:
    """Texts of letters from all of Unicode, from a few scripts, and of pieces of the other texts."""
    chance = random.Random(0)
    scripts = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x530), (0x590, 0x780), (0x900, 0xE80), (0x1100, 0x1200)]
    scripts += [(0x2000, 0x2100), (0x3000, 0x3400), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x1F300, 0x1F700)]
    pieces = " ".join(TEXTS).split(" ")
    texts = []
    for _ in range(100):
        letters = (chance.choice(range(*chance.choice(scripts))) for _ in range(chance.randint(1, 24)))
        texts.append("".join(chr(code) if chance.random() < 0.8 else " " for code in letters))
        anywhere = (chance.randrange(0x30000) for _ in range(chance.randint(1, 12)))
        texts.append("a" + "".join(chr(code) for code in anywhere if not 0xD800 <= code < 0xE000))
        words = (chance.choice(pieces)[:12] for _ in range(chance.randint(1, 6)))
        texts.append(chance.choice(["", " ", "-"]).join(words))
    return [text for text in texts if text.strip()]
