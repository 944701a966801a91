"""Evaluation on the dev pairs: the loss over all of them, and BLEU of greedy translations of some of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.errors import import_extra
from regard.text.batches import Batches
from regard.text.keyed_random import seed_of
from regard.text.vocabulary import EOS, Vocabulary
from regard.training.loss import loss_of
from regard.training.store.snapshots import mean_parameters
from regard.training.training_state import DevResult, TrainingState
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import SourceBatch
from regard.translation.translator_folder import write_translator

AT_ONCE = 64
"""The number of sentences that are translated in one batch."""

WORDS_FOR_WORD_BLEU = 5
"""The mean number of words a line from which BLEU counts words. BLEU counts n-grams of up to four; for shorter lines,
as in scripts without spaces, it counts characters."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DevPairs:
    """The pairs that evaluations use."""

    batches: Batches
    """All dev pairs in batches, for the loss."""

    sources: Sequence[Sequence[int]]
    """The ids, without EOS, of the sources that are translated."""

    source_texts: Sequence[str]
    target_texts: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class DevEvaluation:
    """The result of an evaluation, with one translation to look at."""

    result: DevResult
    sample: Mapping[str, str]
    """A sentence, its translation and its reference."""

    def entry(self, state: TrainingState) -> dict[str, Any]:
        """Return the log's entry, given the state after the evaluation."""
        result, best = self.result, state.best
        return {
            "step": result.step,
            "epoch": state.position.epoch,
            "dev_loss_nats": result.loss_nats,
            "dev_perplexity": math.exp(min(result.loss_nats, 700)),
            "dev_bleu": result.bleu,
            "averaged": result.averaged,
            "is_best": best == result,
            "best_step": result.step if best is None else best.step,
            "sample": dict(self.sample),
        }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evaluator:
    """Evaluates parameters with a model of its own, so that the model in training does not change.

    The model keeps the parameters of the latest evaluation.
    """

    model: Any
    pairs: DevPairs
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def evaluate(self, folder: Path, names: Sequence[str], step: int) -> DevEvaluation:
        """Evaluate the latest snapshot or the mean of all named ones, whichever has the lower loss.

        While parameters still change fast, their mean is worse than the latest; later it is better. Computing both
        losses takes little time beside the translations.
        """
        candidates = [(names[-1:], self.loss(folder, names[-1:]))]
        if len(names) > 1:
            candidates.append((names, self.loss(folder, names)))
        chosen, loss = min(candidates, key=lambda candidate: candidate[1])
        if chosen is not candidates[-1][0]:
            self.load_mean(folder, chosen)
        translations = self.translations()
        shown = seed_of(step) % len(translations)  # differs between evaluations, and is the same in every run
        return DevEvaluation(
            result=DevResult(step=step, loss_nats=loss, bleu=self.bleu(translations), averaged=len(chosen)),
            sample={
                "source": self.pairs.source_texts[shown],
                "translation": translations[shown],
                "reference": self.pairs.target_texts[shown],
            },
        )

    def load_mean(self, folder: Path, names: Sequence[str]) -> None:
        """Load the mean of snapshots into the model."""
        with torch.no_grad():
            own = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
            for name, tensor in mean_parameters(folder, names).items():
                own[name].copy_(tensor)

    def loss(self, folder: Path, names: Sequence[str]) -> float:
        """Return the mean loss of a target token in nats, without smoothing, of the mean of snapshots."""
        self.load_mean(folder, names)
        self.model.eval()
        total, n_tokens = torch.zeros((), dtype=torch.float64), 0
        with torch.inference_mode():
            for batch in self.pairs.batches.epoch(0):
                source, lengths, target, expected = (
                    tensor.to(self.device) for tensor in (batch.source, batch.lengths, batch.target, batch.expected)
                )
                total += loss_of(self.model, source, lengths, target, expected).cpu().double()
                n_tokens += batch.n_tokens
        return float(total) / n_tokens

    def translations(self) -> list[str]:
        """Return greedy translations of the sources, made in batches of similar lengths."""
        sources, texts = self.pairs.sources, dict[int, str]()
        by_length = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        for start in range(0, len(by_length), AT_ONCE):
            numbers = by_length[start : start + AT_ONCE]
            batch = SourceBatch.of(self.model, [[*sources[n], EOS] for n in numbers], device=self.device)
            for number, hypotheses in zip(numbers, Greedy().run(self.model, batch), strict=True):
                texts[number] = self.target_vocabulary.decode(list(hypotheses[0].tokens))
        return [texts[number] for number in range(len(sources))]

    def bleu(self, translations: Sequence[str]) -> float:
        """Return corpus BLEU in percent."""
        references = list(self.pairs.target_texts)
        return float(
            import_extra("sacrebleu", "translation")
            .corpus_bleu(
                list(translations),
                [references],
                force=True,  # no warning at every evaluation about texts with spaces before their full stops
                tokenize=bleu_tokenizer(references),
            )
            .score
        )

    def write_translator(self, folder: Path, result: DevResult) -> None:
        """Write the model with the parameters of the latest evaluation as a translator."""
        write_translator(folder, self.model, self.source_vocabulary, self.target_vocabulary, {"dev": asdict(result)})

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device


def bleu_tokenizer(references: Sequence[str]) -> str:
    """Return sacreBLEU's name for counting words, or characters if the references have few words."""
    n_words = sum(len(line.split()) for line in references)
    return "13a" if n_words >= WORDS_FOR_WORD_BLEU * len(references) else "char"
