"""The trained models that the user gives for a training: a translator to fine-tune, or vocabularies.

Fine-tuning starts from the vocabularies, the model and the parameters of a trained translator, and adapts it to the
texts of one domain with few sentence pairs. The user's own vocabularies are SentencePiece models in files.

Source: Luong & Manning 2015, "Stanford Neural Machine Translation Systems for Spoken Language Domains".
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from regard.errors import InputError
from regard.text.foreign_vocabulary import vocabulary_from_model
from regard.text.parallel import paths_in
from regard.text.piece_table import BPE, algorithm_of
from regard.text.placeholders import Placeholders
from regard.text.vocabulary import Vocabulary
from regard.training.settings.settings_file import VOCABULARY_SIZES, differs_from_start
from regard.training.settings.train_config import Kind, TrainConfig, VocabularySettings
from regard.translation.marian_folder import read_any_translator
from regard.translation.translator_folder import TranslatorContents, kind_of

Vocabularies = tuple[Vocabulary, Vocabulary]
"""A source and a target vocabulary; the same object twice if the languages share one."""

CHANGEABLE_SETTINGS = {"dropout", "attention_dropout"}
"""The model settings that fine-tuning may change: the shapes of the parameters do not depend on them."""


@dataclass(frozen=True, slots=True, eq=False)
class UserModels:
    """The translator to fine-tune, or the user's vocabularies, if the settings name them.

    Attributes:
        start: the translator to fine-tune; None = a new model.
        vocabularies: the vocabularies of that translator, or those in the user's files; None = new ones are trained.
    """

    start: TranslatorContents | None
    vocabularies: Vocabularies | None

    @classmethod
    def of(cls, config: TrainConfig) -> "UserModels":
        if config.model.start_from is None:
            return cls(None, read_user_vocabularies(config.vocabulary))
        start = read_any_translator(Path(config.model.start_from))
        return cls(start, (start.source_vocabulary, start.target_vocabulary))

    def settings(self, config: TrainConfig) -> TrainConfig:
        """Return `config` with the settings that the given translator or vocabularies decide, e.g. vocabulary.joint."""
        if self.vocabularies is None:
            return config
        source, target = self.vocabularies
        joint = source is target
        placeholders = Placeholders.of(source, target) is not None  # whether both vocabularies have the signs ⟐⟡⟢
        if self.start is not None:
            config = with_start(config, self.start, joint, placeholders)
        else:
            refuse_other_vocabularies(config.vocabulary, self.vocabularies, joint, placeholders)
        return replace(config, vocabulary=replace(config.vocabulary, joint=joint, placeholders=placeholders))


def with_start(config: TrainConfig, start: TranslatorContents, joint: bool, placeholders: bool) -> TrainConfig:
    """Return the settings for fine-tuning: the section [model] has the settings of the translator `start`."""
    model, vocabulary, default = config.model, config.vocabulary, TrainConfig()
    start_config = asdict(start.model.config)  # type: ignore[call-overload]
    kind = cast(Kind, kind_of(start.model))
    # for each setting: its value, its default, and its value in the translator, or words for it in the message
    settings = {
        "vocabulary.n_tokens": (vocabulary.n_tokens, default.vocabulary.n_tokens, len(start.source_vocabulary)),
        "vocabulary.file": (vocabulary.file, None, "vocabularies of its own"),
        "vocabulary.joint": (vocabulary.joint, default.vocabulary.joint, joint),
        "vocabulary.placeholders": (vocabulary.placeholders, default.vocabulary.placeholders, placeholders),
        "vocabulary.coverage": (vocabulary.coverage, default.vocabulary.coverage, "its own"),
        "vocabulary.byte_fallback": (vocabulary.byte_fallback, None, "its own"),
        "model.kind": (model.kind, default.model.kind, kind),
        "model.preset": (model.preset, default.model.preset, "a size of its own"),
    }
    changed = {name: value for name, value in model.changes.items() if name not in CHANGEABLE_SETTINGS}
    settings |= {f"model.{name}": (value, None, start_config.get(name)) for name, value in changed.items()}
    for name, (value, default_value, value_at_start) in settings.items():
        if value not in (default_value, value_at_start):
            raise differs_from_start(name, value, model.start_from, value_at_start)
    changes = {name: value for name, value in {**start_config, **model.changes}.items() if name not in VOCABULARY_SIZES}
    return replace(config, model=replace(model, kind=kind, changes=changes))


def read_user_vocabularies(settings: VocabularySettings) -> Vocabularies | None:
    """Return the source and the target vocabulary that the setting vocabulary.file names; None if it is not set."""
    if settings.file is None:
        return None
    paths = paths_in(settings.file)
    if len(paths) > 2:
        raise InputError(
            f"vocabulary.file = {settings.file} names {len(paths)} files; give one for both languages, or two with a "
            "comma between."
        )
    vocabularies = [vocabulary_from_model(path) for path in paths]
    return vocabularies[0], vocabularies[-1]  # the same one twice if there is one file


def refuse_other_vocabularies(
    settings: VocabularySettings, given: Vocabularies, joint: bool, placeholders: bool
) -> None:
    """Raise InputError if a setting of [vocabulary] contradicts the vocabularies that the user has given."""
    sizes = dict.fromkeys(map(len, given))
    given_size = " and ".join(f"{size:,}" for size in sizes)
    # two vocabularies of different sizes have no common n_tokens, so that no number is allowed
    allowed_sizes = {None, *sizes} if len(sizes) == 1 else {None}
    for name, value, allowed, given_value in (
        ("n_tokens", settings.n_tokens, allowed_sizes, f"{given_size} pieces"),
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


def refuse_bpe_dropout(settings: VocabularySettings, vocabularies: Vocabularies) -> None:
    if settings.bpe_dropout and not all(algorithm_of(vocabulary.model) == BPE for vocabulary in vocabularies):
        raise InputError(
            f"vocabulary.bpe_dropout = {settings.bpe_dropout}: the given vocabulary is not made by byte-pair encoding; "
            "leave it out, or give a vocabulary of spm_train --model_type=bpe."
        )
