"""Check that the page cuts texts into pieces by a vocabulary as SentencePiece does."""

from regard.errors import InputError
from regard.text.piece_table import fields

NORMALISER, DENORMALISER, TRAINING = 3, 5, 2
"""The numbers of the protobuf fields of a SentencePiece model, as in sentencepiece_model.proto."""

ALGORITHM, SUFFIX, LETTERS, ESCAPES = 3, 24, 2, 5
"""Fields of the training's settings: the algorithm, and whether ▁ follows a word. Fields of a normaliser: the letters
that it replaces, and whether it writes a space as ▁."""

UNIGRAM, BPE = 1, 2
"""The algorithms that the page has, as `ALGORITHM` names them."""


def check_vocabulary(name: str, model: bytes) -> None:
    """Raise InputError if a SentencePiece model has a setting that the page does not have.

    Args:
        name: the name of the vocabulary's file, for the message.
    """
    reason = unsupported_setting(model)
    if reason:
        raise InputError(
            f"{name} {reason}; a site cuts texts into pieces by SentencePiece's unigram and BPE models, with ▁ before "
            "a word. regard explore --translator shows this translator."
        )


def unsupported_setting(model: bytes) -> str:
    """Return what the page cannot do in a SentencePiece model; an empty text if it can do everything."""
    training, normaliser, denormaliser = (settings(model, field) for field in (TRAINING, NORMALISER, DENORMALISER))
    if training.get(ALGORITHM, UNIGRAM) not in (UNIGRAM, BPE):
        return "is a model of whole words or of letters"
    if training.get(SUFFIX, 0):
        return "writes ▁ after a word"
    if not normaliser.get(ESCAPES, 1):
        return "does not write a space as ▁"
    if denormaliser.get(LETTERS):
        return "replaces letters in what it has written"
    return ""


def settings(model: bytes, field: int) -> dict[int, int | bytes]:
    """Return the settings in one field of a SentencePiece model; a message that is written twice is merged."""
    messages = [value for number, value, _ in fields(model) if number == field and isinstance(value, bytes)]
    return {number: value for message in messages for number, value, _ in fields(message)}
