"""The config of a recurrent translator: its sizes, and the names of its cell, form, score and kind of attention."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from regard.checks import check_choice, check_count

Cell = Literal["lstm", "gru"]
"""The recurrent cell."""

Form = Literal["luong", "luong_feeding", "bahdanau"]
"""When the decoder attends to the source: after the step of its cell ("luong…"), or before that step ("bahdanau")."""

ScoreName = Literal["dot", "scaled_dot", "general", "additive", "concat", "cosine", "location", "location_aware"]
"""The attention score between a decoder's state (the query) and an encoder's state (the key)."""

Attention = Literal["soft", "hard", "local_m", "local_p"]
"""The keys that get weight: all ("soft"), the best one ("hard"), or those near a centre ("local_m", "local_p")."""

Share = Literal["none", "target"]
"""Which matrices are shared: "none", or "target" = the target embedding and the output projection."""

Value = str | int | float
"""The types of the config's fields; values of these types can be stored as TOML and JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentConfig:
    """The settings from which a `Recurrent` is built.

    Raises:
        ValueError: a size that no model can have, or an unknown name; the message lists the allowed names.

    >>> RecurrentConfig.preset("tiny", n_source_tokens=97, n_target_tokens=89, form="bahdanau", score="additive").cell
    'lstm'
    """

    n_source_tokens: int
    """Size of the source vocabulary."""
    n_target_tokens: int
    """Size of the target vocabulary."""
    d_model: int = 512
    """Width of embeddings, states, context vectors and inputs of the output projection; an even number. The encoder's
    cells in each direction have half this width, so that encoder and decoder states are equally wide."""
    n_layers: int = 1
    """Layers of cells in the encoder, and in the decoder."""
    cell: Cell = "lstm"
    """The cell: "lstm" (Hochreiter & Schmidhuber 1997) or "gru" (Cho et al. 2014)."""
    form: Form = "luong"
    """When the decoder attends to the source: after the step of its cell ("luong…"), or before that step ("bahdanau").

    With "luong_feeding" the next step also reads the attentional vector s̃. The equations are in decoder.py.
    """
    score: ScoreName = "general"
    """The attention score between a decoder's state (the query) and an encoder's state (the key)."""
    attention: Attention = "soft"
    """The keys that get weight: "soft" all, "hard" the best one, "local_m" those near the token's own position,
    "local_p" those near a predicted position."""
    reach: int = 10
    """The number of source positions on each side of the centre to which local attention may attend."""
    share: Share = "target"
    """Which matrices are shared: "none", or "target" = the target embedding and the output projection."""
    dropout: float = 0.2
    """Dropout probability, for embeddings, between layers and before the output projection."""
    max_tokens: int = 1024
    """The largest number of tokens in a text; a "location" score has no parameters for later positions."""

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
            raise ValueError(f"dropout={self.dropout} is a probability; it must be at least 0 and below 1.")

    @classmethod
    def preset(cls, name: str, **fields: Value) -> "RecurrentConfig":
        """Return the config of one of `PRESETS`.

        Args:
            name: the name of the preset.
            fields: the vocabulary sizes, and any other fields whose values replace those of the preset.

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
"""Presets by name. tiny and small suit small corpora and a CPU.

base has the architecture and the size of pytorch-seq2seq's model for Multi30k (GRU, Bahdanau's attention, 20.5 million
parameters); big is the model of Luong et al. 2015, section 4.1.
"""
