"""Tokens with readable text: the letters of the original text, without the markers of the tokenizer (##, Ġ, ▁)."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from regard.errors import counted
from regard.tracing.tokens.places import Place


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    Attributes:
        text: the letters of the text that the token stands for; "[UNK:뱀]" where the vocabulary lacks the word 뱀.
        piece: the token as it is in the tokenizer's vocabulary, with its markers ("##nom", "Ġthe").
        joined: True if there is no space between the token and the token before it.
        special: whether the tokenizer added the token ("[CLS]"); False for "[MASK]", which stands for a word.
        place: the part of a picture or a recording that the token stands for; None for a token of text.
    """

    text: str
    piece: str
    joined: bool = False
    special: bool = False
    place: Place | None = None

    def __str__(self) -> str:
        return self.text


def readable_tokens(tokenizer: Any, encoded: Any, text: str, as_target: bool = False) -> tuple[Token, ...]:
    """Return a `Token` with readable text for each id of an encoded text.

    Args:
        encoded: the tokenizer's output for `text`, with offset_mapping if the tokenizer supports it.
        as_target: whether the ids belong to the target vocabulary, if the tokenizer has two vocabularies.
    """
    ids = encoded["input_ids"][0].tolist()
    pieces = pieces_of(tokenizer, ids, as_target)
    specials = {identity for identity in tokenizer.all_special_ids if identity != tokenizer.mask_token_id}
    special = [identity in specials for identity in ids]
    spans = [tuple(map(int, span)) for span in encoded["offset_mapping"][0]] if "offset_mapping" in encoded else None
    text_of = cache(lambda piece: display_text(piece_text(piece, tokenizer)))  # many pieces occur several times

    def is_joined(position: int) -> bool:
        """Return whether there is no space between a token and the token before it."""
        if spans:
            start, before = spans[position][0], spans[position - 1][1]
            return start <= before and not text[start : start + 1].isspace()
        # without offsets: convert the token before, then both tokens, and look for a space between them
        first = tokenizer.convert_tokens_to_string([pieces[position - 1]]).strip()
        both = tokenizer.convert_tokens_to_string(pieces[position - 1 : position + 1]).strip()
        return not both[len(first) :].startswith(" ")

    tokens = []
    for position, piece in enumerate(pieces):
        letters = exclusive_text(text, spans, position) if spans else None
        # a text may contain the unknown token itself, such as "[UNK]"; the tokenizer lists this token as special
        unknown = ids[position] == tokenizer.unk_token_id and letters not in (None, piece)
        if special[position] and not unknown:
            tokens.append(Token(text=piece, piece=piece, special=True))
            continue
        joined = position > 0 and not special[position - 1] and is_joined(position)
        shown = display_text(letters) if letters else text_of(piece)
        tokens.append(Token(f"[UNK:{letters}]" if unknown else shown, piece, joined))
    return tuple(tokens)


def pieces_of(tokenizer: Any, ids: list[int], as_target: bool) -> list[str]:
    """Return the entry of the tokenizer's vocabulary for each id; "[50300]" for an id that the vocabulary lacks.

    A model may have more ids than its tokenizer, for instance because their number is rounded up to a multiple of 64. A
    Marian tokenizer may have two vocabularies, and its methods convert only ids of the target. Ids of the source are
    converted by its `encoder`, a dictionary from entries to ids.
    """
    if getattr(tokenizer, "separate_vocabs", False) and not as_target:
        piece_of = {identity: piece for piece, identity in tokenizer.encoder.items()}
        return [piece_of.get(identity, tokenizer.unk_token) for identity in ids]
    pieces = zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
    return [f"[{identity}]" if piece is None else piece for identity, piece in pieces]


def exclusive_text(text: str, spans: list[tuple[int, ...]], position: int) -> str | None:
    """Return the text in the span of the token at `position`; None if it is "" or a neighbour's span overlaps."""
    start, end = spans[position]
    neighbours = [spans[other] for other in (position - 1, position + 1) if 0 <= other < len(spans)]
    shared = any(first < end and start < last for first, last in neighbours)
    return text[start:end] if end > start and not shared else None


def display_text(letters: str) -> str:
    """Return `letters` without leading and trailing white space; replace invisible text by visible characters.

    If `letters` is only white space, it becomes ␣, or ⏎ if it contains a line feed. If it is only invisible characters,
    it becomes their codes.

    >>> display_text(" snake"), display_text(" "), display_text("\u200b")
    ('snake', '␣', '‹200B›')
    """
    shown = letters.strip()
    if shown and all(unicodedata.category(letter) == "Cf" for letter in shown):
        return "".join(f"‹{ord(letter):04X}›" for letter in shown)
    return shown or ("⏎" if "\n" in letters else "␣")


def piece_text(piece: str, tokenizer: Any) -> str:
    """Return an entry of the tokenizer's vocabulary without the markers ##, Ġ and ▁.

    Parts of Korean syllables (jamo) become standalone letters. An entry that is only part of a character is returned
    as its bytes: ‹EB›‹80›.
    """
    numbers, letters = piece_bytes(piece), tokenizer.convert_tokens_to_string([piece])
    if numbers is not None:
        if not letters or "\ufffd" in letters:  # U+FFFD stands for bytes that are no whole character
            return "".join(f"‹{byte:02X}›" for byte in numbers)
        if letters != piece and letters.encode() == numbers:  # GPT-2: 뱀 is stored as ë±Ģ
            return str(letters)
    if piece.startswith("##") and tokenizer.convert_tokens_to_string(["a", piece]) == f"a{piece[2:]}":
        piece = piece[2:]  # in WordPiece, ## marks a token inside a word; in other vocabularies it is text
    bare = piece.removesuffix("</w>").replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n")
    return "".join(map(standalone_letter, bare))


def piece_bytes(piece: str) -> bytes | None:
    """Return the bytes of a vocabulary entry in the notation of SentencePiece ("<0xEB>"), GPT-2 or ByT5.

    None if a character of the entry does not stand for a byte.

    >>> piece_bytes("<0xEB>"), piece_bytes("ëĢ"), piece_bytes("뱀")
    (b'\\xeb', b'\\xeb\\x80', None)
    """
    if re.fullmatch(r"<0x[0-9A-F]{2}>", piece):
        return bytes([int(piece[3:5], 16)])
    numbers = [GPT2_BYTES.get(letter, ord(letter)) for letter in piece]  # in ByT5, each letter is its own byte
    return bytes(numbers) if max(numbers, default=0) < 256 else None


def gpt2_bytes() -> dict[str, int]:
    """Return the byte for each character of GPT-2's alphabet, which writes every byte as a visible character.

    Printable bytes are written as themselves, all others as characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


GPT2_BYTES = gpt2_bytes()


def standalone_letter(letter: str) -> str:
    """Return the standalone form of a Korean jamo (a letter that is part of a syllable); other letters unchanged.

    >>> standalone_letter("\u11ab"), standalone_letter("n")
    ('ㄴ', 'n')
    """
    kind, _, name = unicodedata.name(letter, "").removeprefix("HANGUL ").partition(" ")
    if kind not in ("CHOSEONG", "JUNGSEONG", "JONGSEONG"):
        return letter
    try:
        return unicodedata.lookup(f"HANGUL LETTER {name}")
    except KeyError:
        return letter


FRAGMENT = re.compile(r"\[UNK:.*\]|[\u3131-\u318e]|(‹[0-9A-F]{2}›)+", re.DOTALL)
"""Matches a token that stands for an unknown character or for a part of one: [UNK:뱀], a jamo (a part of a Korean
syllable), or bytes (‹EB›‹80›)."""


def unfamiliar_text_note(model: str, tokens: Sequence[Token]) -> str:
    """Return a warning for the user if a model knows less than half of the tokens of a text; else "".

    >>> unfamiliar_text_note("MiniLM", [Token(text, text) for text in ("ㅂ", "ㅐ", "[UNK:위험하다]", "a")])
    'MiniLM knows 1 of these 4 tokens; the others are unknown words, single jamo or bytes, so their attention says \
little about this text: choose a model of its language.'
    """
    return note_on_tokens(model, *known_tokens(tokens))


def known_tokens(tokens: Sequence[Token]) -> tuple[int, int]:
    """Return how many tokens the model knows, and how many tokens there are; special tokens are not counted.

    A model does not know the tokens that `FRAGMENT` matches: unknown characters and parts of characters.
    """
    texts = [token.text for token in tokens if not token.special]
    return sum(FRAGMENT.fullmatch(text) is None for text in texts), len(texts)


def note_on_tokens(model: str, n_known: int, n_tokens: int) -> str:
    """Return a warning if a model knows less than half of a text's tokens (`n_known` of `n_tokens`); else ""."""
    if 2 * n_known >= n_tokens:
        return ""
    return (
        f"{model} knows {n_known:,} of these {counted(n_tokens, 'token')}; the others are unknown words, single jamo "
        "or bytes, so their attention says little about this text: choose a model of its language."
    )
