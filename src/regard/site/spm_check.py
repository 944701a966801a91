"""Check that the page of a site can split texts into the same pieces as a SentencePiece model."""

from regard.errors import InputError
from regard.text.piece_table import protobuf_fields

NORMALISER, DENORMALISER, TRAINING = 3, 5, 2
"""The numbers of the protobuf fields of a SentencePiece model, as in sentencepiece_model.proto."""

ALGORITHM, SUFFIX, LETTERS, ESCAPES = 3, 24, 2, 5
"""The numbers of protobuf fields. ALGORITHM and SUFFIX (▁ stands after a word, not before it) are fields of TRAINING;
LETTERS (the letters to replace) is a field of DENORMALISER; ESCAPES (a space is written as ▁) is one of NORMALISER."""

UNIGRAM, BPE = 1, 2
"""The values of the field `ALGORITHM` for the kinds of SentencePiece models that a site supports."""


def check_vocabulary(name: str, model: bytes) -> None:
    """Raise InputError if a site cannot split texts by a SentencePiece model; `name` is the name of its file."""
    reason = unsupported_setting(model)
    if reason:
        raise InputError(
            f"{name} {reason}; a site splits texts into pieces by SentencePiece's unigram and BPE models, with ▁ "
            "before a word. regard explore --translator shows this translator."
        )


def unsupported_setting(model: bytes) -> str:
    """Return why a site cannot split texts by a SentencePiece model; an empty text if it can."""
    training, normaliser, denormaliser = (settings(model, field) for field in (TRAINING, NORMALISER, DENORMALISER))
    if training.get(ALGORITHM, UNIGRAM) not in (UNIGRAM, BPE):
        return "is a model of whole words or of letters"
    if training.get(SUFFIX, 0):
        return "writes ▁ after a word"
    if not normaliser.get(ESCAPES, 1):
        return "does not write a space as ▁"
    if denormaliser.get(LETTERS):
        return "replaces letters when it joins pieces to a text"
    return ""


def settings(model: bytes, field: int) -> dict[int, int | bytes]:
    """Return {number: value} of the protobuf fields within one field of a SentencePiece model, such as `TRAINING`."""
    messages = [value for number, value, _ in protobuf_fields(model) if number == field and isinstance(value, bytes)]
    return {number: value for message in messages for number, value, _ in protobuf_fields(message)}
