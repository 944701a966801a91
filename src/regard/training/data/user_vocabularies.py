"""The user's own vocabularies: SentencePiece models in files, in place of vocabularies trained on the corpus."""

from dataclasses import replace

from regard.errors import InputError
from regard.text.foreign_vocabulary import vocabulary_from_model
from regard.text.parallel import paths_in
from regard.text.piece_table import BPE, algorithm_of
from regard.text.placeholders import Placeholders
from regard.text.vocabulary import Vocabulary
from regard.training.settings.train_config import TrainConfig, VocabularySettings

Vocabularies = tuple[Vocabulary, Vocabulary]
"""A source and a target vocabulary; the same object twice if the languages share one."""


def read_user_vocabularies(settings: VocabularySettings) -> Vocabularies | None:
    """Return the source and the target vocabulary that the setting vocabulary.file names; None if it is not set.

    If the setting names one file, both vocabularies are the same object.

    Raises:
        InputError: there are more than two files, or one cannot be read or is not a vocabulary.
    """
    if settings.file is None:
        return None
    paths = paths_in(settings.file)
    if len(paths) > 2:
        raise InputError(
            f"vocabulary.file = {settings.file} names {len(paths)} files; give one for both languages, or two with a "
            "comma between."
        )
    vocabularies = [vocabulary_from_model(path) for path in paths]
    return vocabularies[0], vocabularies[-1]


def with_user_vocabularies(config: TrainConfig, given: Vocabularies) -> TrainConfig:
    """Return the settings with vocabulary.joint and vocabulary.placeholders as they are in the user's vocabularies.

    Raises:
        InputError: a setting asks for a vocabulary that differs from the user's own.
    """
    settings, (source, target) = config.vocabulary, given
    joint = source is target
    placeholders = Placeholders.of(source, target) is not None
    sizes = dict.fromkeys([len(source), len(target)])
    given_size = " and ".join(f"{size:,}" for size in sizes)
    for name, value, allowed, given_value in (
        ("n_tokens", settings.n_tokens, {None, *sizes} if len(sizes) == 1 else {None}, f"{given_size} pieces"),
        ("joint", settings.joint, {None, joint}, "one vocabulary" if joint else "two vocabularies"),
        ("placeholders", settings.placeholders, {None, placeholders}, "its own pieces"),
        ("coverage", settings.coverage, {VocabularySettings().coverage}, "letters of its own"),
        ("byte_fallback", settings.byte_fallback, {None}, "letters of its own"),
    ):
        if value not in allowed:
            raise InputError(
                f"vocabulary.{name} = {str(value).lower()}: {settings.file} has {given_value}; leave it out, or train "
                "without a vocabulary of your own."
            )
    return replace(config, vocabulary=replace(settings, joint=joint, placeholders=placeholders))


def refuse_bpe_dropout(settings: VocabularySettings, vocabularies: Vocabularies) -> None:
    """Raise InputError if the settings ask for BPE-dropout and a vocabulary is not made by byte-pair encoding."""
    if settings.bpe_dropout and not all(algorithm_of(vocabulary.model) == BPE for vocabulary in vocabularies):
        raise InputError(
            f"vocabulary.bpe_dropout = {settings.bpe_dropout}: the given vocabulary is not made by byte-pair encoding; "
            "leave it out, or give a vocabulary of spm_train --model_type=bpe."
        )
