"""The configuration of a Transformer: its sizes, and one name for every choice that the papers left open."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from regard.attention.grid.grid import divisors
from regard.checks import check_choice, check_count
from regard.transformer.feed_forward import Activation

Norm = Literal["post", "pre"]
"""The norm of a block: the sum of a sublayer's input and output ("post", the paper) or its input ("pre")."""

Position = Literal["sinusoidal", "learned", "rotary"]
"""How positions enter: added to the tokens' vectors, or by rotating queries and keys."""

Share = Literal["none", "target", "all"]
"""Which of the three token matrices (source embedding, target embedding, output projection) are one."""

Value = str | int | float | None
"""The type of a field; TOML and JSON can express it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """Sizes and choices of a `Transformer`, or of an `Encoder` or `Decoder` alone.

    Raises:
        ValueError: sizes that do not fit together, or an unknown choice; the message names what would do.

    >>> TransformerConfig.preset("big", n_source_tokens=37_000, n_target_tokens=37_000).d_head
    64
    """

    n_source_tokens: int = 0
    """Size of the source vocabulary; 0 = there is no source, and a decoder is a language model."""
    n_target_tokens: int = 0
    """Size of the target vocabulary; 0 = there is no target, only an encoder."""
    d_model: int = 512
    """Width of a token's vector."""
    n_heads: int = 8
    """Heads of every attention."""
    n_key_heads: int | None = None
    """Heads that keys and values have, each serving a group of heads of queries; None = n_heads."""
    d_ff: int = 2048
    """Width inside the feed-forward networks; a gated one has it twice, for values and for gates."""
    n_layers: int = 6
    """Blocks of the encoder."""
    n_decoder_layers: int | None = None
    """Blocks of the decoder; None = n_layers."""
    norm: Norm = "pre"
    """The norm of a block: "post", the sum of a sublayer's input and output (the paper), or "pre", its input
    (easier to train)."""
    positions: Position = "sinusoidal"
    """How positions enter: "sinusoidal" or "learned" vectors added to the tokens', or "rotary" self-attention."""
    activation: Activation = "relu"
    """Activation of the feed-forward networks; `feed_forward.py` lists them."""
    share: Share = "target"
    """Which token matrices are one: "none", "target" (embedding and output projection), "all" (the source's too)."""
    dropout: float = 0.1
    """The probability that a number of an embedding or of a sublayer's output is dropped in training."""
    attention_dropout: float = 0.0
    """The probability that an attention weight is dropped in training; the paper drops none."""
    max_tokens: int = 1024
    """The longest text: learned positions end there."""

    def __post_init__(self) -> None:
        for name in ("n_source_tokens", "n_target_tokens"):
            check_count(name, getattr(self, name), least=0)
        for name in ("d_model", "n_heads", "d_ff", "n_layers", "max_tokens"):
            check_count(name, getattr(self, name), least=1)
        for name in ("n_key_heads", "n_decoder_layers"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)
        for name, kind in {"norm": Norm, "positions": Position, "activation": Activation, "share": Share}.items():
            check_choice(name, getattr(self, name), list(get_args(kind)))
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is a probability; it must be at least 0 and below 1.")
        self._check_heads()
        self._check_vocabularies()

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.d_model // self.n_heads

    @classmethod
    def preset(cls, name: str, **fields: Value) -> "TransformerConfig":
        """Return one of `PRESETS`, with some fields changed, the vocabularies' sizes among them.

        Raises:
            ValueError: no preset has this name.
        """
        check_choice("preset", name, list(PRESETS))
        return cls(**{**PRESETS[name], **fields})  # type: ignore[arg-type]

    def _check_heads(self) -> None:
        key_heads = self.n_heads if self.n_key_heads is None else self.n_key_heads
        for whole, n, parts, n_parts in (
            ("d_model", self.d_model, "n_heads", self.n_heads),
            ("n_heads", self.n_heads, "n_key_heads", key_heads),
        ):
            if n % n_parts:
                raise ValueError(
                    f"{whole}={n} does not split evenly over {parts}={n_parts}; counts that divide it: {divisors(n)}."
                )
        if self.positions == "rotary" and self.d_head % 2:
            raise ValueError(
                f"positions='rotary' turn pairs of numbers, and d_model={self.d_model} over n_heads={self.n_heads} "
                f"leaves a head {self.d_head}; its width must be even."
            )

    def _check_vocabularies(self) -> None:
        if not self.n_source_tokens and not self.n_target_tokens:
            raise ValueError(
                "n_source_tokens=0 and n_target_tokens=0 leave nothing to read; give the size of the source "
                "vocabulary, of the target vocabulary, or of both."
            )
        if self.share == "all" and self.n_source_tokens != self.n_target_tokens:
            raise ValueError(
                f"share='all' makes the source's embedding the target's, so n_source_tokens={self.n_source_tokens} "
                f"and n_target_tokens={self.n_target_tokens} must be the same; with two vocabularies take "
                "share='target' or share='none'."
            )


PAPER: Mapping[str, Value] = {"norm": "post", "share": "all"}

PRESETS: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_layers": 4, "share": "all", "dropout": 0.3},
        "small": {"d_model": 256, "n_heads": 4, "d_ff": 1024, "n_layers": 4, "share": "all", "dropout": 0.2},
        "base": {**PAPER, "d_model": 512, "n_heads": 8, "d_ff": 2048, "n_layers": 6, "dropout": 0.1},
        "big": {**PAPER, "d_model": 1024, "n_heads": 16, "d_ff": 4096, "n_layers": 6, "dropout": 0.3},
    }
)
"""Sizes by name. base and big are the paper's (Vaswani et al. 2017, table 3); tiny and small suit small corpora."""
