"""Check that the page of a site can split texts into the same pieces as a SentencePiece model."""

from regard.errors import InputError
from regard.text.piece_table import BPE, TRAINING, UNIGRAM, algorithm_of, settings

NORMALISER, DENORMALISER = 3, 5
"""The numbers of two protobuf fields of a SentencePiece model, as in sentencepiece_model.proto."""

SUFFIX = 24
"""The number of the field of TRAINING that says whether ▁ stands after a word, not before it; by default it is 0."""

ESCAPES = 5
"""The number of the field of NORMALISER that says whether a space is written as ▁; by default it is 1."""

LETTERS = 2
"""The number of the field of DENORMALISER with the letters to replace."""


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
    if algorithm_of(model) not in (UNIGRAM, BPE):
        return "is a model of whole words or of letters"
    if settings(model, TRAINING).get(SUFFIX, 0):
        return "writes ▁ after a word"
    if not settings(model, NORMALISER).get(ESCAPES, 1):
        return "does not write a space as ▁"
    if settings(model, DENORMALISER).get(LETTERS):
        return "replaces letters when it joins pieces to a text"
    return ""
