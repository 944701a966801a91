"""The tokens of a text as a reader knows them: the text's own letters, no tokenizer's marks."""

import unicodedata
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    Attributes:
        text: what to show for it.
        piece: what the tokenizer calls it ("##nom", "Ġthe").
        joined: whether it goes on from the token before it without a space.
        special: whether the tokenizer added it ("[CLS]").
    """

    text: str
    piece: str
    joined: bool = False
    special: bool = False

    def __str__(self) -> str:
        return self.text


def tokens_of(tokenizer: Any, encoded: Any, text: str) -> tuple[Token, ...]:
    """The tokens of one encoded text, each with the letters that it stands for."""
    ids = encoded["input_ids"][0].tolist()
    pieces = tokenizer.convert_ids_to_tokens(ids)
    special = set(tokenizer.all_special_ids)
    offsets = [tuple(map(int, span)) for span in encoded["offset_mapping"][0]] if "offset_mapping" in encoded else None
    tokens = []
    for position, (identity, piece) in enumerate(zip(ids, pieces, strict=True)):
        if identity in special:
            tokens.append(Token(text=piece, piece=piece, special=True))
            continue
        shown = own_letters(text, offsets, position) if offsets else None
        before = offsets[position - 1][1] if offsets and position else 0
        joined = offsets[position][0] <= before and position > 0 and ids[position - 1] not in special if offsets else piece.startswith("##")
        starts_with_space = shown is not None and shown != shown.lstrip()
        tokens.append(Token((shown or legible(piece)).strip() or "␣", piece, joined and not starts_with_space))
    return tuple(tokens)


def own_letters(text: str, offsets: list[tuple[int, int]], position: int) -> str | None:
    """The letters of the text that only this token stands for; None where it shares them with another."""
    start, end = offsets[position]
    shared = any(
        offsets[other][0] < end and start < offsets[other][1]
        for other in (position - 1, position + 1)
        if 0 <= other < len(offsets)
    )
    return text[start:end] if end > start and not shared else None


def legible(piece: str) -> str:
    """A tokenizer's piece without its marks, single Korean letters as they stand alone.

    >>> legible("##nom"), legible("\\u2581the"), legible("\\u11ab")
    ('nom', 'the', 'ㄴ')
    """
    bare = piece.removeprefix("##").removesuffix("</w>").replace("▁", " ").replace("Ġ", " ").replace("Ċ", "⏎").strip()
    return "".join(map(stand_alone, bare))


def stand_alone(letter: str) -> str:
    """A Korean letter that joins into syllables, as the letter that stands alone; any other as it is."""
    kind, _, name = unicodedata.name(letter, "").removeprefix("HANGUL ").partition(" ")
    if kind not in ("CHOSEONG", "JUNGSEONG", "JONGSEONG"):
        return letter
    try:
        return unicodedata.lookup(f"HANGUL LETTER {name}")
    except KeyError:
        return letter
