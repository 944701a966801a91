"""How good some parameters are: the loss on all dev pairs, and BLEU of greedy translations of some of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.errors import needs
from regard.text.batches import Batches
from regard.text.keyed_random import seed_of
from regard.text.vocabulary import EOS, Vocabulary
from regard.training.loss import loss_of
from regard.training.state import Judged, State
from regard.training.store.snapshots import mean_parameters
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import SourceBatch
from regard.translation.translator_folder import write_translator

AT_ONCE = 64
"""Sentences that are translated in one batch."""

WORDS_FOR_WORD_BLEU = 5
"""BLEU counts runs of up to four words; where lines have fewer words than this on average, as in scripts without
spaces, it is counted over characters."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DevPairs:
    """The pairs to judge by."""

    batches: Batches
    """All of them, as for training."""

    sources: Sequence[Sequence[int]]
    """The ids, without EOS, of those that are translated."""

    source_texts: Sequence[str]
    target_texts: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What an evaluation found."""

    judged: Judged
    sample: Mapping[str, str]
    """A sentence, its translation and its reference."""

    def entry(self, state: State) -> dict[str, Any]:
        """The line of the log, where the state is that after the evaluation."""
        found, best = self.judged, state.best
        return {
            "step": found.step,
            "epoch": state.position.epoch,
            "dev_loss_nats": found.loss_nats,
            "dev_perplexity": math.exp(min(found.loss_nats, 700)),
            "dev_bleu": found.bleu,
            "averaged": found.averaged,
            "is_best": best == found,
            "best_step": found.step if best is None else best.step,
            "sample": dict(self.sample),
        }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Judge:
    """Judges parameters with a model of its own, so that training's is left alone; it holds those last judged."""

    model: Any
    pairs: DevPairs
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def verdict(self, folder: Path, names: Sequence[str], step: int) -> Verdict:
        """What the last of some snapshots is worth or their mean, whichever has the lower loss; the model has it then.

        The mean of parameters from a time when they still moved fast is worse than the last of them; later it is
        better. Both losses are cheap beside the translations.
        """
        candidates = [(names[-1:], self.loss(folder, names[-1:]))]
        if len(names) > 1:
            candidates.append((names, self.loss(folder, names)))
        chosen, loss = min(candidates, key=lambda candidate: candidate[1])
        if chosen is not candidates[-1][0]:
            self.fill(folder, chosen)
        translations = self.translations()
        shown = seed_of(step) % len(translations)  # another at every evaluation, the same in every run
        return Verdict(
            judged=Judged(step=step, loss_nats=loss, bleu=self.bleu(translations), averaged=len(chosen)),
            sample={
                "source": self.pairs.source_texts[shown],
                "translation": translations[shown],
                "reference": self.pairs.target_texts[shown],
            },
        )

    def fill(self, folder: Path, names: Sequence[str]) -> None:
        """Give the model the mean of some snapshots."""
        with torch.no_grad():
            own = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
            for name, tensor in mean_parameters(folder, names).items():
                own[name].copy_(tensor)

    def loss(self, folder: Path, names: Sequence[str]) -> float:
        """The loss a target token in nats, without smoothing, of the mean of some snapshots."""
        self.fill(folder, names)
        self.model.eval()
        total, n_tokens = torch.zeros((), dtype=torch.float64), 0
        with torch.inference_mode():
            for batch in self.pairs.batches.epoch(0):
                source, lengths, target, expected = (
                    part.to(self.device) for part in (batch.source, batch.lengths, batch.target, batch.expected)
                )
                total += loss_of(self.model, source, lengths, target, expected).cpu().double()
                n_tokens += batch.n_tokens
        return float(total) / n_tokens

    def translations(self) -> list[str]:
        """Greedy translations of the dev pairs that are translated, sentences of like length together."""
        sources, found = self.pairs.sources, dict[int, str]()
        by_length = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        for start in range(0, len(by_length), AT_ONCE):
            numbers = by_length[start : start + AT_ONCE]
            batch = SourceBatch.of(self.model, [[*sources[n], EOS] for n in numbers], device=self.device)
            for number, hypotheses in zip(numbers, Greedy().run(self.model, batch), strict=True):
                found[number] = self.target_vocabulary.decode(list(hypotheses[0].tokens))
        return [found[number] for number in range(len(sources))]

    def bleu(self, translations: Sequence[str]) -> float:
        """Corpus BLEU in percent."""
        references = list(self.pairs.target_texts)
        return float(
            needs("sacrebleu", "translation")
            .corpus_bleu(
                list(translations),
                [references],
                force=True,  # it warns of texts with spaces before their full stops otherwise, at every evaluation
                tokenize=counted_over(references),
            )
            .score
        )

    def write_translator(self, folder: Path, judged: Judged) -> None:
        """Write the model with the parameters last judged as a translator."""
        write_translator(folder, self.model, self.source_vocabulary, self.target_vocabulary, {"dev": asdict(judged)})

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device


def counted_over(references: Sequence[str]) -> str:
    """What BLEU counts over in these languages, as sacreBLEU calls it: words or characters."""
    n_words = sum(len(line.split()) for line in references)
    return "13a" if n_words >= WORDS_FOR_WORD_BLEU * len(references) else "char"
