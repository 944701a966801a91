"""The configuration of a Transformer: its sizes, dropout, norms, positions, activation and shared matrices."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from regard.attention.layers.checks import check_sizes
from regard.checks import check_choice, check_count, check_probability
from regard.transformer.feed_forward import Activation

Norm = Literal["post", "pre"]
Position = Literal["sinusoidal", "learned", "rotary"]
Share = Literal["none", "target", "all"]

Value = str | int | float | None
"""The types of the fields of a config. Values of these types can be saved as JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """The configuration of a `Transformer`, an `Encoder` or a `Decoder`.

    Raises:
        ValueError: a field has no allowed value, or two fields do not fit together.

    >>> TransformerConfig.preset("big", n_source_tokens=37_000, n_target_tokens=37_000).d_head
    64
    """

    n_source_tokens: int = 0
    """Size of the source vocabulary; 0 = the decoder is a language model, with no encoder and no cross-attention."""
    n_target_tokens: int = 0
    """Size of the target vocabulary; 0 = the config is for an `Encoder` alone."""
    d_model: int = 512
    """Width of a token's embedding and hidden states."""
    n_heads: int = 8
    """Number of query heads in every attention layer."""
    n_key_heads: int | None = None
    """Number of key and value heads (grouped-query attention), a divisor of n_heads; None = n_heads."""
    d_ff: int = 2048
    """Width of the hidden layer of the feed-forward networks; a gated activation has d_ff gates besides."""
    n_layers: int = 6
    """Number of encoder blocks."""
    n_decoder_layers: int | None = None
    """Number of decoder blocks; None = n_layers."""
    norm: Norm = "pre"
    """The place of the LayerNorm in a block: "pre" = before each sublayer, which is easier to train; "post" = after
    each residual sum, as in Vaswani et al. 2017."""
    positions: Position = "sinusoidal"
    """Position encodings: "sinusoidal" or "learned" vectors added to the token embeddings, or "rotary", which rotates
    the queries and keys of self-attention."""
    activation: Activation = "relu"
    """Activation of the feed-forward networks; `regard.transformer.feed_forward.Activation` describes each."""
    share: Share = "target"
    """Which vocabulary matrices share parameters: "none"; "target", the target embedding and the output projection;
    "all", these two and the source embedding."""
    dropout: float = 0.1
    """Dropout probability of the embeddings and of each sublayer's output."""
    attention_dropout: float = 0.0
    """Dropout probability of the attention weights; 0 in Vaswani et al. 2017."""
    max_tokens: int = 1024
    """The most tokens of a source (EOS included) and of a target (BOS included) that a `Translator` accepts, and the
    number of learned positions. A `Transformer` with sinusoidal or rotary positions can read longer texts."""

    def __post_init__(self) -> None:
        for name in ("n_source_tokens", "n_target_tokens"):
            check_count(name, getattr(self, name), least=0)
        for name in ("d_model", "n_heads", "d_ff", "n_layers", "max_tokens"):
            check_count(name, getattr(self, name), least=1)
        for name in ("n_key_heads", "n_decoder_layers"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)
        choices = {"norm": Norm, "positions": Position, "activation": Activation, "share": Share}
        for name, literal in choices.items():
            check_choice(name, getattr(self, name), list(get_args(literal)))
        for name in ("dropout", "attention_dropout"):
            check_probability(name, getattr(self, name))
        self._check_heads()
        self._check_vocabularies()

    @property
    def d_head(self) -> int:
        """Width of a head's queries, keys and values: d_model / n_heads."""
        return self.d_model // self.n_heads

    @property
    def key_heads(self) -> int:
        """Number of key and value heads: n_key_heads, or n_heads if n_key_heads is None."""
        return self.n_heads if self.n_key_heads is None else self.n_key_heads

    @property
    def decoder_layers(self) -> int:
        """Number of decoder blocks: n_decoder_layers, or n_layers if n_decoder_layers is None."""
        return self.n_layers if self.n_decoder_layers is None else self.n_decoder_layers

    @classmethod
    def preset(cls, name: str, **fields: Value) -> "TransformerConfig":
        """Return the config of a preset, with the given fields replaced.

        Args:
            name: a key of `PRESETS`: "tiny", "small", "base" or "big".
            **fields: fields of the config. No preset has n_source_tokens or n_target_tokens: give at least one of them.

        Raises:
            ValueError: no preset has this name, or the resulting config is invalid.
        """
        check_choice("preset", name, list(PRESETS))
        return cls(**{**PRESETS[name], **fields})  # type: ignore[arg-type]

    def _check_heads(self) -> None:
        check_sizes(self.d_model, self.n_heads, self.key_heads)
        if self.positions == "rotary" and self.d_head % 2:
            raise ValueError(
                f"positions='rotary' rotates pairs of numbers, so that d_model / n_heads must be even; it is "
                f"{self.d_model} / {self.n_heads} = {self.d_head}."
            )

    def _check_vocabularies(self) -> None:
        if not self.n_source_tokens and not self.n_target_tokens:
            raise ValueError(
                "n_source_tokens=0 and n_target_tokens=0 leave the model without a vocabulary; give the size of "
                "the source vocabulary, of the target vocabulary, or of both."
            )
        if self.share == "all" and self.n_source_tokens != self.n_target_tokens:
            raise ValueError(
                "share='all' shares one embedding between source and target, so "
                f"n_source_tokens={self.n_source_tokens} and n_target_tokens={self.n_target_tokens} must be equal; "
                "with two vocabularies take share='target' or share='none'."
            )


VASWANI_2017: dict[str, Value] = {"norm": "post", "share": "all"}

PRESETS: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_layers": 4, "share": "all", "dropout": 0.3},
        "small": {"d_model": 256, "n_heads": 4, "d_ff": 1024, "n_layers": 4, "share": "all", "dropout": 0.2},
        "base": VASWANI_2017 | {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_layers": 6, "dropout": 0.1},
        "big": VASWANI_2017 | {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "n_layers": 6, "dropout": 0.3},
    }
)
"""Presets by name: tiny and small for small corpora, base and big as in Vaswani et al. 2017, table 3."""
