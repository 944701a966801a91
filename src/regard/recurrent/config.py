"""What a recurrent translator is built from: sizes, and one name for every choice that the papers left open."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from regard.checks import check_choice, check_count

Cell = Literal["lstm", "gru"]
"""How a state takes a token in."""

Form = Literal["luong", "luong_feeding", "bahdanau"]
"""When the decoder looks; `decoder.py` has the equations."""

ScoreName = Literal["dot", "scaled_dot", "general", "additive", "concat", "cosine", "location", "location_aware"]
"""How well a decoder's state matches an encoder's."""

Attention = Literal["soft", "hard", "local_m", "local_p"]
"""How much of the source a state reads: all in shares, one place, or the places near a centre."""

Share = Literal["none", "target"]
"""Whether the target's embedding and the output projection are one matrix."""

Value = str | int | float
"""What a field holds, so that a config goes into TOML or JSON and back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentConfig:
    """Sizes and choices of a `Recurrent`.

    Raises:
        ValueError: sizes that cannot be, or an unknown choice; the message names what would do.

    >>> RecurrentConfig.preset("tiny", n_source_tokens=97, n_target_tokens=89, form="bahdanau", score="additive").cell
    'lstm'
    """

    n_source_tokens: int
    """Size of the source vocabulary."""
    n_target_tokens: int
    """Size of the target vocabulary."""
    d_model: int = 512
    """Width of everything: embeddings, states, what is read and what becomes logits; each direction of the encoder has
    half, so that the decoder's states are as wide as the encoder's."""
    n_layers: int = 1
    """Cells on top of one another, in the encoder and in the decoder."""
    cell: Cell = "lstm"
    """How a state takes a token in: "lstm" (Hochreiter & Schmidhuber 1997) or "gru" (Cho et al. 2014)."""
    form: Form = "luong"
    """When the decoder looks: after its step ("luong"; "luong_feeding" tells the next step what it found), or before it
    ("bahdanau")."""
    score: ScoreName = "general"
    """How well a decoder's state matches an encoder's."""
    attention: Attention = "soft"
    """What it reads: "soft" all, "hard" the best one, "local_m" near its own place, "local_p" near one it predicts."""
    reach: int = 10
    """How far from its centre local attention reads, in tokens."""
    share: Share = "target"
    """Which token matrices are one: "none", or "target" (embedding and output projection)."""
    dropout: float = 0.2
    """The chance that a number of an embedding, between layers or before the logits is dropped in training."""
    max_tokens: int = 1024
    """The longest text; a "location" score has no places past it."""

    def __post_init__(self) -> None:
        counts = ("n_source_tokens", "n_target_tokens", "d_model", "n_layers", "reach", "max_tokens")
        for name in counts:
            check_count(name, getattr(self, name))
        if self.d_model % 2:
            raise ValueError(
                f"d_model={self.d_model} is shared by the two directions of the encoder, so it must be even."
            )
        choices = {"cell": Cell, "form": Form, "score": ScoreName, "attention": Attention, "share": Share}
        for name, kind in choices.items():
            check_choice(name, getattr(self, name), list(get_args(kind)))
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} is a chance; it must be at least 0 and below 1.")

    @classmethod
    def preset(cls, name: str, **fields: Value) -> "RecurrentConfig":
        """One of `PRESETS`, with the vocabularies' sizes and whatever else should differ.

        Raises:
            ValueError: there is no preset of that name.
        """
        check_choice("preset", name, list(PRESETS))
        return cls(**{**PRESETS[name], **fields})  # type: ignore[arg-type]


BAHDANAU: Mapping[str, Value] = {"cell": "gru", "form": "bahdanau", "score": "additive"}

PRESETS: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "tiny": {"d_model": 128, "dropout": 0.1},
        "small": {"d_model": 256, "dropout": 0.2},
        "base": {**BAHDANAU, "d_model": 768, "dropout": 0.5},
        "big": {"d_model": 1000, "n_layers": 4, "form": "luong_feeding", "dropout": 0.2, "share": "none"},
    }
)
"""Sizes by name. tiny and small suit small corpora and a CPU. base has the kind and the size of pytorch-seq2seq's model
for Multi30k (GRU, Bahdanau's attention, 20.5 million parameters); big is Luong et al. 2015, section 4.1."""
