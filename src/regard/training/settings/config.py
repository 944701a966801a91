"""The settings of a training, in five sections; None means "derive", and each field says from what.

The sections are the tables of a TOML file: `training.seed` is the field `seed` of `[training]`. What None becomes
for a corpus and a device is data too, in recipes.py; a training's folder has the result in config.toml.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, isfinite
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.errors import InputError
from regard.training.schedule import ScheduleName

Kind = Literal["transformer", "recurrent"]
Metric = Literal["bleu", "loss"]
Kept = Literal["best", "last"]
Precision = Literal["float32", "bfloat16"]
Plain = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a setting may be, both ends included."""

    least: int | float
    most: int | float = inf

    def __contains__(self, value: int | float) -> bool:
        return self.least <= value <= self.most and isfinite(value)

    def __str__(self) -> str:
        return f"at least {self.least:,}" if self.most == inf else f"between {self.least:,} and {self.most:,}"


@dataclass(frozen=True, slots=True)
class Above:
    """The numbers larger than one."""

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


class Section:
    """A table of settings that checks its values when it is made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for setting in fields(self):  # type: ignore[arg-type]
            check(getattr(self, setting.name), hints[setting.name], f"{name_of(type(self))}.{setting.name}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Data(Section):
    """Which pairs are trained on, and which are kept apart to judge by."""

    dev_source: str | None = None
    """A file of source sentences to judge by; None = some pairs are taken out of the corpus."""

    dev_target: str | None = None
    """Their translations, line by line."""

    dev_pairs: Count | None = None
    """How many pairs are taken out of the corpus to judge by; None = one in twenty, at most 1,000."""

    max_tokens: Annotated[int, Range(2)] | None = None
    """The longest sentence that is learned from, in pieces; a pair with a longer one is left out and counted. None =
    256, or as many as the model has room for."""

    max_ratio: Annotated[float, Range(1)] = 9.0
    """The largest ratio between the lengths of a pair's sentences; pairs past it are left out and counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularySettings(Section):
    """The pieces that texts are cut into, by SentencePiece."""

    n_tokens: Annotated[int, Range(16)] | None = None
    """How many different pieces, in each vocabulary; None = as many as its text can teach."""

    joint: bool | None = None
    """One vocabulary for both languages; None = yes where most letters of the two are the same."""

    coverage: Annotated[float, Range(0.9, 1)] = 1.0
    """The share of the corpus's characters that get a piece; less than 1 for scripts of very many characters."""

    bpe_dropout: Annotated[float, Range(0, 1)] = 0.0
    """The share of BPE's merges that are left out, drawn anew whenever a text to learn from is cut into pieces; 0.05
    makes about a fifth more of them. Batches are made of the pieces without it, and so have more than batch_tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(Section):
    """What is trained."""

    kind: Kind = "transformer"
    """The Transformer, or a recurrent encoder and decoder with attention."""

    preset: str | None = None
    """The model's size by name: tiny, small, base, big; None = by the size of the corpus and the device."""

    start_from: str | None = None
    """The folder of a translator to begin with: its vocabularies, its model, its parameters; None = a new one."""

    changes: Mapping[str, Plain | None] = field(default_factory=dict)
    """What is other than in the preset, by the names of TransformerConfig or RecurrentConfig: d_model, dropout, …"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training(Section):
    """How parameters become better; where None, by the size of the corpus and the device."""

    seed: Annotated[int, Range(0, 2**63 - 2)] = 1
    """Every draw follows from it: first parameters, the order of the pairs, dropout."""

    batch_tokens: Annotated[int, Range(8)] | None = None
    """Tokens of a batch on its larger side, padding counted, shared by all processes."""

    accumulate: Count = 1
    """Batches whose gradients are added up before a step: accumulate · batch_tokens tokens a step."""

    learning_rate: Positive | None = None
    """The peak of the learning rate."""

    schedule: ScheduleName | None = None
    """How the learning rate goes after its climb."""

    warmup_steps: CountOrZero | None = None
    """Steps in which the learning rate climbs to its peak."""

    label_smoothing: Share = 0.1
    """The share of every label that is spread over all tokens."""

    r_drop: NotNegative = 0.0
    """R-Drop's α: how strongly two predictions of a pair, read with different draws of dropout, are pulled together; 5
    is usual for translation, 0 = every pair is read once. A step takes about twice as long."""

    clip_norm: NotNegative = 1.0
    """The largest norm of a step's gradient; longer ones are shortened to it; 0 = none is."""

    weight_decay: NotNegative = 0.01
    """AdamW's, for matrices; not for biases, norms and embeddings."""

    max_steps: Count | None = None
    """The step to stop after."""

    max_minutes: Positive | None = None
    """The minutes to stop after, those of earlier runs counted; None = no limit."""

    precision: Precision | None = None
    """What is multiplied in; None = bfloat16 on a GPU that has it, float32 elsewhere."""

    shard: bool | None = None
    """Share parameters, gradients and the optimiser out over the processes, for a model too large for one device
    (FSDP); None = where Accelerate's config asks for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation(Section):
    """How and when a training is judged on the dev pairs, and what is kept."""

    every_steps: Count | None = None
    """Steps from one evaluation to the next; None = by the size of the corpus."""

    pairs: Count = 200
    """How many of the dev pairs are translated for BLEU; the loss is over all of them."""

    metric: Metric = "bleu"
    """What decides which parameters are best; where BLEU is equal, the loss does."""

    keep: Kept = "best"
    """Which parameters become the translator: the best, or those of the last evaluation. The best of many evaluations
    is so by chance too; a schedule that ends low, such as cosine, is made for the last."""

    patience: Count | None = None
    """Evaluations in a row, none of them better than all before in its metric or its loss, after which training stops;
    None = by the size of the corpus."""

    average: Count = 5
    """The parameters of so many latest evaluations are averaged; whichever has the lower dev loss, their mean or the
    parameters as they are, is what is judged and kept."""

    log_steps: Count = 50
    """Steps from one line of the log to the next."""

    save_minutes: Positive = 10.0
    """A checkpoint is saved at every evaluation, and after so many minutes without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """Everything about a training but its two files, its folder and its device.

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
    """The table of a section, e.g. vocabulary."""
    return next(name for name, hint in get_type_hints(TrainConfig).items() if hint is section)


def check(value: Any, hint: Any, name: str) -> None:
    """Refuse a value that is not of a setting's type, or not in its range.

    Raises:
        InputError: it is not; the message says what may be.
    """
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
    """The types of a union, or the one type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


TYPE_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def refuse_type(name: str, value: Any, kind: type) -> None:
    """Refuse a value of another type; a whole number is a number, but true is not 1."""
    if not (type(value) is kind or (kind is float and type(value) is int)):
        refuse(name, value, TYPE_WORDS[kind])


def refuse(name: str, value: Any, allowed: str) -> None:
    """Say what a setting got and what it takes."""
    shown = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else value
    raise InputError(f"{name} = {shown}: it must be {allowed}.")
