"""Read the pieces of a SentencePiece model, and write the model with other pieces.

A SentencePiece model is a protobuf message. Its field 1 is repeated, once for each piece: the piece's text, score and
kind. The id of a piece is its position among the pieces. Field 2 has the settings of the training.

Departure: the message is read here and not by SentencePiece's own protobuf module. transformers has a copy of that
module, and a process can load only one of the two.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""The kinds of pieces in a SentencePiece model, by number.

SentencePiece never divides a text into control pieces or unused pieces. Decoding the id of a control piece, such as
</s>, gives no text; decoding the id of an unused piece gives the text of the piece.
"""

UNIGRAM, BPE = 1, 2
"""The numbers of the algorithms in a SentencePiece model: unigram, the default, and byte-pair encoding."""

PIECE, TRAINING = 1, 2
"""The numbers of two protobuf fields of a SentencePiece model: a piece, and the settings of its training."""

TEXT, SCORE, KIND = 1, 2, 3
"""The numbers of the protobuf fields of a piece."""

ALGORITHM, UNKNOWN_PIECE, BOS_PIECE, EOS_PIECE, PAD_PIECE = 3, 45, 46, 47, 48
"""The numbers of protobuf fields in the settings of the training: the algorithm, and the texts of special pieces."""

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
"""The numbers of protobuf's wire types, which say how the value of a field is written."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a vocabulary. Of several ways to divide a text, SentencePiece prefers pieces with higher scores."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


SPECIAL = (
    Piece("<pad>", 0.0, CONTROL),
    Piece("<unk>", 0.0, UNKNOWN),
    Piece("<s>", 0.0, CONTROL),
    Piece("</s>", 0.0, CONTROL),
)
"""The special pieces, which have the first ids in every vocabulary of regard."""


def pieces_of(model: bytes) -> list[Piece]:
    pieces = []
    for number, message, _ in protobuf_fields(model):
        if number == PIECE and isinstance(message, bytes):
            piece = {number: value for number, value, _ in protobuf_fields(message)}
            text, score, kind = piece.get(TEXT, b""), piece.get(SCORE, bytes(4)), piece.get(KIND, NORMAL)
            if not (isinstance(text, bytes) and isinstance(score, bytes) and len(score) == 4 and isinstance(kind, int)):
                raise ValueError("the text, score or kind of a piece is damaged")
            pieces.append(Piece(text.decode(), struct.unpack("<f", score)[0], kind))
    return pieces


def algorithm_of(model: bytes) -> int | bytes:
    return settings(model, TRAINING).get(ALGORITHM, UNIGRAM)


def settings(model: bytes, field: int) -> dict[int, int | bytes]:
    """Return {number: value} of the protobuf fields within one field of a SentencePiece model, such as `TRAINING`."""
    messages = [value for number, value, _ in protobuf_fields(model) if number == field and isinstance(value, bytes)]
    return {number: value for message in messages for number, value, _ in protobuf_fields(message)}


def with_pieces(model: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return a SentencePiece model with its pieces replaced by `pieces`, of which the first four are `SPECIAL`."""
    other_fields = b"".join(field for number, _, field in protobuf_fields(model) if number != PIECE)
    table = b"".join(
        bytes_field(
            PIECE,
            bytes_field(TEXT, piece.text.encode())
            + varint_bytes(SCORE << 3 | FOUR_BYTES)
            + struct.pack("<f", piece.score)
            + varint_bytes(KIND << 3 | VARINT)
            + varint_bytes(piece.kind),
        )
        for piece in pieces
    )
    special_pieces = zip((PAD_PIECE, UNKNOWN_PIECE, BOS_PIECE, EOS_PIECE), SPECIAL, strict=True)
    settings = b"".join(bytes_field(number, piece.text.encode()) for number, piece in special_pieces)
    return table + other_fields + bytes_field(TRAINING, settings)  # protobuf merges repeated settings: the last wins


def protobuf_fields(message: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """Yield for each field of a protobuf message: its number, its value, and the bytes that encode both."""
    end = 0
    while end < len(message):
        start = end
        tag, end = read_varint(message, start)
        number, wire_type = tag >> 3, tag & 7
        value: int | bytes
        if wire_type == VARINT:
            value, end = read_varint(message, end)
        elif wire_type in (EIGHT_BYTES, FOUR_BYTES, BYTES):
            size = 8 if wire_type == EIGHT_BYTES else 4
            if wire_type == BYTES:  # the value has its size before it
                size, end = read_varint(message, end)
            value, end = message[end : end + size], end + size
        else:
            raise ValueError(f"the field at byte {start} has the unknown type {wire_type}")
        if end > len(message):
            raise ValueError(f"the field at byte {start} ends after the message")
        yield number, value, message[start:end]


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Read the protobuf varint (an integer of variable length) at an index; return it and the index of the next byte.

    >>> read_varint(bytes([0b1010_1100, 0b10]), 0)
    (300, 2)
    """
    number, shift = 0, 0
    while True:
        if at >= len(message):
            raise ValueError("a number ends after the message")
        number |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return number, at


def varint_bytes(number: int) -> bytes:
    """Return the bytes of an integer as a protobuf varint: seven bits in each byte, the lowest bits first.

    >>> list(varint_bytes(300))
    [172, 2]
    """
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def bytes_field(number: int, value: bytes) -> bytes:
    return varint_bytes(number << 3 | BYTES) + varint_bytes(len(value)) + value
