"""The pieces that texts are cut into: whole words, where they are frequent, and parts of words where they are not.

A vocabulary is one SentencePiece model, trained on the texts themselves: no tokeniser of a language is needed, and
texts without spaces are cut like any other.

The pieces are those of byte-pair encoding: beginning with letters, the two that follow each other most often are
joined, again and again. Of few pieces it makes the parts that words are built of (six, ty, hundred), where the
unigram model keeps some long words whole and spells the others; and it is made many times as fast.

Source: Kudo & Richardson 2018, "SentencePiece"; byte-pair encoding: Sennrich, Haddow & Birch 2016, section 3.2.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.atomic_files import write_whole
from regard.errors import InputError, needs, reason
from regard.text.cleaning import refuse_halves, tidied

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The ids of padding, of what is unknown, and of the begin and the end of a text."""

LINES = 2_000_000
"""Lines that a vocabulary is trained on at most, drawn from all those that come; more change little."""

FEWEST = 16
"""Pieces that a vocabulary has at least: the special ones, ▁ and a few letters."""

WORTH_THREADS = 64
"""Texts from which on threads save more time than it takes to start them."""


class Vocabulary:
    """One SentencePiece model, which turns texts into ids and back.

    >>> vocabulary = Vocabulary.train(["the cat sat", "the mat"] * 9, n_tokens=20)
    >>> vocabulary.decode(vocabulary.encode("the cat"))
    'the cat'
    >>> vocabulary.unknown("the dog")
    ['d', 'o', 'g']
    """

    def __init__(self, model: bytes) -> None:
        self.model = model

    @cached_property
    def processor(self) -> Any:
        """SentencePiece's own object."""
        return needs("sentencepiece", "translation").SentencePieceProcessor(model_proto=self.model)

    @classmethod
    def train(cls, lines: Iterable[str], n_tokens: int, *, coverage: float = 1.0) -> "Vocabulary":
        """A vocabulary of about so many pieces, from the lines of a text.

        It has fewer where the text has not that many, and more where its letters alone are more.

        Args:
            n_tokens: `vocabulary_size` says how many suit a text.
            coverage: the share of the text's letters that must be known; the rarest of the others are not.

        Raises:
            InputError: a text of nothing, or one that SentencePiece cannot use.
        """
        chosen = drawn_lines(filter(None, map(tidied, lines)), LINES)
        if not chosen:
            raise InputError("there is no text to make a vocabulary of: every line is empty.")
        try:
            return cls(trained(chosen, max(n_tokens, FEWEST), coverage))
        except RuntimeError as error:
            needed = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
            if needed is None:
                raise InputError(
                    f"SentencePiece makes no vocabulary of these {len(chosen):,} lines: {error}."
                ) from error
            return cls(trained(chosen, int(needed[1]) + FEWEST, coverage))

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """The vocabulary of a file.

        Raises:
            InputError: there is none, or it is something else.
        """
        try:
            vocabulary = cls(Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"cannot read the vocabulary {path}: {reason(error)}.") from error
        try:
            special = [vocabulary.processor.IdToPiece(token) for token in (PAD, UNK, BOS, EOS)]
        except (RuntimeError, IndexError) as error:
            raise InputError(f"{path} is not a SentencePiece model, or is damaged.") from error
        if special != ["<pad>", "<unk>", "<s>", "</s>"]:
            raise InputError(
                f"{path} is a SentencePiece model whose first pieces are {', '.join(special)}; a vocabulary of regard "
                "begins with <pad>, <unk>, <s>, </s>."
            )
        return vocabulary

    def save(self, path: str | Path) -> None:
        """Write it to a file, whole."""
        write_whole(Path(path), self.model)

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces, without BOS and EOS; the text is tidied first, as it was for training."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores where they are worth waking.

        Raises:
            InputError: a text that is none, with half of a surrogate pair.
        """
        tidy = list(map(ready, texts))
        if len(tidy) < WORTH_THREADS:
            return [self.processor.Encode(text) for text in tidy]
        return self.processor.Encode(tidy, num_threads=-1)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return self.processor.Decode([int(token) for token in ids])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id's piece as it is written in the vocabulary, a leading ▁ where a word begins."""
        return [self.processor.IdToPiece(int(token)) for token in ids]

    def scores(self) -> NDArray[np.float64]:
        """Each piece's score: of two that can be made of the same letters, the one with the higher is made first."""
        return np.array([self.processor.GetScore(one) for one in range(len(self))])

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that the vocabulary cannot write, each once, in the text's order."""
        surfaces = self.surfaces(text)
        letters = "".join(piece for token, piece in zip(self.encode(text), surfaces, strict=True) if token == UNK)
        return list(dict.fromkeys(letters))

    def surfaces(self, text: str) -> list[str]:
        """What each piece of `encode(text)` stands for, letters that are not known too."""
        return self.processor.Encode(ready(text), out_type=str)

    def __len__(self) -> int:
        return self.processor.GetPieceSize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.model == other.model

    def __hash__(self) -> int:
        return hash(self.model)

    def __repr__(self) -> str:
        return f"Vocabulary(n_tokens={len(self)})"


def ready(text: str) -> str:
    """A text as SentencePiece is given it.

    Raises:
        InputError: it has half of a surrogate pair.
    """
    refuse_halves(text)
    return tidied(text)


def drawn_lines(lines: Iterable[str], n: int) -> list[str]:
    """At most so many lines, drawn from all, each as likely as any other; the same ones every time.

    Source: Vitter 1985, algorithm R.
    """
    kept: list[str] = []
    draw = Random(0).random
    for number, line in enumerate(lines):
        if number < n:
            kept.append(line)
        elif (place := int(draw() * (number + 1))) < n:
            kept[place] = line
    return kept


def trained(lines: list[str], n_tokens: int, coverage: float) -> bytes:
    """SentencePiece's model of some lines, which must be at least one that is not empty.

    SentencePiece passes over lines with "▅" and over what looks like a special piece, so that the letters that are only
    there must be asked for where all are to be known; "▅" itself never is.
    """
    letters = sorted(set().union(*lines) - {" ", "▅"}) if coverage == 1 else []
    model = BytesIO()
    needs("sentencepiece", "translation").SentencePieceTrainer.Train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=n_tokens,
        hard_vocab_limit=False,
        character_coverage=coverage,
        required_chars="".join(letters),
        normalization_rule_name="identity",
        max_sentence_length=2**20,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=3,
    )
    return model.getvalue()
