"""The settings that a user gives for a training, in five sections; None means "derive", and each field says from what.

The sections are the tables of a TOML file: `training.seed` is the field `seed` of `[training]`. Recipes (settle.py)
derive the settings that are None and return a SettledConfig, which a training's folder keeps in config.toml.
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
Precision = Literal["float32", "bfloat16"]
Plain = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a setting allows, both ends included."""

    least: int | float
    most: int | float = inf

    def __contains__(self, value: int | float) -> bool:
        return self.least <= value <= self.most and isfinite(value)

    def __str__(self) -> str:
        return f"at least {self.least:,}" if self.most == inf else f"between {self.least:,} and {self.most:,}"


@dataclass(frozen=True, slots=True)
class Above:
    """The numbers greater than a limit."""

    below: int | float

    def __contains__(self, value: int | float) -> bool:
        return value > self.below and isfinite(value)

    def __str__(self) -> str:
        return f"above {self.below:g}"


Count = Annotated[int, Range(1)]
CountOrZero = Annotated[int, Range(0)]
Positive = Annotated[float, Above(0)]
NotNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 0.99)]
Length = Annotated[int, Range(2)]
BatchTokens = Annotated[int, Range(8)]


class Section:
    """A table of settings, which checks its values when it is created."""

    __slots__ = ()

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for setting in fields(self):  # type: ignore[arg-type]
            check(getattr(self, setting.name), hints[setting.name], f"{name_of(type(self))}.{setting.name}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Data(Section):
    """The pairs to learn from, and the dev pairs, which evaluations use."""

    dev_source: str | None = None
    """A file with the source sentences of the dev pairs; None = the dev pairs are held out of the corpus."""

    dev_target: str | None = None
    """A file with the translations of `dev_source`, line by line."""

    dev_pairs: Count | None = None
    """The number of dev pairs that are held out of the corpus; None = one in twenty, at most 1,000."""

    max_tokens: Length | None = None
    """The most pieces of a sentence to learn from; a pair with a longer one is left out and counted. None = 256, or the
    model's max_tokens less one for the end of the sentence."""

    max_ratio: Annotated[float, Range(1)] = 9.0
    """The largest ratio between the lengths of a pair's sentences; other pairs are left out and counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularySettings(Section):
    """The pieces that SentencePiece cuts texts into."""

    n_tokens: Annotated[int, Range(16)] | None = None
    """The number of pieces in each vocabulary; None = as many as suit the text of each (vocabulary_size.py)."""

    joint: bool | None = None
    """One vocabulary for both languages; None = yes if the languages have at least half of their letters in common."""

    coverage: Annotated[float, Range(0.9, 1)] = 1.0
    """The share of the corpus's characters that get a piece; less than 1 for scripts of very many characters."""

    bpe_dropout: Annotated[float, Range(0, 1)] = 0.0
    """The probability that a merge of BPE is skipped, in every epoch anew; 0.05 makes about a fifth more pieces.
    Batches are filled by the pieces without dropout, and so have more than batch_tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(Section):
    """The model to train."""

    kind: Kind = "transformer"
    """The Transformer, or a recurrent encoder and decoder with attention."""

    preset: str | None = None
    """The model's size by name: tiny, small, base, big; None = by the size of the corpus and the device."""

    start_from: str | None = None
    """The folder of a translator whose vocabularies, model and parameters training begins with; None = a new model."""

    changes: Mapping[str, Plain | None] = field(default_factory=dict)
    """Settings that differ from the preset, by their names in TransformerConfig or RecurrentConfig."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training(Section):
    """The optimisation; a setting that is None follows from the size of the corpus and the device."""

    seed: Annotated[int, Range(0, 2**63 - 2)] = 1
    """The seed of all random numbers: initial parameters, the order of the pairs, dropout."""

    batch_tokens: BatchTokens | None = None
    """The most tokens of a batch on its larger side, padding counted; all processes share a batch."""

    accumulate: Count = 1
    """The number of batches whose gradients are added up before a step: accumulate · batch_tokens tokens a step."""

    learning_rate: Positive | None = None
    """The peak of the learning rate."""

    schedule: ScheduleName | None = None
    """The course of the learning rate after the warm-up."""

    warmup_steps: CountOrZero | None = None
    """The number of steps in which the learning rate rises to its peak."""

    label_smoothing: Share = 0.1
    """The share of every label's probability that is spread over all tokens."""

    r_drop: NotNegative = 0.0
    """R-Drop's α, the weight of the divergence between two predictions of a pair with different dropout; 5 is usual for
    translation, 0 = one prediction of each pair. With R-Drop a step takes about twice as long."""

    clip_norm: NotNegative = 1.0
    """The largest norm of a step's gradient, to which longer gradients are scaled; 0 = no clipping."""

    weight_decay: NotNegative = 0.01
    """AdamW's weight decay, for matrices; biases, norms and embeddings do not decay."""

    max_steps: Count | None = None
    """The number of steps after which training ends."""

    max_minutes: Positive | None = None
    """The minutes after which training ends, earlier runs included; None = no limit."""

    precision: Precision | None = None
    """The type that matrices are multiplied in; None = bfloat16 on a GPU that has it, float32 elsewhere."""

    shard: bool | None = None
    """Shard parameters, gradients and the optimiser's state over the processes (FSDP), for a model too large for one
    device; None = if Accelerate's config asks for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation(Section):
    """The evaluations on the dev pairs, and the parameters that become the translator."""

    every_steps: Count | None = None
    """The number of steps from one evaluation to the next; None = by the size of the corpus."""

    pairs: Count = 200
    """The number of dev pairs that are translated for BLEU; the loss is over all dev pairs."""

    metric: Metric = "bleu"
    """The metric of the best parameters; the loss decides if BLEU is equal."""

    keep: Kept = "best"
    """The parameters that become the translator: the best, or the last. Of many evaluations the best is partly so by
    chance; a schedule that ends low, such as cosine, suits the last."""

    patience: Count | None = None
    """The number of evaluations in a row, none better than all before in its metric or its loss, after which training
    ends; None = by the size of the corpus."""

    average: Count = 5
    """The number of latest evaluations whose parameters are averaged. Each evaluation takes the mean or the current
    parameters, whichever has the lower dev loss."""

    log_steps: Count = 50
    """The number of steps from one line of the log to the next."""

    save_minutes: Positive = 10.0
    """The most minutes between checkpoints; every evaluation saves one as well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """All settings of a training except its two files, its folder and its device.

    >>> TrainConfig(training=Training(seed=3)).training.seed
    3
    """

    data: Data = field(default_factory=Data)
    """[data]"""

    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)
    """[vocabulary]"""

    model: Model = field(default_factory=Model)
    """[model]"""

    training: Training = field(default_factory=Training)
    """[training]"""

    evaluation: Evaluation = field(default_factory=Evaluation)
    """[evaluation]"""


def name_of(section: type) -> str:
    """Return the name of a section's table, e.g. vocabulary."""
    return next(name for name, hint in get_type_hints(TrainConfig).items() if issubclass(section, hint))


def check(value: Any, hint: Any, name: str) -> None:
    """Raise InputError unless a value has the type of its setting and is in its range."""
    kinds = [kind for kind in alternatives(hint) if kind is not type(None)]
    if value is None and len(kinds) < len(alternatives(hint)):
        return
    for kind in kinds:
        if get_origin(kind) is Literal:
            if value not in get_args(kind):
                refuse(name, value, " or ".join(f'"{choice}"' for choice in get_args(kind)))
        elif get_origin(kind) is Annotated:
            plain, allowed = get_args(kind)
            refuse_type(name, value, plain)
            if value not in allowed:
                refuse(name, value, f"{TYPE_WORDS[plain]} {allowed}")
        elif kind in TYPE_WORDS:
            refuse_type(name, value, kind)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself if it is not a union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


LONGEST_VALUE = 80
"""A message shows at most this many characters of a value."""

TYPE_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def refuse_type(name: str, value: Any, kind: type) -> None:
    """Raise InputError unless a value has the type; a whole number is a number, but true is not 1."""
    if not (type(value) is kind or (kind is float and type(value) is int)):
        refuse(name, value, TYPE_WORDS[kind])


def refuse(name: str, value: Any, allowed: str) -> None:
    """Raise InputError with the value of a setting and the values it allows."""
    if value is None:
        raise InputError(f"{name} is missing: it must be {allowed}.")
    shown = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else value
    text = str(shown)
    raise InputError(
        f"{name} = {text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + '…'}: it must be {allowed}."
    )
