"""Pieces of a vocabulary as text: the characters that a piece stands for, and the word that it belongs to."""

import re
from collections.abc import Collection, Sequence

from regard.text.cleaning import clean_text
from regard.text.vocabulary import UNK
from regard.tracing.tokens.readable_tokens import Token

UNKNOWN = "⁇"
"""The text of an unknown piece in a translation, as in SentencePiece."""

BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A piece such as <0xEB>, which stands for one byte of a character without a piece."""


def word_of_each_piece(pieces: Sequence[str]) -> tuple[int, ...]:
    """Return, for each piece of a text, the index of the word that it belongs to, counted from 0.

    A piece of white space alone belongs to the next word, or to the last word if no word follows. A piece with the end
    of one word and the beginning of the next belongs to the first of the two.

    >>> word_of_each_piece(["▁Ein", "▁H", "und", "▁", "<0xEB>", "<0xB1>", "<0x80>"])
    (0, 1, 1, 2, 2, 2, 2)
    """
    piece_bytes = [bytes_of_piece(piece) for piece in pieces]
    piece_of_byte = [index for index, content in enumerate(piece_bytes) for _ in content]
    word_of_piece = dict[int, int]()
    n_words = byte_index = 0
    in_word = False
    # Go over the letters and their bytes, since the bytes of a letter may lie in several pieces. The first word in a
    # piece is its word. With surrogateescape, an invalid byte becomes one letter, and the letter the same byte again.
    for letter in b"".join(piece_bytes).decode(errors="surrogateescape"):
        if not in_word and not letter.isspace():
            n_words += 1
        in_word = not letter.isspace()
        for _ in letter.encode(errors="surrogateescape"):
            if in_word:
                word_of_piece.setdefault(piece_of_byte[byte_index], n_words - 1)
            byte_index += 1
    # from the last piece backwards: a piece without a word gets the word of the next piece
    next_word = max(n_words - 1, 0)
    for piece in reversed(range(len(pieces))):
        next_word = word_of_piece.setdefault(piece, next_word)
    return tuple(word_of_piece[piece] for piece in range(len(pieces)))


def words_and_pieces(
    text: str, pieces: Sequence[str], is_complete: bool = True
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the words of a text, divided at white space, and for each piece the index of its word.

    A word of control characters alone has no pieces. A word with "▁" in it has the pieces of several words, because the
    vocabulary reads "▁" as a space. Apart from these two cases, pieces and text must have equally many words: if the
    pieces have more, or fewer although they are complete, the words are taken from the pieces, not from the text.

    Args:
        is_complete: False = the pieces are only the beginning of the text, so that they may have fewer words.

    >>> words_and_pieces("Ein  Hund\t.", ["▁Ein", "▁Hund", "▁."])
    (('Ein', 'Hund', '.'), (0, 1, 2))
    >>> words_and_pieces("Ein \\x01 Hund▁.", ["▁Ein", "▁Hund", "▁."])
    (('Ein', '\\x01', 'Hund▁.'), (0, 2, 2))
    """
    words, word_of = text.split(), word_of_each_piece(pieces)
    # A word of the text, when it is cleaned, may become 0, 1 or more words, of which the pieces are made. For each of
    # these, the index of the word in the text: [0, 2, 2] in the second example.
    text_word_of_piece_word = [index for index, word in enumerate(words) for _ in clean_text(word).split()]
    n_words = max(word_of, default=-1) + 1
    if n_words > len(text_word_of_piece_word) or (is_complete and n_words < len(text_word_of_piece_word)):
        return tuple(text_of_pieces(pieces).split()), word_of
    return tuple(words), tuple(text_word_of_piece_word[word] for word in word_of)


def text_of_pieces(pieces: Sequence[str]) -> str:
    """Return the text that pieces stand for; bytes that are not UTF-8 become "�"."""
    return b"".join(map(bytes_of_piece, pieces)).decode(errors="replace").strip()


def characters_without_piece(pieces: Sequence[str]) -> list[str]:
    """Return the different characters that have no piece of their own, and are divided into bytes.

    >>> characters_without_piece(["▁Ein", "▁", "<0xEB>", "<0xB1>", "<0x80>"])
    ['뱀']
    """
    content = b"".join(bytes_of_piece(piece) if BYTE.fullmatch(piece) else b" " for piece in pieces)
    return list(dict.fromkeys("".join(content.decode(errors="replace").split())))


def bytes_of_piece(piece: str) -> bytes:
    """Return the text of a SentencePiece piece as bytes of UTF-8: "▁" becomes a space, "<0xEB>" a single byte."""
    if BYTE.fullmatch(piece):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("▁", " ").encode()


def trace_tokens(pieces: Sequence[str], ids: Sequence[int], special: Collection[int]) -> tuple[Token, ...]:
    """Convert subword pieces to `Token`s, which name the rows and columns of attention weights in a trace.

    Args:
        special: the ids of tokens that stand for no text, such as EOS.

    >>> [token.text for token in trace_tokens(["▁snake", "s", "▁", "ẞ", "</s>"], [7, 8, 9, 1, 3], {3})]
    ['snake', 's', '␣', '[UNK:ẞ]', '</s>']
    """
    tokens = []
    for piece, token_id in zip(pieces, ids, strict=True):
        if token_id in special:
            tokens.append(Token(text=piece, piece=piece, special=True))
            continue
        byte = BYTE.fullmatch(piece)
        text = f"‹{byte[1]}›" if byte else piece.replace("▁", " ").strip() or "␣"
        # joined: the token continues the word of the token before it
        joined = bool(tokens) and not tokens[-1].special and not piece.startswith("▁")
        tokens.append(Token(text=f"[UNK:{text}]" if token_id == UNK else text, piece=piece, joined=joined))
    return tuple(tokens)
