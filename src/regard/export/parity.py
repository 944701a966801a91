"""The check of an export: whether it translates as the translator does.

Each line is translated by both, the likeliest piece again and again, and both say how probable our translation is:

    difference = | log P_ours(y | x) - log P_theirs(y | x) | / |y|          in nats a token, EOS with them

Both compute in float32 but add up in other orders, so that two pieces that are equally likely may come out either way.
A line that differs is therefore the same as long as our model finds the first piece that differs as likely as its own.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from regard.errors import InputError
from regard.text.cleaning import tidied
from regard.text.vocabulary import BOS, EOS, UNK, Vocabulary
from regard.translation.model_protocol import TranslatingModel
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import Hypothesis, SourceBatch
from regard.translation.translator_folder import TranslatorContents

TOLERANCE = 1e-3
"""Nats that two float32 computations of one token's log-probability may differ by."""

N_LINES = 20
LONGEST = 12


@runtime_checkable
class Exported(Protocol):
    """An exported translator, loaded with the program that it is for."""

    def translate(self, text: str, limit: int) -> tuple[list[int], str]:
        """Return the ids of a greedy translation of at most `limit` pieces, and its text."""

    def log_probability(self, text: str, tokens: list[int]) -> float:
        """Return the log-probability of some pieces and EOS, in nats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parity:
    """How far an exported translator is from the one it was made of.

    Attributes:
        n_lines: lines that both translated.
        n_same: those with the same translation to the letter.
        difference: the largest of any line, in nats a token.
        gap: by how much our own piece is likelier, in nats, where translations begin to differ; the largest of any.
        worst: the line with the largest gap, or else difference.
    """

    n_lines: int
    n_same: int
    difference: float
    gap: float
    worst: str

    @property
    def holds(self) -> bool:
        """Whether the two differ by no more than rounding."""
        return max(self.difference, self.gap) <= TOLERANCE

    def __str__(self) -> str:
        ties = f" (the others are ties: {self.gap:.1e} nats apart)" if self.holds and self.n_same < self.n_lines else ""
        return (
            f"same translation of {self.n_same} of {self.n_lines} lines{ties}; "
            f"log-probabilities at most {self.difference:.1e} nats a token apart"
        )


def compare(contents: TranslatorContents, exported: Exported, lines: Sequence[str]) -> Parity:
    """Translate lines with both, tidied as our vocabulary tidies them.

    Raises:
        InputError: no line has a word, or one is longer than the model takes.
    """
    lines = [line for line in map(tidied, lines) if contents.source_vocabulary.encode(line)]
    if not lines:
        raise InputError("there is no line to check the export by; give some with --lines.")
    compared = [one_line(contents, exported, line) for line in lines]
    worst = max(range(len(lines)), key=lambda i: (compared[i][2], compared[i][1]))
    return Parity(
        n_lines=len(lines),
        n_same=sum(same for same, _, _ in compared),
        difference=max(difference for _, difference, _ in compared),
        gap=max(gap for _, _, gap in compared),
        worst=lines[worst],
    )


def one_line(contents: TranslatorContents, exported: Exported, line: str) -> tuple[bool, float, float]:
    """Return whether the translations of a line are the same, the difference, and the gap."""
    ids = [*contents.source_vocabulary.encode(line), EOS]
    if len(ids) > contents.model.config.max_tokens:
        raise InputError(
            f"a line to check by has {len(ids):,} pieces and the model reads at most "
            f"{contents.model.config.max_tokens:,}: {line[:60]!r}; leave it out."
        )
    sources = SourceBatch.of(contents.model, [ids])
    own = Greedy().run(contents.model, sources)[0][0]
    tokens, text = exported.translate(line, sources.limits[0])
    own_tokens = list(own.tokens)
    # A text with an unknown piece is written in several ways.
    same_text = UNK in own_tokens or text == contents.target_vocabulary.decode(own_tokens)
    same = tokens == own_tokens and same_text
    difference = abs(own.log_probability - exported.log_probability(line, own_tokens)) / (len(own_tokens) + 1)
    gap = 0.0 if same else between(contents.model, sources, own, tokens)
    return same, difference, gap


@torch.inference_mode()
def between(model: TranslatingModel, sources: SourceBatch, own: Hypothesis, tokens: Sequence[int]) -> float:
    """Return the logit of our own piece minus that of the other, where the translations begin to differ.

    Infinite if only the texts differ: then the same pieces were joined to another text.
    """
    ours, theirs = [*own.tokens, EOS], [*tokens, EOS]
    place = next((i for i, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), None)
    if place is None:
        return float("inf")
    target = torch.tensor([[BOS, *ours[:place]]])
    logits = model(sources.source, sources.lengths, target).logits[0, -1].double()
    return float(logits[ours[place]] - logits[theirs[place]])


def made_up(vocabulary: Vocabulary, n_lines: int = N_LINES, seed: int = 0) -> list[str]:
    """Return lines of random pieces of a vocabulary, which are harder to agree on than sentences."""
    drawn = random.Random(seed)
    ids = [range(EOS + 1, len(vocabulary))] * n_lines
    return [vocabulary.decode(drawn.choices(some, k=1 + i % LONGEST)) for i, some in enumerate(ids)]
