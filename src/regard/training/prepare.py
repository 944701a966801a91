"""From texts to what is trained on: pairs read and cleaned, some held out to judge by, vocabularies, ids on the disk.

    DIR/data/source.spm target.spm     the vocabularies; vocabulary.spm where the languages have one
    DIR/data/train/ dev/               the pairs as ids
    DIR/data/judged.json               the dev pairs that are translated, as texts
    DIR/data/report.json               what became of the pairs

The folder is made beside and then given its name. All of it follows from the texts and the settings, so that it may be
deleted: the next run makes it again.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

import torch

from regard.errors import InputError
from regard.text.batches import Batches
from regard.text.corpus import Corpus, write_corpus
from regard.text.parallel import Parallel, Report, dev_limit, place_of
from regard.text.vocabulary import Vocabulary
from regard.training.config import TrainConfig
from regard.training.files import sync_folder, write_synced
from regard.training.folder import settle, stored_config, write_config
from regard.training.judge import DevPairs
from regard.training.progress import Watcher
from regard.training.recipes import chosen_recipe, derived, with_steps

ONE_IN, MOST_DEV_PAIRS = 20, 1_000
"""The share of a corpus that is held out to judge by, where no number is set, and the most pairs."""

LETTER_PAIRS = 100_000
"""Pairs whose letters are counted to see whether the languages are written alike."""

ALIKE = 0.5
"""The share of letters in common from which on two languages have one vocabulary."""

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prepared:
    """What is trained on, and how."""

    config: TrainConfig
    """With everything derived."""

    batches: Batches
    dev: DevPairs
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a corpus before it is cut into pieces."""

    n_pairs: int
    """Pairs with two sides, those to judge by among them."""

    alike: float
    """The share of letters that the two languages have in common."""


def prepare(
    folder: Path, texts: Mapping[str, Path], config: TrainConfig, device: torch.device, watcher: Watcher
) -> Prepared:
    """Make what is trained on, or find it made by an earlier run.

    Raises:
        InputError: texts or settings that cannot be used.
    """
    data, parallel = folder / "data", Parallel(texts["source"], texts["target"])
    stored = stored_config(folder)
    if stored is not None:
        settled = settle(folder, stored, config)
        if not data.exists():
            write_data(data, parallel, texts, settled, surveyed(parallel, watcher), watcher)
        if settled != stored:
            write_config(folder, settled)
        return load(data, settled)
    survey = surveyed(parallel, watcher)
    recipe = chosen_recipe(survey.n_pairs, device)
    settled = derived(config, recipe, survey.alike >= ALIKE, device)
    write_data(data, parallel, texts, settled, survey, watcher)
    settled = with_steps(settled, recipe, load(data, settled).batches.n_batches())
    write_config(folder, settled)
    return load(data, settled)


def surveyed(parallel: Parallel, watcher: Watcher) -> Survey:
    """Count pairs and letters."""
    n_pairs, letters = 0, (Counter[str](), Counter[str]())
    watcher.works("reading the texts")
    for pair in parallel.pairs():
        if n_pairs < LETTER_PAIRS:
            for counts, text in zip(letters, pair, strict=True):
                counts.update(letter for letter in text.lower() if letter.isalpha())
        n_pairs += 1
        if n_pairs % 100_000 == 0:
            watcher.works(f"reading the texts: {n_pairs:,} pairs")
    return Survey(n_pairs, in_common(*letters))


def in_common(source: Counter[str], target: Counter[str]) -> float:
    """The share that two counts of letters have in common, from 0 to 1.

    >>> in_common(Counter("aabb"), Counter("abcc"))
    0.5
    """
    totals = source.total() or 1, target.total() or 1
    return float(sum(min(source[letter] / totals[0], target[letter] / totals[1]) for letter in source))


def write_data(
    data: Path, parallel: Parallel, texts: Mapping[str, Path], config: TrainConfig, survey: Survey, watcher: Watcher
) -> None:
    """Write the folder, whole or not at all."""
    writing = data.with_name(f".{data.name}.writing")
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    split = Split.of(parallel, texts, config, survey.n_pairs)
    watcher.works("making the vocabulary")
    source, target = vocabularies(split, config)
    save_vocabularies(writing, source, target)
    report, done = Report(), 0

    def progress(n: int) -> None:
        nonlocal done
        done += n
        watcher.works(f"cutting the texts into pieces: {done:,} of {survey.n_pairs:,} pairs")

    write = partial(write_corpus, max_tokens=config.data.max_tokens, max_ratio=config.data.max_ratio)
    write(writing / "train", split.train(report), source, target, report=report, progress=progress)
    write(writing / "dev", split.dev(), source, target)
    judged = split.judged(config.evaluation.pairs, source, config.data.max_tokens)
    write_synced(writing / "judged.json", json.dumps(judged, ensure_ascii=False))
    write_synced(writing / "report.json", json.dumps(report.as_dict()))
    shutil.rmtree(data, ignore_errors=True)
    writing.replace(data)
    sync_folder(data.parent)
    watcher.say(report.table())


@dataclass(frozen=True, slots=True)
class Split:
    """A corpus in two: pairs to learn from, and pairs to judge by."""

    parallel: Parallel
    apart: Parallel | None
    """Files of pairs to judge by; None = some of the corpus."""

    limit: int
    """Then texts whose place is up to this are held out."""

    seed: int

    @classmethod
    def of(cls, parallel: Parallel, texts: Mapping[str, Path], config: TrainConfig, n_pairs: int) -> "Split":
        """The split that the settings ask for.

        Raises:
            InputError: it leaves nothing to learn from.
        """
        seed = config.training.seed
        if "dev source" in texts:
            return cls(parallel, Parallel(texts["dev source"], texts["dev target"]), -1, seed)
        n_dev = config.data.dev_pairs or min(-(-n_pairs // ONE_IN), MOST_DEV_PAIRS)
        if n_dev >= n_pairs:
            raise InputError(
                f"{parallel.source} and {parallel.target} have {n_pairs:,} pairs, and {n_dev:,} are to be held out to "
                "judge by, so none is left to learn from; give more pairs, a smaller data.dev_pairs, or files to judge "
                "by with --dev-source and --dev-target."
            )
        return cls(parallel, None, dev_limit((source for source, _ in parallel.pairs()), n_dev, seed), seed)

    def train(self, report: Report | None = None) -> Iterator[Pair]:
        """The pairs to learn from."""
        for pair in self.parallel.pairs(report):
            if self.apart is None and self.holds_out(pair):
                if report is not None:
                    report.held_out += 1
            else:
                yield pair

    def dev(self) -> Iterator[Pair]:
        """The pairs to judge by."""
        if self.apart is not None:
            return self.apart.pairs()
        return (pair for pair in self.parallel.pairs() if self.holds_out(pair))

    def holds_out(self, pair: Pair) -> bool:
        """Is a pair of the corpus one to judge by?"""
        return place_of(pair[0], self.seed) <= self.limit

    def judged(self, n: int, vocabulary: Vocabulary, max_tokens: int) -> list[Pair]:
        """The dev pairs that are translated: always the same, drawn from all, none too long."""
        drawn = sorted(self.dev(), key=lambda pair: place_of(pair[0], self.seed + 1))
        return list(islice((pair for pair in drawn if len(vocabulary.encode(pair[0])) <= max_tokens), n))


def vocabularies(split: Split, config: TrainConfig) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of source and target, or one twice."""
    n_tokens, coverage = config.vocabulary.n_tokens or 0, config.vocabulary.coverage
    if config.vocabulary.joint:
        joint = Vocabulary.train(chain.from_iterable(split.train()), n_tokens, coverage=coverage)
        return joint, joint
    source = Vocabulary.train((source for source, _ in split.train()), n_tokens, coverage=coverage)
    target = Vocabulary.train((target for _, target in split.train()), n_tokens, coverage=coverage)
    return source, target


def save_vocabularies(folder: Path, source: Vocabulary, target: Vocabulary) -> None:
    """Write the vocabularies, one where they are one."""
    if source is target:
        source.save(folder / "vocabulary.spm")
        return
    source.save(folder / "source.spm")
    target.save(folder / "target.spm")


def load(data: Path, config: TrainConfig) -> Prepared:
    """What an earlier run made, or the lines above."""
    if config.vocabulary.joint:
        source = target = Vocabulary.load(data / "vocabulary.spm")
    else:
        source, target = Vocabulary.load(data / "source.spm"), Vocabulary.load(data / "target.spm")
    batch_tokens, judged = config.training.batch_tokens or 1, json.loads((data / "judged.json").read_bytes())
    dev = DevPairs(
        batches=Batches(Corpus(data / "dev"), batch_tokens, seed=0),
        sources=[source.encode(text) for text, _ in judged],
        source_texts=[text for text, _ in judged],
        target_texts=[text for _, text in judged],
    )
    return Prepared(
        config=config,
        batches=Batches(Corpus(data / "train"), batch_tokens, config.training.seed),
        dev=dev,
        source_vocabulary=source,
        target_vocabulary=target,
    )
