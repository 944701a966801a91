"""Checking that an exported translator gives the same translations as the original one.

The original and the export translate each line x greedily. Then both compute the log-probability of the original's
translation y:

    difference = | log P_original(y | x) - log P_export(y | x) | / |y|          in nats per token, EOS included

Rounding errors of float32 may decide between two pieces of nearly equal probability. Different translations are
therefore accepted if, at the first piece that differs, the original model gives both pieces nearly the same logit:

    gap = logit of the original's piece - logit of the export's piece
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from regard.errors import InputError
from regard.text.cleaning import clean_text
from regard.text.vocabulary import BOS, EOS, UNK, Vocabulary
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.translator import Translator

TOLERANCE = 1e-3
"""The largest difference between translator and export that counts as a rounding error, in nats.

It applies to log-probabilities per token, and to the difference of two logits.
"""

N_LINES = 20
"""The number of random lines with which an export is compared, if the user gives no lines."""

MOST_PIECES = 12


@runtime_checkable
class ExportedTranslator(Protocol):
    """An export, run by the library that it was made for, such as CTranslate2 or ONNX Runtime."""

    def translate(self, text: str, limit: int) -> tuple[list[int], str]:
        """Return a greedy translation of at most `limit` pieces: the ids of its pieces, without EOS, and its text."""

    def log_probability(self, text: str, tokens: list[int]) -> float:
        """Return log P(tokens, EOS | text), the log-probability of a translation of the text, in nats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parity:
    """The result of comparing an exported translator with the original one.

    Attributes:
        n_same: the number of lines with exactly the same translation.
        difference: the largest difference between the two log-probabilities of a translation, in nats per token.
        gap: at the first piece where two translations differ, the original's logit of its own piece minus its logit of
            the export's piece; the largest number of all lines, in nats.
        placeholders: whether the translator replaces names and numbers by signs while it translates. No export does, so
            both are compared without signs.
        worst: the source line with the largest gap; of several such lines, the one with the largest difference.
    """

    n_lines: int
    n_same: int
    difference: float
    gap: float
    worst: str
    placeholders: bool = False

    @property
    def holds(self) -> bool:
        """Whether export and original are the same up to rounding: `difference` and `gap` are at most `TOLERANCE`."""
        return max(self.difference, self.gap) <= TOLERANCE

    def __str__(self) -> str:
        ties = f" (the others are ties: {self.gap:.1e} nats apart)" if self.holds and self.n_same < self.n_lines else ""
        return (
            f"same translation of {self.n_same} of {self.n_lines} lines{ties}; "
            f"log-probabilities at most {self.difference:.1e} nats a token apart"
            + ("; the export puts no signs in place of names, numbers and addresses" if self.placeholders else "")
        )


def compare(translator: Translator, exported: ExportedTranslator, lines: Sequence[str]) -> Parity:
    """Compare the original's and the export's translations of lines; lines are cleaned, and empty lines left out."""
    lines = [line for line in map(clean_text, lines) if translator.source_vocabulary.encode(line)]
    if not lines:
        raise InputError("there is no line to check the export with; give some with --lines.")
    parities = [compare_line(translator, exported, line) for line in lines]
    return Parity(
        n_lines=len(lines),
        n_same=sum(parity.n_same for parity in parities),
        difference=max(parity.difference for parity in parities),
        gap=max(parity.gap for parity in parities),
        worst=max(parities, key=lambda parity: (parity.gap, parity.difference)).worst,
        placeholders=translator.placeholders is not None,
    )


def compare_line(translator: Translator, exported: ExportedTranslator, line: str) -> Parity:
    ids = [*translator.source_vocabulary.encode(line), EOS]
    if len(ids) > translator.model.config.max_tokens:
        raise InputError(
            f"a line to check with has {len(ids):,} pieces and the model reads at most "
            f"{translator.model.config.max_tokens:,}: {line[:60]!r}; leave it out."
        )
    sources = SourceBatch.of(translator.model, [ids])
    original = Greedy().run(translator.model, sources)[0][0]
    tokens, text = exported.translate(line, sources.limits[0])
    original_tokens = list(original.tokens)
    # The unknown piece has another text in each program: if there is one, only pieces are compared, not texts.
    same_text = UNK in original_tokens or text == translator.target_vocabulary.decode(original_tokens)
    same = tokens == original_tokens and same_text
    exported_log_probability = exported.log_probability(line, original_tokens)
    difference = abs(original.log_probability - exported_log_probability) / (len(original_tokens) + 1)
    gap = 0.0 if same else logit_gap(translator.model, sources, original, tokens)
    return Parity(n_lines=1, n_same=int(same), difference=difference, gap=gap, worst=line)


@torch.inference_mode()
def logit_gap(model: TranslatingModel, sources: SourceBatch, original: Hypothesis, tokens: Sequence[int]) -> float:
    """Return the difference of two logits of the original model, at the first piece where the translations differ.

    It is the logit of the original's piece, minus the logit of the export's piece. It is infinite if all pieces are the
    same, because then only the texts differ. `tokens` are the export's pieces.
    """
    pairs = list(zip([*original.tokens, EOS], [*tokens, EOS], strict=False))
    for position, (own_piece, exported_piece) in enumerate(pairs):
        if own_piece != exported_piece:
            target = torch.tensor([[BOS, *original.tokens[:position]]])
            logits = model(sources.source, sources.lengths, target).logits[0, -1].double()
            return float(logits[own_piece] - logits[exported_piece])
    return float("inf")


def random_lines(vocabulary: Vocabulary, n_lines: int = N_LINES) -> list[str]:
    """Return lines of 1 to `MOST_PIECES` random pieces of a vocabulary, to compare an export with its original.

    Random lines find more errors than sentences: the model is less certain, so that a small error of the export changes
    the translation.
    """
    generator = random.Random(0)
    ids = range(EOS + 1, len(vocabulary))
    return [vocabulary.decode(generator.choices(ids, k=1 + i % MOST_PIECES)) for i in range(n_lines)]
