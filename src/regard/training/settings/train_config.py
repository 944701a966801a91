"""The settings that a user gives for a training, in five sections, each of which is a table of the TOML settings file.

`training.seed` is the field `seed` of the table `[training]`. A setting that is None is derived from the corpus and the
device by the recipes in settle.py, unless its description gives None another meaning. The complete settings, a
SettledConfig, are stored in the file config.toml of the training's folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, isfinite
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.errors import InputError
from regard.training.learning_rate import ScheduleName

Kind = Literal["transformer", "recurrent"]
Metric = Literal["bleu", "loss"]

Kept = Literal["best", "last"]
"""The type of evaluation.keep: the parameters of the best or of the last evaluation become the translator."""

Precision = Literal["float32", "bfloat16"]

LONGEST_VALUE = 80
"""An error message shows at most this many characters of a setting's value."""

TYPE_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


@dataclass(frozen=True, slots=True)
class Range:
    """The allowed values of a setting: the finite numbers from `least` to `most`, both included."""

    least: int | float
    most: int | float = inf

    def __contains__(self, value: int | float) -> bool:
        return self.least <= value <= self.most and isfinite(value)

    def __str__(self) -> str:
        return f"at least {self.least:,}" if self.most == inf else f"between {self.least:,} and {self.most:,}"


@dataclass(frozen=True, slots=True)
class Above:
    """The allowed values of a setting: the finite numbers greater than `bound`."""

    bound: int | float

    def __contains__(self, value: int | float) -> bool:
        return value > self.bound and isfinite(value)

    def __str__(self) -> str:
        return f"above {self.bound:g}"


# Types for settings that have a number as value; each type says which numbers are allowed
Count = Annotated[int, Range(1)]
CountOrZero = Annotated[int, Range(0)]
Positive = Annotated[float, Above(0)]
NotNegative = Annotated[float, Range(0)]
Fraction = Annotated[float, Range(0, 0.99)]
Length = Annotated[int, Range(2)]
BatchTokens = Annotated[int, Range(8)]


class Section:
    """Base class of the sections of settings: creating an instance checks the type and the range of each value.

    Raises:
        InputError: a value has a wrong type or is out of range.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for setting in fields(self):  # type: ignore[arg-type]
            check_value(getattr(self, setting.name), hints[setting.name], f"{table_name(type(self))}.{setting.name}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Data(Section):
    """The training pairs, and the dev pairs: sentence pairs used only to evaluate."""

    dev_source: str | None = None
    """A file with the sources of the dev pairs, one per line; None = dev pairs are taken out of the corpora."""

    dev_target: str | None = None
    """A file with the translations of `dev_source`, line by line; None = there is no `dev_source` either."""

    dev_pairs: Count | None = None
    """The number of different source sentences whose pairs are taken out of the corpus as dev pairs; None = a twentieth
    of the number of pairs in the corpus, at most 1,000."""

    weights: tuple[Positive, ...] | None = None
    """For each corpus, how often each of its pairs is seen in an epoch on average: 2 = twice, 0.3 = in about three
    epochs of ten; None = once."""

    synthetic: tuple[Count, ...] | None = None
    """The numbers, from 1, of the corpora whose sources were written by a machine. Their sources begin with a tag, so
    that the model can tell them from other sources; no dev pair is taken out of these corpora. None = no corpus."""

    max_tokens: Length | None = None
    """The most subword pieces of a sentence; pairs with a longer sentence are left out. None = 256, but at most the
    model's max_tokens - 1, to leave room for the end-of-sentence token."""

    max_ratio: Annotated[float, Range(1)] = 9.0
    """A pair is left out if one sentence has more than this many times as many pieces as the other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularySettings(Section):
    """The vocabularies: the subword pieces that SentencePiece splits texts into."""

    file: str | None = None
    """The file of a SentencePiece model for both languages, or the files of a source and a target model, with a comma
    between; None = new vocabularies are trained."""

    n_tokens: Annotated[int, Range(16)] | None = None
    """The number of pieces in each vocabulary; None = estimated from the texts."""

    joint: bool | None = None
    """Use one vocabulary for both languages; None = use one if the languages share at least half of their letters."""

    coverage: Annotated[float, Range(0.9, 1)] = 1.0
    """The share of the characters in the corpus that the vocabulary must cover. Below 1, the rarest characters become
    unknown tokens; this suits scripts with thousands of characters."""

    byte_fallback: bool | None = None
    """Include 256 pieces for bytes in each vocabulary, so that no character is unknown; None = include them in a
    vocabulary of at least 1,024 pieces."""

    placeholders: bool | None = None
    """Replace names, numbers and addresses by signs, so that translations keep them (regard.text.placeholders).

    This needs two vocabularies. If fewer than 100 training pairs would get signs, nothing is replaced. None = replace
    them if there are two vocabularies and the languages share less than half of their letters.
    """

    bpe_dropout: Annotated[float, Range(0, 1)] = 0.0
    """BPE-dropout: the probability that a merge of pieces is skipped, drawn anew in every epoch; 0 = none is skipped.

    With 0.05, texts have about a fifth more pieces. Batches are formed by the lengths without BPE-dropout, so a batch
    may have more than batch_tokens tokens.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(Section):
    """The settings of the model to train."""

    kind: Kind = "transformer"
    """The kind of model: a Transformer, or a recurrent encoder-decoder with attention."""

    preset: str | None = None
    """The model's size: tiny, small, base or big; None = chosen by the size of the corpus and the device."""

    start_from: str | None = None
    """The folder of a translator to fine-tune: its vocabularies, config and parameters are used; None = a new model."""

    changes: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    """Fields of TransformerConfig or RecurrentConfig, by name, with values that replace those of the preset."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training(Section):
    """The settings of the optimisation."""

    seed: Annotated[int, Range(0, 2**63 - 2)] = 1
    """The seed of all random numbers: initial parameters, the order of the pairs, dropout."""

    batch_tokens: BatchTokens | None = None
    """The most source tokens, and the most target tokens, of a batch, padding counted. Several processes divide each
    batch among them. None = derived from the size of the corpus and the device."""

    accumulate: Count = 1
    """The number of batches, each of up to batch_tokens tokens, whose gradients are summed for one step."""

    learning_rate: Positive | None = None
    """The peak learning rate, reached at the end of the warm-up; None = derived from corpus, device and model."""

    schedule: ScheduleName | None = None
    """How the learning rate changes after the warm-up: cosine falls to 0 at max_steps, inverse-square-root falls as
    1 / √step, constant stays. None = derived from the size of the corpus and the device."""

    warmup_steps: CountOrZero | None = None
    """The number of steps in which the learning rate rises linearly from 0 to its peak; None = derived from the size of
    the corpus and the device, at most a tenth of max_steps."""

    label_smoothing: Fraction = 0.1
    """The ε of label smoothing: the share of each label's probability that is spread evenly over the vocabulary."""

    r_drop: NotNegative = 0.0
    """R-Drop's α, the factor of the divergence between two predictions in the loss; 0 = no R-Drop, 5 is usual.

    With R-Drop the model predicts every target twice, with different dropout, and a step takes about twice as long.
    """

    clip_norm: NotNegative = 1.0
    """The largest norm of the gradient of all parameters; larger gradients are scaled down to it. 0 = no clipping."""

    weight_decay: NotNegative = 0.01
    """AdamW's weight decay of the weight matrices; biases, norms and embeddings do not decay."""

    max_steps: Count | None = None
    """The number of steps after which training ends; None = derived from the size of the corpus and the device."""

    max_minutes: Positive | None = None
    """Training ends when it has taken this many minutes, in all runs together; None = no limit."""

    precision: Precision | None = None
    """The data type of matrix products; None = bfloat16 on a CUDA device that supports it, float32 elsewhere."""

    shard: bool | None = None
    """Split parameters, gradients and optimiser state among the processes (FSDP), for a model too large for one device;
    None = only if Accelerate's config asks for FSDP."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation(Section):
    """When to evaluate on the dev pairs, log and save, and which parameters become the translator."""

    every_steps: Count | None = None
    """The number of steps from one evaluation to the next; None = derived from max_steps and the size of the corpus."""

    pairs: Count = 200
    """The number of dev pairs that are translated to compute BLEU; the loss is computed over all dev pairs."""

    metric: Metric = "bleu"
    """The metric that decides which evaluation is the best; evaluations of equal BLEU are compared by loss."""

    keep: Kept = "best"
    """Which parameters become the translator: those of the best evaluation, or those of the last.

    Of many evaluations, the best one is partly due to chance. If the learning rate ends near 0, as with cosine, the
    last one is a good choice.
    """

    patience: Count | None = None
    """The number of evaluations in a row without improvement after which training ends; None = derived from the corpus.

    An evaluation is an improvement if its metric is better, or its loss lower, than in all evaluations before it.
    """

    average: Count = 5
    """The number of evaluations whose parameters are averaged: the current evaluation and those before it.

    Each evaluation compares this mean with the current parameters, and uses the parameters with the lower dev loss.
    """

    log_steps: Count = 50
    """The number of steps from one log entry to the next."""

    save_minutes: Positive = 10.0
    """The longest time between checkpoints in minutes; a checkpoint is also saved after every evaluation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """The settings of a training, apart from its text files, its folder and its device.

    >>> TrainConfig(training=Training(seed=3)).training.seed
    3
    """

    data: Data = field(default_factory=Data)
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)
    model: Model = field(default_factory=Model)
    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)


def table_name(section: type) -> str:
    """Return the TOML table name of a section's class, e.g. "vocabulary" for VocabularySettings."""
    return next(name for name, hint in get_type_hints(TrainConfig).items() if issubclass(section, hint))


def check_value(value: Any, hint: Any, name: str) -> None:
    """Raise InputError unless the value of a setting has the type and the range of its type hint.

    Args:
        hint: the type of the setting, or this type and None, e.g. Annotated[int, Range(1)] | None.
        name: the name of the setting, for the message.
    """
    if get_origin(hint) in (Union, UnionType):  # such as int | None
        if value is None:
            return
        hint = get_args(hint)[0]
    if get_origin(hint) is tuple:
        if not isinstance(value, tuple) or not value:
            refuse(name, list(value) if isinstance(value, tuple) else value, "a list, such as [1, 2]")
        for member in value:
            check_value(member, get_args(hint)[0], name)
    elif get_origin(hint) is Literal:
        if value not in get_args(hint):
            refuse(name, value, " or ".join(f'"{choice}"' for choice in get_args(hint)))
    elif get_origin(hint) is Annotated:
        number_type, allowed = get_args(hint)
        refuse_type(name, value, number_type)
        if value not in allowed:
            refuse(name, value, f"{TYPE_WORDS[number_type]} {allowed}")
    elif hint in TYPE_WORDS:
        refuse_type(name, value, hint)


def refuse_type(name: str, value: Any, expected: type) -> None:
    is_int_for_float = expected is float and type(value) is int
    if type(value) is not expected and not is_int_for_float:
        refuse(name, value, TYPE_WORDS[expected])


def refuse(name: str, value: Any, allowed: str) -> None:
    """Raise InputError for the setting `name`; `allowed` is a text that says which values are valid."""
    if value is None:
        raise InputError(f"{name} is missing: it must be {allowed}.")
    text = f'"{value}"' if isinstance(value, str) else str(value)
    if isinstance(value, bool):
        text = text.lower()
    if len(text) > LONGEST_VALUE:
        text = text[:LONGEST_VALUE] + "…"
    raise InputError(f"{name} = {text}: it must be {allowed}.")
