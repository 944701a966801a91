"""From texts to what is trained on: pairs read and cleaned, some held out to judge by, vocabularies, ids on the disk.

    DIR/data/source.spm target.spm     the vocabularies; vocabulary.spm where the languages have one
    DIR/data/train/ dev/               the pairs as ids
    DIR/data/start.safetensors         the parameters to begin with, where a translator was given
    DIR/data/judged.json               the dev pairs that are translated, as texts
    DIR/data/report.json               what became of the pairs

The folder is made beside and then given its name. All of it follows from the texts and the settings, so that it may be
deleted: the next run makes it again.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from regard.atomic_files import sync_folder, write_whole
from regard.errors import InputError, first_words
from regard.text.batches import Batches
from regard.text.bpe_dropout import BPEDropout
from regard.text.corpus import Corpus, write_corpus
from regard.text.parallel import Parallel, Report, dev_limit, random_rank
from regard.text.vocabulary import Vocabulary
from regard.text.vocabulary_size import vocabulary_size
from regard.training.console import Watcher
from regard.training.data.survey import Survey, surveyed
from regard.training.judge import DevPairs
from regard.training.settings.config import Model, TrainConfig
from regard.training.settings.recipes import LONGEST, chosen_recipe, derived, with_longest, with_steps
from regard.training.store.folder import settle, stored_config, write_config
from regard.training.warm_start import START, copy_parameters, start_of, with_start
from regard.translation.translator_folder import (
    JOINT_VOCABULARY,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    TranslatorContents,
    model_kinds,
)

ONE_IN, MOST_DEV_PAIRS = 20, 1_000
"""The share of a corpus that is held out to judge by, where no number is set, and the most pairs."""

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prepared:
    """What is trained on, and how."""

    config: TrainConfig
    """With everything derived."""

    batches: Batches
    dev: DevPairs

    start: Path | None
    """The parameters to begin with; None = newly drawn ones."""

    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def model_config(self) -> Any:
        """The model's own settings, with the vocabularies' sizes.

        Raises:
            InputError: they do not fit together.
        """
        return model_config(self.config.model, len(self.source_vocabulary), len(self.target_vocabulary))


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
            survey = surveyed(parallel.pairs(), watcher)
            write_data(data, parallel, texts, settled, survey, watcher, start_of(settled))
        if settled != stored:
            write_config(folder, settled)
        return load(data, settled)
    survey = surveyed(parallel.pairs(), watcher)
    recipe, start = chosen_recipe(survey.n_pairs, device), start_of(config)
    settled = derived(config if start is None else with_start(config, start), recipe, survey, device)
    settled = with_longest(settled, model_config(settled.model).max_tokens)
    write_data(data, parallel, texts, settled, survey, watcher, start)
    prepared = load(data, settled)
    prepared.model_config()  # refused before anything is settled, now that the vocabularies' sizes are known
    settled = with_steps(settled, recipe, prepared.batches.n_batches())
    write_config(folder, settled)
    return load(data, settled)


def model_config(model: Model, n_source_tokens: int = 1, n_target_tokens: int = 1) -> Any:
    """A model's own settings: those of the preset and what was changed, with the vocabularies' sizes.

    Args:
        n_source_tokens, n_target_tokens: 1 = not known yet.

    Raises:
        InputError: they do not fit together.
    """
    changes = {**model.changes, "n_source_tokens": n_source_tokens, "n_target_tokens": n_target_tokens}
    kind = model_kinds()[model.kind].config
    try:
        return kind(**changes) if model.preset is None else kind.preset(model.preset, **changes)
    except ValueError as error:
        raise InputError(f"the settings of [model] do not make one: {error}") from error


def write_data(
    data: Path,
    parallel: Parallel,
    texts: Mapping[str, Path],
    config: TrainConfig,
    survey: Survey,
    watcher: Watcher,
    start: TranslatorContents | None,
) -> None:
    """Write the folder, whole or not at all."""
    writing = data.with_name(f".{data.name}.writing")
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    split = Split.of(parallel, texts, config, survey.n_pairs)
    if start is None:
        watcher.works("making the vocabulary")
        source, target = vocabularies(split, config, survey.n_pairs)
    else:
        source, target = start.source_vocabulary, start.target_vocabulary
        copy_parameters(start, writing)
    save_vocabularies(writing, source, target)
    report, done = Report(), 0

    def progress(n: int) -> None:
        nonlocal done
        done += n
        watcher.works(f"cutting the texts into pieces: {done:,} of {survey.n_pairs:,} pairs")

    longest = config.data.max_tokens or LONGEST
    write = partial(write_corpus, max_tokens=longest, max_ratio=config.data.max_ratio)
    write(writing / "train", split.train(report), source, target, report=report, progress=progress)
    apart = Report()
    write(writing / "dev", split.dev(apart), source, target, report=apart, purpose="to judge by")
    judged = split.judged(config.evaluation.pairs, source, longest)
    write_whole(writing / "judged.json", json.dumps(judged, ensure_ascii=False))
    write_whole(writing / "report.json", json.dumps(report.as_dict()))
    sync_folder(writing)
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
        split = cls(parallel, None, dev_limit((source for source, _ in parallel.pairs()), n_dev, seed), seed)
        if next(split.train(), None) is None:
            n_sources = len({source for source, _ in parallel.pairs()})
            raise InputError(
                f"{parallel.source} and {parallel.target} have {n_pairs:,} pairs with {n_sources:,} different sources, "
                f"and those of {n_dev:,} sources are to be held out to judge by, so none is left to learn from; give "
                "more pairs, a smaller data.dev_pairs, or files to judge by with --dev-source and --dev-target."
            )
        return split

    def train(self, report: Report | None = None) -> Iterator[Pair]:
        """The pairs to learn from."""
        for pair in self.parallel.pairs(report):
            if self.apart is None and self.holds_out(pair):
                if report is not None:
                    report.held_out += 1
            else:
                yield pair

    def dev(self, report: Report | None = None) -> Iterator[Pair]:
        """The pairs to judge by."""
        if self.apart is not None:
            return self.apart.pairs(report)
        return (pair for pair in self.parallel.pairs() if self.holds_out(pair))

    def holds_out(self, pair: Pair) -> bool:
        """Is a pair of the corpus one to judge by?"""
        return random_rank(pair[0], self.seed) <= self.limit

    def judged(self, n: int, vocabulary: Vocabulary, max_tokens: int) -> list[Pair]:
        """The dev pairs that are translated: always the same, drawn from all, none too long."""
        drawn = sorted(self.dev(), key=lambda pair: random_rank(pair[0], self.seed + 1))
        return list(islice((pair for pair in drawn if len(vocabulary.encode(pair[0])) <= max_tokens), n))


def vocabularies(split: Split, config: TrainConfig, n_pairs: int) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of source and target, or one twice."""

    def vocabulary(lines: Callable[[], Iterator[str]]) -> Vocabulary:
        n_tokens = config.vocabulary.n_tokens or vocabulary_size(lines(), n_pairs)
        return Vocabulary.train(lines(), n_tokens, coverage=config.vocabulary.coverage)

    if config.vocabulary.joint:
        joint = vocabulary(lambda: chain.from_iterable(split.train()))
        return joint, joint
    source = vocabulary(lambda: (source for source, _ in split.train()))
    target = vocabulary(lambda: (target for _, target in split.train()))
    return source, target


def save_vocabularies(folder: Path, source: Vocabulary, target: Vocabulary) -> None:
    """Write the vocabularies, one where they are one."""
    if source is target:
        source.save(folder / JOINT_VOCABULARY)
        return
    source.save(folder / SOURCE_VOCABULARY)
    target.save(folder / TARGET_VOCABULARY)


def load_vocabularies(folder: Path, joint: bool) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies that `save_vocabularies` wrote.

    Raises:
        InputError: one is missing or damaged.
    """
    if joint:
        one = Vocabulary.load(folder / JOINT_VOCABULARY)
        return one, one
    return Vocabulary.load(folder / SOURCE_VOCABULARY), Vocabulary.load(folder / TARGET_VOCABULARY)


def load(data: Path, config: TrainConfig) -> Prepared:
    """What `write_data` wrote into a folder, now or in an earlier run.

    Raises:
        InputError: a file of it is missing or damaged.
    """
    try:
        source, target = load_vocabularies(data, bool(config.vocabulary.joint))
        corpus, apart = Corpus(data / "train"), Corpus(data / "dev")
        judged = json.loads((data / "judged.json").read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{data} is damaged ({first_words(error)}); delete it, and it is made again.") from error
    batch_tokens = config.training.batch_tokens or 1
    dev = DevPairs(
        batches=Batches(apart, batch_tokens, seed=0),
        sources=[source.encode(text) for text, _ in judged],
        source_texts=[text for text, _ in judged],
        target_texts=[text for _, text in judged],
    )
    return Prepared(
        config=config,
        batches=Batches(corpus, batch_tokens, config.training.seed, dropouts(config, source, target)),
        dev=dev,
        start=data / START if config.model.start_from is not None else None,
        source_vocabulary=source,
        target_vocabulary=target,
    )


def dropouts(config: TrainConfig, source: Vocabulary, target: Vocabulary) -> tuple[BPEDropout, BPEDropout] | None:
    """What cuts the texts to learn from anew, if the settings ask for it."""
    probability, most = config.vocabulary.bpe_dropout, config.data.max_tokens or LONGEST
    return (BPEDropout(source, probability, most), BPEDropout(target, probability, most)) if probability else None
