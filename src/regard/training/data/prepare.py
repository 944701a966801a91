"""From two text files to batches: clean the pairs, take out the dev pairs, train the vocabularies, write token ids.

    DIR/data/source.spm target.spm     the vocabularies; vocabulary.spm if the languages share one
    DIR/data/train/ dev/               the training pairs and the dev pairs as token ids; train-2/ for a second corpus
    DIR/data/start.safetensors         the initial parameters, if training starts from a translator
    DIR/data/dev.json                  the dev pairs that evaluations translate, as texts
    DIR/data/report.json               the counts of pairs read, cleaned, left out and kept

The data folder is written under a temporary name and renamed when it is complete. Its contents depend only on the
texts, the settings and the translator to fine-tune, if any: if the folder is deleted, the next run writes it again.
Several machines prepare it together: each encodes a part of the pairs and sends the token ids to the others. The files
are the same for any number of machines.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, starmap
from pathlib import Path

import torch

from regard.atomic_files import sync_folder, write_atomically
from regard.errors import InputError, first_paragraph
from regard.json_file import read_json
from regard.tensor_file import write_tensors
from regard.text.batches import Batches
from regard.text.bpe_dropout import BPEDropout
from regard.text.corpus import SIDES, Corpus, write_corpus
from regard.text.joined_corpus import JoinedCorpus
from regard.text.parallel import CleanCopy, Report
from regard.text.placeholders import SIGNS, Placeholders, with_signs
from regard.text.share import ALONE, Share
from regard.text.vocabulary import Vocabulary
from regard.text.vocabulary_size import vocabulary_size
from regard.training.data.corpora import TextFiles, clean_copies
from regard.training.data.signed_pairs import names_for, signed_pairs, with_signs_if_learnt
from regard.training.data.split import Split
from regard.training.data.user_models import UserModels, Vocabularies, refuse_bpe_dropout
from regard.training.evaluator import DevPairs
from regard.training.settings.settle import chosen_recipe, model_config, settle, settle_corpus
from regard.training.settings.settled_config import CorpusConfig, SettledConfig, SettledVocabulary
from regard.training.settings.survey import survey_corpus
from regard.training.settings.train_config import TrainConfig
from regard.training.store.training_folder import ABOUT, read_about, resumed_config, stored_config, write_config
from regard.training.watcher import Watcher
from regard.translation.translator_folder import load_vocabularies, save_vocabularies, unique_tensors

START = "start.safetensors"
"""A copy of the parameters of the translator to fine-tune: training can be resumed even if the translator is gone."""

LEAST_PIECES_WITH_BYTES = 1_024
"""The smallest vocabulary that by default has a piece for each of the 256 bytes, so that no character is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prepared:
    """The complete settings of a training, and the contents of its data folder.

    Attributes:
        batches: the batches of the training pairs.
        start: the file of the initial parameters; None = the model starts from random parameters.
    """

    config: SettledConfig
    batches: Batches
    dev: DevPairs
    start: Path | None
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary


def preparation_group(folder: Path) -> int:
    """Return which files of a training this machine lacks: 0 = none, 1 = settings and data, 2 = only the data.

    Machines with the same number (except 0) prepare the data together.
    """
    if stored_config(folder) is None:
        return 1
    return 0 if (folder / "data").exists() else 2


def write_missing(
    folder: Path,
    texts: TextFiles,
    config: TrainConfig,
    device: torch.device,
    watcher: Watcher,
    share: Share = ALONE,
) -> SettledConfig:
    """If a training has no complete data folder, write one under a temporary name; return the complete settings.

    Args:
        folder: the folder of the training.
        share: the part of the pairs that this process encodes, if several machines prepare the data together; by its
            method `exchange` these machines send each other values.
    """
    stored = stored_config(folder)
    settled = None if stored is None else resumed_config(folder, stored, config)
    if settled is not None and (folder / "data").exists():
        return settled
    refuse_different_texts(folder, share)
    shutil.rmtree(folder / "data", ignore_errors=True)  # left by a run that was killed before it stored the settings
    temporary_folder = folder / f".data-{share.index}.writing"
    shutil.rmtree(temporary_folder, ignore_errors=True)
    temporary_folder.mkdir()
    known_config = settled or config  # the complete settings, if there are any
    corpora = clean_copies(texts, known_config.data, temporary_folder)
    # corpora with machine-written sources, marked by a tag, are surveyed only if there are no other corpora
    surveyed = [corpus for corpus in corpora if not corpus.tag] or corpora
    unsurveyed = [corpus for corpus in corpora if corpus not in surveyed]
    # `write` yields the pairs while it writes them to a file
    survey = survey_corpus(chain.from_iterable(corpus.write() for corpus in surveyed), watcher)
    survey_of_others = survey_corpus(chain.from_iterable(corpus.write() for corpus in unsurveyed), watcher)
    n_pairs = survey.n_pairs + survey_of_others.n_pairs
    recipe = chosen_recipe(n_pairs, device)
    user_models = UserModels.of(known_config)
    corpus_config = settled or settle_corpus(user_models.settings(config), recipe, survey)
    source, target = write_data(temporary_folder, corpora, texts, corpus_config, n_pairs, watcher, user_models, share)
    if settled is not None:
        return settled
    # called only to raise InputError for settings that are not valid, before they are stored
    model_config(corpus_config.model, len(source), len(target))
    encoded = read_corpora(temporary_folder, config.data.weights, (len(source), len(target)))
    seed = config.training.seed
    return settle(corpus_config, recipe, device, lambda batch_tokens: Batches(encoded, batch_tokens, seed).n_batches())


def refuse_different_texts(folder: Path, share: Share) -> None:
    first, *others = share.exchange(read_about(folder / ABOUT))  # from each process of the group
    for other in others:
        different = sorted(name for name in first.keys() | other.keys() if first.get(name) != other.get(name))
        if different:
            raise InputError(
                f"the {different[0]} text is not the same file on all machines; copy the texts of one machine to the "
                "others."
            )


def load_written(folder: Path, config: TrainConfig, settled: SettledConfig | None) -> Prepared:
    """Rename the finished data folder from its temporary name to "data", store the settings, and load the data.

    Args:
        folder: the folder of the training.
        config: the user's settings; used only if `settled` is None.
        settled: the result of `write_missing`; None = read the settings that another process has stored in the folder.
    """
    data, stored = folder / "data", stored_config(folder)
    for temporary_folder in folder.glob(".data-*.writing"):
        # Machines that share `folder` have written a data folder each: the first one is kept, the others are removed
        if data.exists():
            shutil.rmtree(temporary_folder, ignore_errors=True)
        else:
            temporary_folder.replace(data)
            sync_folder(folder)
    if settled is None:
        assert stored is not None, "the first process of a machine stores the settings before the others read them"
        settled = resumed_config(folder, stored, config)
    if settled != stored:
        write_config(folder, settled)
    return load(data, settled)


def write_data(
    temporary_folder: Path,
    corpora: Sequence[CleanCopy],
    texts: TextFiles,
    config: CorpusConfig,
    n_pairs: int,
    watcher: Watcher,
    user_models: UserModels,
    share: Share,
) -> Vocabularies:
    """Write the files of the data folder into `temporary_folder`; return the source and the target vocabulary.

    Args:
        corpora: for each corpus, a file with its cleaned pairs; these files are deleted at the end.
        n_pairs: the number of pairs in all corpora, dev pairs included.
        watcher: is told what is done.
        user_models: the translator to fine-tune, or the user's vocabularies, if any.
        share: the part of the pairs that this process encodes.
    """
    watcher.busy("choosing the dev pairs")
    split = Split.of(corpora, texts, config)
    if split.dev_files is not None and (remark := split.remark_on_trained_dev_pairs()):
        watcher.say(remark)
    vocabularies = user_models.vocabularies
    if vocabularies is None:
        watcher.busy("making the vocabulary")
        vocabularies = shared_vocabularies(split, config.vocabulary, n_pairs, share)
        remark_on_sizes(vocabularies, config.vocabulary.n_tokens, watcher)
    else:
        refuse_bpe_dropout(config.vocabulary, vocabularies)
    if user_models.start is not None:
        write_tensors(temporary_folder / START, unique_tensors(user_models.start.model))
    save_vocabularies(temporary_folder, *vocabularies)
    n_done = 0

    def progress(n: int) -> None:
        nonlocal n_done
        n_done += n
        watcher.busy(f"dividing the texts into pieces: {n_done:,} of {n_pairs:,} pairs")

    placeholders = Placeholders.of(*vocabularies)
    names = {} if placeholders is None else names_for(placeholders, split.training_pairs())
    write = partial(write_corpus, max_tokens=config.data.max_tokens, max_ratio=config.data.max_ratio, share=share)
    total = Report()
    for number, corpus in enumerate(corpora, start=1):
        report = copy(corpus.counts)  # with the pairs that cleaning left out; the next steps add to it
        pairs = split.training_pairs_of(corpus, report)
        if placeholders is not None:
            pairs = signed_pairs(pairs, placeholders, names, report)
        write(temporary_folder / corpus_folder(number), pairs, *vocabularies, report=report, progress=progress)
        total.add(report)
    dev_report = Report()
    dev_pairs = split.dev_pairs(dev_report)
    if placeholders is not None:
        dev_pairs = starmap(placeholders.signed_pair, dev_pairs)
    write(temporary_folder / "dev", dev_pairs, *vocabularies, report=dev_report, purpose="for evaluation")
    pairs_to_translate = split.pairs_to_translate(config.evaluation.pairs, vocabularies[0], config.data.max_tokens)
    write_atomically(temporary_folder / "dev.json", json.dumps(pairs_to_translate, ensure_ascii=False))
    write_atomically(temporary_folder / "report.json", json.dumps(asdict(total)))
    for corpus in corpora:
        corpus.path.unlink()
    sync_folder(temporary_folder)
    watcher.say(total.table())
    return vocabularies


def corpus_folder(number: int) -> str:
    """Return the name of the folder with the token ids of corpus `number`, counted from 1.

    >>> corpus_folder(1), corpus_folder(2)
    ('train', 'train-2')
    """
    return "train" if number == 1 else f"train-{number}"


def read_corpora(data: Path, weights: Sequence[float] | None, n_tokens: tuple[int, int]) -> Corpus | JoinedCorpus:
    """Return the encoded corpora in a data folder, joined if there are several.

    Args:
        weights: for each corpus, how often each of its pairs is seen in an epoch on average; None = once.
        n_tokens: the sizes of the source and the target vocabulary.
    """
    corpora = [Corpus(data / corpus_folder(1), n_tokens)]
    while (folder := data / corpus_folder(len(corpora) + 1)).exists():
        corpora.append(Corpus(folder, n_tokens))
    if len(corpora) == 1 and weights is None:
        return corpora[0]
    return JoinedCorpus(corpora, weights or [1.0] * len(corpora))


def shared_vocabularies(split: Split, settings: SettledVocabulary, n_pairs: int, share: Share) -> Vocabularies:
    """Train the source and the target vocabulary in one process, send them to all processes, and return them."""
    models = None
    if share.index == 0:
        source, target = train_vocabularies(split, settings, n_pairs)
        models = source.model, target.model
    source_model, target_model = share.exchange(models)[0]  # from the process with index 0
    source = Vocabulary(source_model)
    return source, source if settings.joint else Vocabulary(target_model)


def train_vocabularies(split: Split, settings: SettledVocabulary, n_pairs: int) -> tuple[Vocabulary, Vocabulary]:
    """Train the source and the target vocabulary on the training pairs; a joint vocabulary is returned twice."""
    source_tags = list(dict.fromkeys(corpus.tag for corpus in split.corpora if corpus.tag))

    def train_vocabulary(lines: Callable[[], Iterator[str]], tags: Sequence[str]) -> Vocabulary:
        n_tokens = vocabulary_size(lines(), n_pairs) if settings.n_tokens is None else settings.n_tokens
        with_bytes = n_tokens >= LEAST_PIECES_WITH_BYTES if settings.byte_fallback is None else settings.byte_fallback
        return Vocabulary.train(lines(), n_tokens, coverage=settings.coverage, tags=tags, byte_fallback=with_bytes)

    if settings.joint:
        joint = train_vocabulary(lambda: chain.from_iterable(split.training_pairs()), source_tags)
        return joint, joint
    source = train_vocabulary(lambda: (source for source, _ in split.training_pairs()), source_tags)
    target = train_vocabulary(lambda: (target for _, target in split.training_pairs()), [])
    return with_signs_if_learnt((source, target), split.training_pairs) if settings.placeholders else (source, target)


def remark_on_sizes(vocabularies: Vocabularies, n_wanted: int | None, watcher: Watcher) -> None:
    """Tell the user if the vocabularies have more or fewer pieces than the setting vocabulary.n_tokens (`n_wanted`)."""
    if n_wanted is None:
        return
    for side, vocabulary in zip(SIDES, vocabularies, strict=True):
        if len(vocabulary) > n_wanted + len(SIGNS):  # the pieces for signs are extra
            watcher.say(
                f"vocabulary.n_tokens = {n_wanted} is fewer than the different characters of the {side} texts: their "
                f"vocabulary has {len(vocabulary):,} pieces"
            )
    n_pieces = max(map(len, vocabularies))
    if n_pieces < n_wanted:
        watcher.say(
            f"vocabulary.n_tokens = {n_wanted} is more than the texts allow: the vocabulary has {n_pieces:,} pieces"
        )


def load(data: Path, config: SettledConfig) -> Prepared:
    try:
        source, target = load_vocabularies(data, config.vocabulary.joint)
        sizes = len(source), len(target)
        corpus, dev_corpus = read_corpora(data, config.data.weights, sizes), Corpus(data / "dev", sizes)
        dev_texts = read_json(data / "dev.json")
        if not dev_texts or not all(isinstance(text, str) for pair in dev_texts for text in pair):
            raise ValueError("dev.json has no pairs of texts")
        source_texts, target_texts = zip(*dev_texts, strict=True)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{data} is damaged ({first_paragraph(error)}); delete it, and the same command makes it again."
        ) from error
    training, placeholders = config.training, Placeholders.of(source, target)
    signs = [None if placeholders is None else placeholders.signs(text) for text in source_texts]
    dev = DevPairs(
        batches=Batches(dev_corpus, training.batch_tokens, seed=0),  # the order does not matter
        sources=source.encode_all(list(map(with_signs, source_texts, signs))),
        signs=signs,
        source_texts=source_texts,
        target_texts=target_texts,
    )
    dropouts = None
    probability, max_tokens = config.vocabulary.bpe_dropout, config.data.max_tokens
    if probability:
        dropouts = BPEDropout(source, probability, max_tokens), BPEDropout(target, probability, max_tokens)
    return Prepared(
        config=config,
        batches=Batches(corpus, training.batch_tokens, training.seed, dropouts),
        dev=dev,
        start=data / START if config.model.start_from is not None else None,
        source_vocabulary=source,
        target_vocabulary=target,
    )
