"""Evaluation on the dev set during training: the loss of all dev pairs, and BLEU of a few, translated greedily."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError, import_extra
from regard.evaluation.evaluate import bleu_tokenizer
from regard.text.batches import Batches
from regard.text.keyed_random import seed_of
from regard.text.placeholders import with_items
from regard.text.vocabulary import EOS, Vocabulary
from regard.training.loss import loss_of
from regard.training.store.snapshots import RESUME_EARLIER, mean_parameters
from regard.training.training_state import DevResult, TrainingState
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import SourceBatch
from regard.translation.training_texts import TrainingTexts
from regard.translation.translator_folder import write_translator

SENTENCES_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DevPairs:
    """The dev set: sentence pairs on which the model is evaluated and not trained.

    Attributes:
        batches: the batches of all dev pairs, for the loss.
        sources: the token ids, without EOS, of the source sentences that are translated for BLEU.
        signs: for each of the `sources`, {name, number or address: the sign, such as ⟐, that stands for it in the
            source}; None = no signs are used.
        source_texts, target_texts: the texts of the `sources` and their reference translations, in the same order.
    """

    batches: Batches
    sources: Sequence[Sequence[int]]
    signs: Sequence[Mapping[str, str] | None]
    source_texts: Sequence[str]
    target_texts: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class DevEvaluation:
    """The result of an evaluation, with one of its translations as an example.

    Attributes:
        result: the dev loss without label smoothing, and BLEU.
        training_loss_nats: the dev loss with label smoothing, as in the training loss, in nats per target token.
        sample: the texts "source", "translation" and "reference" of one sentence.
    """

    result: DevResult
    training_loss_nats: float
    sample: Mapping[str, str]

    def entry(self, state: TrainingState) -> dict[str, Any]:
        """Return this evaluation as an entry of the log; `state` is the state of the training after the evaluation."""
        result, best = self.result, state.best
        return {
            "step": result.step,
            "epoch": state.position.epoch,
            "dev_loss_nats": result.loss_nats,
            "dev_training_loss_nats": self.training_loss_nats,
            "dev_perplexity": math.exp(min(result.loss_nats, 700)),
            "dev_bleu": result.bleu,
            "bleu_tokenizer": result.tokenizer,
            "averaged": result.averaged,
            "is_best": best == result,
            "best_step": result.step if best is None else best.step,
            "sample": dict(self.sample),
        }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evaluator:
    """Evaluates parameters on the dev set.

    Attributes:
        model: a second model, so that the model in training does not change; after `evaluate` it has the parameters
            that were evaluated.
        training_texts: the lengths and writing systems of the training pairs, which are stored in the translator.
        smoothing: the ε of label smoothing in the training loss.
    """

    model: Any
    pairs: DevPairs
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    training_texts: TrainingTexts
    smoothing: float

    def evaluate(self, folder: Path, names: Sequence[str], step: int) -> DevEvaluation:
        """Evaluate the newest snapshot of the parameters or the mean of all snapshots, whichever has a lower dev loss.

        Early in training, parameters change fast and their mean is worse than the newest snapshot; later the mean is
        better. Computing both losses takes little time compared with translating.

        Args:
            names: the names of the snapshot files in `folder`, newest last.
            step: the training step of the newest snapshot.
        """
        newest = names[-1:]
        self.load_mean(folder, newest)
        chosen, loss = newest, self.loaded_loss()
        if len(names) > 1:
            self.load_mean(folder, names)
            loss_of_mean = self.loaded_loss()
            if loss_of_mean < loss:
                chosen, loss = names, loss_of_mean
            else:
                self.load_mean(folder, newest)
        training_loss, translations = self.loaded_loss(self.smoothing), self.translations()
        example = seed_of(step) % len(translations)  # another one at each step, the same in every run
        return DevEvaluation(
            result=DevResult(
                step=step, loss_nats=loss, bleu=self.bleu(translations), averaged=len(chosen), tokenizer=self.tokenizer
            ),
            training_loss_nats=training_loss,
            sample={
                "source": self.pairs.source_texts[example],
                "translation": translations[example],
                "reference": self.pairs.target_texts[example],
            },
        )

    def load_mean(self, folder: Path, names: Sequence[str]) -> None:
        with torch.no_grad():
            tensors = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
            for name, mean in mean_parameters(folder, names).items():
                if name not in tensors or tensors[name].shape != mean.shape or not mean.is_floating_point():
                    raise InputError(f"{folder / names[-1]} has no parameters of this model ({name}); {RESUME_EARLIER}")
                tensors[name].copy_(mean)

    def loaded_loss(self, smoothing: float = 0.0) -> float:
        """Return the dev loss of the parameters that the model has: the cross-entropy in nats per target token."""
        self.model.eval()
        total, n_tokens = torch.zeros((), dtype=torch.float64), 0
        with torch.inference_mode():
            for batch in self.pairs.batches.epoch(0):  # every epoch has the same pairs
                source, lengths, target, expected = (
                    tensor.to(self.device) for tensor in (batch.source, batch.lengths, batch.target, batch.expected)
                )
                total += loss_of(self.model, source, lengths, target, expected, smoothing).cpu().double()
                n_tokens += batch.n_tokens
        return float(total) / n_tokens

    def translations(self) -> list[str]:
        """Translate the sources greedily, in batches of similar lengths; return the translations in their order."""
        sources, translations = self.pairs.sources, dict[int, str]()
        shortest_first = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        for start in range(0, len(sources), SENTENCES_AT_ONCE):
            indices = shortest_first[start : start + SENTENCES_AT_ONCE]
            batch = SourceBatch.of(self.model, [[*sources[index], EOS] for index in indices], device=self.device)
            for index, hypotheses in zip(indices, Greedy().run(self.model, batch), strict=True):
                (hypothesis,) = hypotheses  # greedy search returns one per source
                text = self.target_vocabulary.decode(list(hypothesis.tokens))
                translations[index] = with_items(text, self.pairs.signs[index])
        return [translations[index] for index in range(len(sources))]

    def bleu(self, translations: Sequence[str]) -> float:
        sacrebleu, references = import_extra("sacrebleu", "translation"), list(self.pairs.target_texts)
        # force=True: no warning that the text is tokenized, which would appear at every evaluation
        bleu = sacrebleu.corpus_bleu(list(translations), [references], force=True, tokenize=self.tokenizer)
        return float(bleu.score)

    def write_translator(self, folder: Path, result: DevResult) -> None:
        extra = {"dev": asdict(result), "training_texts": asdict(self.training_texts)}
        write_translator(folder, self.model, self.source_vocabulary, self.target_vocabulary, extra)

    @property
    def tokenizer(self) -> str:
        return bleu_tokenizer(self.pairs.target_texts)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device
