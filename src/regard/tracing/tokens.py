"""The tokens of a text as a reader knows them: the text's own letters, no tokenizer's marks."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    Attributes:
        text: what to show for it; "[UNK:뱀]" where the tokenizer does not know what stands in the text.
        piece: what the tokenizer calls it ("##nom", "Ġthe").
        joined: whether it goes on from the token before it without a space.
        special: whether it is a sign of the tokenizer's ("[CLS]"); "[MASK]" stands for a word, and is none.
    """

    text: str
    piece: str
    joined: bool = False
    special: bool = False

    def __str__(self) -> str:
        return self.text


def tokens_of(tokenizer: Any, encoded: Any, text: str, as_target: bool = False) -> tuple[Token, ...]:
    """The tokens of one encoded text, each with the letters that it stands for."""
    ids = encoded["input_ids"][0].tolist()
    pieces = pieces_of(tokenizer, ids, as_target)
    specials = {identity for identity in tokenizer.all_special_ids if identity != tokenizer.mask_token_id}
    special = [identity in specials for identity in ids]
    spans = [tuple(map(int, span)) for span in encoded["offset_mapping"][0]] if "offset_mapping" in encoded else None
    tokens = []
    for position, piece in enumerate(pieces):
        letters = own_letters(text, spans, position) if spans else None
        unknown = ids[position] == tokenizer.unk_token_id and letters not in (None, piece)
        if special[position] and not unknown:
            tokens.append(Token(text=piece, piece=piece, special=True))
            continue
        after_a_word = position > 0 and not special[position - 1]
        joined = after_a_word and (
            goes_on(text, spans, position) if spans else spelt_on(tokenizer, pieces[position - 1], piece)
        )
        shown = f"[UNK:{letters}]" if unknown else visible(letters or legible(piece, tokenizer))
        tokens.append(Token(shown, piece, joined))
    return tuple(tokens)


def pieces_of(tokenizer: Any, ids: list[int], as_target: bool) -> list[str]:
    """What the tokenizer calls each token; Marian's with two vocabularies takes every token for one of the target's."""
    if not getattr(tokenizer, "separate_vocabs", False) or as_target:
        return list(tokenizer.convert_ids_to_tokens(ids))
    piece_of = {identity: piece for piece, identity in tokenizer.encoder.items()}
    return [piece_of.get(identity, tokenizer.unk_token) for identity in ids]


def own_letters(text: str, spans: list[tuple[int, ...]], position: int) -> str | None:
    """The letters of the text that only this token stands for; None where it shares them with another."""
    start, end = spans[position]
    neighbours = [spans[other] for other in (position - 1, position + 1) if 0 <= other < len(spans)]
    shared = any(first < end and start < last for first, last in neighbours)
    return text[start:end] if end > start and not shared else None


def goes_on(text: str, spans: list[tuple[int, ...]], position: int) -> bool:
    """Whether a token goes on from the one before it without a space."""
    start, before = spans[position][0], spans[position - 1][1]
    return start <= before and not text[start : start + 1].isspace()


def spelt_on(tokenizer: Any, before: str, piece: str) -> bool:
    """Whether the tokenizer, which does not say where its tokens are, writes a piece after another without a space."""
    left, both = (tokenizer.convert_tokens_to_string(pieces).strip() for pieces in ([before], [before, piece]))
    return not both[len(left) :].startswith(" ")


def visible(letters: str) -> str:
    """Letters without the space around them; for space alone, a sign; for marks that nobody sees, their codes.

    >>> visible(" snake"), visible(" "), visible("\u200b")
    ('snake', '␣', '‹200B›')
    """
    shown = letters.strip()
    if shown and all(unicodedata.category(letter) == "Cf" for letter in shown):
        return "".join(f"‹{ord(letter):04X}›" for letter in shown)
    return shown or ("⏎" if "\n" in letters else "␣")


def legible(piece: str, tokenizer: Any) -> str:
    """A piece as letters: without the tokenizer's marks, Korean letters as they stand alone, parts of one as bytes."""
    part, letters = bytes_of(piece), tokenizer.convert_tokens_to_string([piece])
    if part is not None and (not letters or "\ufffd" in letters):
        return "".join(f"‹{byte:02X}›" for byte in part)
    bare = piece.removeprefix("##").removesuffix("</w>").replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n")
    return "".join(map(stand_alone, bare))


def bytes_of(piece: str) -> bytes | None:
    """The bytes that a piece stands for: "<0xEB>" as SentencePiece writes them, GPT-2's letter for each, or ByT5's.

    >>> bytes_of("<0xEB>"), bytes_of("ëĢ"), bytes_of("뱀")
    (b'\\xeb', b'\\xeb\\x80', None)
    """
    if re.fullmatch(r"<0x[0-9A-F]{2}>", piece):
        return bytes([int(piece[3:5], 16)])
    numbers = [LETTER_OF_BYTE.get(letter, ord(letter)) for letter in piece]
    return bytes(numbers) if max(numbers, default=0) < 256 else None


def letters_of_bytes() -> dict[str, int]:
    """The letter that GPT-2's tokenizer writes for each byte: itself where it can be seen, else one from 256 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + i): byte for i, byte in enumerate(unseen)}


LETTER_OF_BYTE = letters_of_bytes()


def stand_alone(letter: str) -> str:
    """A Korean letter that joins into syllables, as the letter that stands alone; any other as it is.

    >>> stand_alone("\u11ab"), stand_alone("n")
    ('ㄴ', 'n')
    """
    kind, _, name = unicodedata.name(letter, "").removeprefix("HANGUL ").partition(" ")
    if kind not in ("CHOSEONG", "JUNGSEONG", "JONGSEONG"):
        return letter
    try:
        return unicodedata.lookup(f"HANGUL LETTER {name}")
    except KeyError:
        return letter
