"""The trained models that the user gives for a training: a translator to fine-tune, or vocabularies."""

from dataclasses import dataclass
from pathlib import Path

from regard.training.data.user_vocabularies import Vocabularies, read_user_vocabularies, with_user_vocabularies
from regard.training.settings.train_config import TrainConfig
from regard.training.warm_start import with_start
from regard.translation.marian_folder import read_any_translator
from regard.translation.translator_folder import TranslatorContents


@dataclass(frozen=True, slots=True, eq=False)
class UserModels:
    """The translator to fine-tune, or the user's vocabularies, if the settings name them.

    Attributes:
        start: the translator to fine-tune, whose vocabularies and parameters are copied; None = a new model.
        given_vocabularies: the user's vocabularies for source and target; None = there are none.
    """

    start: TranslatorContents | None
    given_vocabularies: Vocabularies | None

    @classmethod
    def of(cls, config: TrainConfig) -> "UserModels":
        """Read the translator in model.start_from and the vocabularies in vocabulary.file.

        Raises:
            InputError: one of them cannot be read.
        """
        start_from = config.model.start_from
        start = None if start_from is None else read_any_translator(Path(start_from))
        return cls(start, read_user_vocabularies(config.vocabulary))

    def settings(self, config: TrainConfig) -> TrainConfig:
        """Return `config` with the values that the given translator or vocabularies determine, e.g. vocabulary.joint.

        Raises:
            InputError: a setting differs from the translator or from the vocabularies.
        """
        if self.start is not None:
            return with_start(config, self.start)
        return config if self.given_vocabularies is None else with_user_vocabularies(config, self.given_vocabularies)

    def vocabularies(self) -> Vocabularies | None:
        """Return the source and the target vocabulary of the translator or of the user; None = train new ones."""
        return (
            self.given_vocabularies
            if self.start is None
            else (self.start.source_vocabulary, self.start.target_vocabulary)
        )
