"""Make vocabularies of regard from SentencePiece models of other programs.

A text is divided into the same pieces as by the SentencePiece model. Only the ids differ, because the special pieces
have the ids 0 to 3 in a vocabulary of regard.
"""

from collections.abc import Sequence
from pathlib import Path

from regard.errors import InputError, first_paragraph, reason
from regard.text.cleaning import SPACE
from regard.text.piece_table import (
    BPE,
    CONTROL,
    SPECIAL,
    UNUSED,
    USER_DEFINED,
    Piece,
    algorithm_of,
    pieces_of,
    with_pieces,
)
from regard.text.vocabulary import EOS, FEWEST_PIECES, Vocabulary

MOST_PIECES = 2**20


def read_model(path: Path) -> Vocabulary:
    try:
        vocabulary = Vocabulary(path.read_bytes())
        pieces_of(vocabulary.model)  # raises ValueError if a piece is damaged
        len(vocabulary)  # loads the model
    except OSError as error:
        raise InputError(f"cannot read the vocabulary {path}: {reason(error)}.") from error
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"{path} is not a SentencePiece model, or is damaged; copy it again, or name another file."
        ) from error
    return vocabulary


def vocabulary_from_model(path: Path) -> Vocabulary:
    """Return a vocabulary of regard, made from a SentencePiece model that the user has trained.

    In the model, the special pieces may have any ids, and some of them may be missing.
    """
    given = read_model(path)
    processor = given.processor
    ids = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
    pieces = pieces_of(given.model)
    if not FEWEST_PIECES <= len(pieces) <= MOST_PIECES:
        raise InputError(
            f"{path} has {len(pieces):,} pieces; a vocabulary has at least {FEWEST_PIECES} and at most "
            f"{MOST_PIECES:,}: train another model with spm_train --vocab_size."
        )
    if ids == tuple(range(EOS + 1)) and pieces[: EOS + 1] == list(SPECIAL):
        return given
    names = {special.text for special in SPECIAL}
    ordinary = [piece for number, piece in enumerate(pieces) if number not in ids]
    for piece in ordinary:
        if piece.text in names:
            raise InputError(
                f"{path} has {piece.text} as an ordinary piece; it must be a special piece or absent: train the model "
                "without it."
            )
    return Vocabulary(with_pieces(given.model, [*SPECIAL, *ordinary]))


def vocabulary_from_table(path: Path, table: Sequence[str]) -> Vocabulary:
    """Return a vocabulary with the pieces of a SentencePiece model, and the ids of a table of pieces, as in Marian.

    Marian has a SentencePiece model for each language, and one table of ids for the pieces of both languages. A text is
    divided into pieces of its own language. Exception: letters that the model does not know get the id of a piece of
    the other language, if this piece has exactly these letters. A language code such as >>fra<< is one piece.

    Departure: in Marian, a piece that is not in the table becomes the unknown piece. Here SentencePiece divides the
    text into pieces that are in the table; only a letter without a piece becomes the unknown piece. A BPE model without
    some pieces of the table raises InputError, because it would divide texts into other pieces than Marian.

    Args:
        table: the pieces in the order of their ids, from id 4 on; "" = there is no piece with this id.
    """
    given = read_model(path)
    piece_of_text = {piece.text: piece for piece in pieces_of(given.model)}
    names = {special.text for special in SPECIAL}
    pieces = list(SPECIAL)
    for number, text in enumerate(table, len(SPECIAL)):
        if not text or text in names:
            pieces.append(Piece(f"<{number}>", 0.0, CONTROL))
        elif text in piece_of_text:
            pieces.append(piece_of_text[text])
        elif text.startswith(">>") and text.endswith("<<"):
            pieces.append(Piece(SPACE + text, 0.0, USER_DEFINED))  # SentencePiece puts ▁ before every word of a text
        else:  # SentencePiece never returns an unused piece; `Vocabulary.encode` returns it for unknown letters
            pieces.append(Piece(text, 0.0, UNUSED))
    n_foreign = sum(piece.kind == UNUSED and piece.text not in piece_of_text for piece in pieces)
    if n_foreign and algorithm_of(given.model) == BPE:  # BPE merges symbols into unused pieces, too
        raise InputError(
            f"{path} is a BPE model, and the table of ids has {n_foreign:,} pieces that it lacks; SentencePiece would "
            "merge them, so the texts would have other pieces than in Marian."
        )
    try:
        vocabulary = Vocabulary(with_pieces(given.model, pieces))
        len(vocabulary)  # loads the model
    except RuntimeError as error:
        raise InputError(f"{path} does not fit its table of ids: {first_paragraph(error)}.") from error
    return vocabulary
