"""The vocabulary: the pieces (subwords) into which texts are divided. A rare word is divided into several pieces.

A vocabulary is a SentencePiece model, trained on the texts themselves: it needs no tokeniser for any language, and
texts without spaces are divided like any other.

The pieces are made by byte-pair encoding (BPE), which begins with letters and repeatedly joins the two pieces that
follow each other most often. With few pieces, BPE finds the parts of words (six, ty, hundred), where SentencePiece's
unigram model keeps some long words whole and spells the others; BPE is also many times as fast.

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

from regard.atomic_files import write_atomically
from regard.errors import InputError, import_extra, reason
from regard.text.cleaning import SPACE, checked_clean_text, clean_text

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The ids of padding, of unknown characters, and of the beginning and the end of a text."""

MOST_LINES = 2_000_000
"""A vocabulary is trained on at most this many lines; if there are more, on a random sample."""

FEWEST_PIECES = 16
"""The smallest number of pieces that a vocabulary may have: the special pieces, ▁ and a few letters."""

MIN_TEXTS_FOR_THREADS = 64
"""With fewer texts, one thread encodes all of them, because starting several threads would take longer."""


class Vocabulary:
    """A SentencePiece model, which turns texts into ids and back.

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
        """SentencePiece's processor, loaded when it is first used."""
        return import_extra("sentencepiece", "translation").SentencePieceProcessor(model_proto=self.model)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        n_tokens: int,
        *,
        coverage: float = 1.0,
        tags: Sequence[str] = (),
        byte_fallback: bool = False,
    ) -> "Vocabulary":
        """Train a vocabulary of about `n_tokens` pieces on the lines of a text.

        The vocabulary has fewer pieces if the text is too short for `n_tokens` pieces, and more if the text has more
        than `n_tokens` different letters.

        Args:
            n_tokens: the number of pieces; `vocabulary_size` computes one that suits a text.
            coverage: the fraction of the characters in the text, counted with repetitions, that have a piece; with less
                than 1, the rarest characters have none.
            tags: words that are one piece each, however rare they are.
            byte_fallback: use 256 of the pieces for the 256 bytes. A character without its own piece is then divided
                into its bytes in UTF-8, and no character is unknown.

        Raises:
            InputError: the text is empty, or SentencePiece cannot train on it.
        """
        sampled = [line for line in map(clean_text, sample_lines(lines, MOST_LINES)) if line]
        if not sampled:
            raise InputError("there is no text to make a vocabulary of: every line is empty; give lines with words.")
        try:
            return cls(train_model(sampled, max(n_tokens, FEWEST_PIECES), coverage, tags, byte_fallback))
        except RuntimeError as error:
            # such as "Vocabulary size is smaller than required_chars. 16 vs 31": 31 is the smallest possible size
            required = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
            if required is None:
                raise InputError(
                    f"SentencePiece makes no vocabulary of these {len(sampled):,} lines: {error}."
                ) from error
            return cls(train_model(sampled, int(required[1]) + FEWEST_PIECES, coverage, tags, byte_fallback))

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Read a vocabulary from a file; raise InputError if it cannot be read, or is not a vocabulary of regard."""
        try:
            vocabulary = cls(Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"cannot read the vocabulary {path}: {reason(error)}.") from error
        try:
            pieces = vocabulary.processor.IdToPiece(list(range(len(vocabulary))))  # raises if one is not UTF-8
            special = [pieces[token] for token in (PAD, UNK, BOS, EOS)]
        except (RuntimeError, IndexError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not a SentencePiece model, or is damaged.") from error
        if special != ["<pad>", "<unk>", "<s>", "</s>"]:
            raise InputError(
                f"{path} is a SentencePiece model whose first pieces are {', '.join(special)}; a vocabulary of regard "
                "begins with <pad>, <unk>, <s>, </s>."
            )
        return vocabulary

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to a file, completely or not at all."""
        write_atomically(Path(path), self.model)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's pieces, without BOS and EOS; the text is cleaned first, as for training."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text's pieces, as `encode` does; many texts are encoded on all cores.

        Raises:
            InputError: a text has a lone surrogate, which UTF-8 cannot encode.
        """
        clean = list(map(checked_clean_text, texts))
        if len(clean) < MIN_TEXTS_FOR_THREADS:
            encoded = [self.processor.Encode(text) for text in clean]
        else:
            encoded = self.processor.Encode(clean, num_threads=-1)
        if not self.unused:
            return encoded
        return [self._with_unused(text, ids) if UNK in ids else ids for text, ids in zip(clean, encoded, strict=True)]

    @cached_property
    def unused(self) -> dict[str, int]:
        """A dict {text: id} of the pieces that are marked as unused. A vocabulary made from a Marian model has some.

        SentencePiece does not use these pieces: it returns UNK for letters that no other piece has. If these letters
        are exactly an unused piece, `encode` returns the id of the piece instead.
        """
        unused = filter(self.processor.IsUnused, range(len(self)))
        return {self.processor.IdToPiece(token): token for token in unused}

    def _with_unused(self, clean: str, ids: list[int]) -> list[int]:
        """Return the ids of a cleaned text; if the letters of an UNK are a piece in `unused`, return its id instead."""
        surfaces = self.processor.Encode(clean, out_type=str)  # the texts of the pieces; of an UNK, its letters
        return [
            self.unused.get(surface, UNK) if token == UNK else token
            for token, surface in zip(ids, surfaces, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a sequence of ids."""
        return self.processor.Decode([int(token) for token in ids])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id as it is in the vocabulary, with ▁ where a word begins."""
        return list(self.processor.IdToPiece([int(token) for token in ids]))

    def scores(self) -> NDArray[np.float64]:
        """Return the score of each piece, by id. BPE first joins the two pieces whose result has the highest score."""
        return np.array([self.processor.GetScore(token) for token in range(len(self))])

    def unknown(self, text: str) -> list[str]:
        """Return the different characters of a text that are in no piece of the vocabulary, in order of occurrence."""
        surfaces = self.surfaces(text)
        letters = "".join(piece for token, piece in zip(self.encode(text), surfaces, strict=True) if token == UNK)
        return list(dict.fromkeys(letters))

    def surfaces(self, text: str) -> list[str]:
        """Return the pieces of a text as strings; an unknown piece is shown as its characters, not as <unk>."""
        return self.processor.Encode(checked_clean_text(text), out_type=str)

    def __len__(self) -> int:
        return self.processor.GetPieceSize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.model == other.model

    def __hash__(self) -> int:
        return hash(self.model)

    def __repr__(self) -> str:
        return f"Vocabulary(n_tokens={len(self)})"


def sample_lines(lines: Iterable[str], n: int) -> list[str]:
    """Return a uniform random sample of n of the lines, always the same sample; all lines if there are at most n.

    Source: Vitter 1985, algorithm R.
    """
    sample: list[str] = []
    draw = Random(0).random
    for number, line in enumerate(lines):
        if number < n:
            sample.append(line)
        elif (index := int(draw() * (number + 1))) < n:
            sample[index] = line
    return sample


def train_model(lines: list[str], n_tokens: int, coverage: float, tags: Sequence[str], byte_fallback: bool) -> bytes:
    """Train a SentencePiece model on lines, with the options of `Vocabulary.train`.

    SentencePiece ignores lines with "▅", and text that looks like a special piece, such as "<s>". A letter that occurs
    only in ignored text would have no piece. So with a coverage of 1, `required_chars` lists every letter except "▅",
    which never has a piece of its own.
    """
    letters = sorted(set().union(*lines) - {" ", "▅"}) if coverage == 1 else []
    model = BytesIO()
    import_extra("sentencepiece", "translation").SentencePieceTrainer.Train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=n_tokens,
        hard_vocab_limit=False,
        character_coverage=coverage,
        required_chars="".join(letters),
        byte_fallback=byte_fallback,
        user_defined_symbols=[SPACE + tag for tag in tags],
        normalization_rule_name="identity",
        max_sentence_length=2**20,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=3,
    )
    return model.getvalue()
