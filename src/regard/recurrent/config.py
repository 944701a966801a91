"""The config of a recurrent translator: its sizes, and which cell, decoder form and attention it has."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from regard.checks import check_choice, check_count, check_probability

# The docstrings of the fields of RecurrentConfig explain these names
Cell = Literal["lstm", "gru"]
Form = Literal["luong", "luong_feeding", "bahdanau"]
ScoreName = Literal["dot", "scaled_dot", "general", "additive", "concat", "cosine", "location", "location_aware"]
Attention = Literal["soft", "hard", "local_m", "local_p"]
Share = Literal["none", "target"]

Value = str | int | float
"""The types of the config's fields; values of these types can be stored as TOML and JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentConfig:
    """The settings from which a `Recurrent` is built.

    Raises:
        ValueError: a size is out of range, or a name is unknown. The message says what is allowed.

    >>> RecurrentConfig.preset("tiny", n_source_tokens=97, n_target_tokens=89, form="bahdanau", score="additive").cell
    'lstm'
    """

    n_source_tokens: int
    """Size of the source vocabulary."""
    n_target_tokens: int
    """Size of the target vocabulary."""
    d_model: int = 512
    """Width of embeddings, states, context vectors and inputs of the output projection; an even number. In the encoder,
    the forward cells have half of this width, and the backward cells the other half."""
    n_layers: int = 1
    """Number of layers of cells, both in the encoder and in the decoder."""
    cell: Cell = "lstm"
    """The cell: "lstm" (Hochreiter & Schmidhuber 1997) or "gru" (Cho et al. 2014)."""
    form: Form = "luong"
    """When the decoder attends to the source: before the step of its cell ("bahdanau") or after this step ("luong").

    "luong_feeding" is "luong" with input feeding: context vector and state, combined, are an input of the next step.
    """
    score: ScoreName = "general"
    """The attention score between a decoder's state q (the query) and an encoder's state k (the key).

    "dot": q·k. "scaled_dot": q·k / √d_model. "general": q·W k. "additive": v·tanh(W q + U k). "concat":
    v·tanh(W [q ; k]). "cosine": the cosine of q and k, times a trained factor. "location": entry j of the vector W q,
    for the key at position j. "location_aware": "additive", with the attention weights of the previous decoder step as
    a further input.
    """
    attention: Attention = "soft"
    """The keys with nonzero weights: all ("soft"), the one with the largest score ("hard"), those near the position of
    the target token ("local_m"), or those near a predicted position ("local_p")."""
    reach: int = 10
    """The largest distance, in tokens, of a key from the centre of local attention ("local_m", "local_p")."""
    share: Share = "target"
    """Which matrices are shared: "none", or "target" = the target embedding and the output projection."""
    dropout: float = 0.2
    """Dropout probability, for embeddings, between layers and before the output projection."""
    max_tokens: int = 1024
    """The largest number of tokens in a text. A "location" score has parameters for this many positions."""

    def __post_init__(self) -> None:
        counts = ("n_source_tokens", "n_target_tokens", "d_model", "n_layers", "reach", "max_tokens")
        for name in counts:
            check_count(name, getattr(self, name))
        if self.d_model % 2:
            raise ValueError(
                f"d_model={self.d_model} is shared by the two directions of the encoder, so it must be even."
            )
        choices = {"cell": Cell, "form": Form, "score": ScoreName, "attention": Attention, "share": Share}
        for name, literal in choices.items():
            check_choice(name, getattr(self, name), list(get_args(literal)))
        check_probability("dropout", self.dropout)

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
"""The fields that give a model the architecture of Bahdanau et al. 2015."""

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
