"""Multi-head attention: several heads look at the same tokens, each in a narrower space of its own.

    query, key, value = x W_q, memory W_k, memory W_v          each split into heads of width d_head
    context_h = attend(query_h, key_h, value_h)
    output    = [context_1 ; … ; context_n] W_o

Self-attention reads its own tokens (memory is x), cross-attention another text's. Source: Vaswani et al. 2017, 3.2.2.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.grid.grid import divisors
from regard.attention.masks import Mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.positions.rotary import Rotary
from regard.attention.representation import type_name
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.stages import modules_in, parameters_in, replace_parameters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyValue:
    """Tokens as keys and values of each head, so that they are projected once and looked at many times."""

    key: Float[Tensor, "batch key_heads keys d_head"]
    value: Float[Tensor, "batch key_heads keys d_head"]

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return self.key.shape[2]

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValue":
        """The keys and values of some rows of the batch, in the order asked for."""
        return KeyValue(key=self.key.index_select(0, rows), value=self.value.index_select(0, rows))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MultiHeadRead:
    """What a multi-head attention gave, and how it looked.

    Attributes:
        output: the heads' contexts, joined and projected.
        attended: the contexts of the heads and their pattern.
        cache: the keys and values that were looked at; the next tokens of the text take them as their cache.
    """

    output: Float[Tensor, "batch queries d_model"]
    attended: Attended
    cache: KeyValue

    @property
    def pattern(self) -> Pattern:
        """Who looked at whom, in every head."""
        return self.attended.pattern


class MultiHeadAttention(nn.Module):
    """Heads that attend side by side, with their projections.

    Departure: a head's scores are divided by √d_head, as in the paper; a class that divides by √d_model (as some
    tutorials do) flattens the weights as heads are added, and is had with score=ScaledDot(scale=d_model**-0.5).

    Args:
        d_model: width of the tokens that come in and go out.
        n_heads: how many heads; must divide d_model, and d_head = d_model / n_heads.
        n_key_heads: how many heads keys and values have, each serving a group of queries' heads; None = n_heads.
        positions: turns queries and keys to their positions; None = no positions.
        dropout: the chance that a weight is dropped in training.

    Raises:
        ValueError: head counts that do not divide; the message names those that do.
        TypeError: positions that do not turn queries and keys.

    >>> import torch
    >>> from regard import Causal, MultiHeadAttention
    >>> read = MultiHeadAttention(d_model=512, n_heads=8)(torch.randn(2, 10, 512), mask=Causal())
    >>> read.output.shape, read.pattern
    (torch.Size([2, 10, 512]), Pattern(batch=2, heads=8, queries=10, keys=10, mask=Causal()))

    Source: Vaswani et al. 2017, section 3.2.2; grouped heads: Ainslie et al. 2023, section 2.2.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_key_heads: int | None = None,
        score: Score = ScaledDot(),  # noqa: B008 (frozen)
        normalise: Normaliser = Softmax(),  # noqa: B008 (frozen)
        positions: Rotary | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        n_key_heads = n_heads if n_key_heads is None else n_key_heads
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(
                f"d_model={d_model} does not split evenly into n_heads={n_heads}; "
                f"head counts that divide it: {divisors(d_model)}."
            )
        if n_key_heads < 1 or n_heads % n_key_heads:
            raise ValueError(
                f"n_heads={n_heads} does not split evenly into groups for n_key_heads={n_key_heads}; "
                f"head counts that divide it: {divisors(n_heads)}."
            )
        self.d_model, self.n_heads, self.n_key_heads = d_model, n_heads, n_key_heads
        self.d_head = d_model // n_heads
        self.score, self.normalise, self.positions, self.dropout = score, normalise, positions, dropout
        if not isinstance(positions, Rotary | None):
            raise TypeError(
                f"positions is {type_name(positions)}; it takes an object such as Rotary(), which turns queries and "
                "keys. Vectors that are added to tokens (LearnedPositions, sinusoidal) are added before this layer."
            )
        self.hold(score, normalise)
        self.to_query = nn.Linear(d_model, d_model)
        self.to_key = nn.Linear(d_model, n_key_heads * self.d_head)
        self.to_value = nn.Linear(d_model, n_key_heads * self.d_head)
        self.to_output = nn.Linear(d_model, d_model)
        self.reset_parameters()

    def hold(self, *parts: Score | Normaliser) -> None:
        """Train, move and save with this module what its parts hold: a RelativeBias, or sinks that are a parameter."""
        rules = [part for part in parts if not isinstance(part, nn.Module)]
        modules = [module for part in rules for module in modules_in(part)]
        parameters = [parameter for part in rules for parameter in parameters_in(part)]
        if modules:
            self.held = nn.ModuleList(modules)
        if parameters:
            self.held_parameters = nn.ParameterList(parameters)

    def reset_parameters(self) -> None:
        """Projections from a uniform distribution that keeps their output's size, biases 0 (Glorot & Bengio 2010)."""
        for projection in (self.to_query, self.to_key, self.to_value, self.to_output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same attention as a torch.nn.MultiheadAttention, its parameters copied.

        Raises:
            ValueError: a module with something that this class does not have; the message says what.
            TypeError: another module.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(f"from_torch takes an nn.MultiheadAttention; got {type_name(module)}.")
        extras = {
            "kdim or vdim other than embed_dim": not module._qkv_same_embed_dim,
            "bias=False": module.in_proj_bias is None,
            "add_bias_kv": module.bias_k is not None,
            "add_zero_attn": module.add_zero_attn,
        }
        if any(extras.values()):
            has = " and ".join(name for name, present in extras.items() if present)
            raise ValueError(f"this nn.MultiheadAttention has {has}, which MultiHeadAttention cannot take over.")
        copy = cls(module.embed_dim, module.num_heads, dropout=module.dropout)
        copy.to(module.in_proj_weight)
        with torch.no_grad():
            weights, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
            for into, weight, bias in zip((copy.to_query, copy.to_key, copy.to_value), weights, biases, strict=True):
                into.weight.copy_(weight)
                into.bias.copy_(bias)
            copy.to_output.load_state_dict(module.out_proj.state_dict())
        return copy.train(module.training)

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        memory: Float[Tensor, "batch keys d_model"] | KeyValue | None = None,
        *,
        mask: Mask | Tensor | None = None,
        cache: KeyValue | None = None,
    ) -> MultiHeadRead:
        """Let the tokens of x look at those of memory, or at each other where there is none.

        Args:
            memory: the tokens to look at, or, projected once by `prepare`, their keys and values.
            mask: as for `attend`; it broadcasts to [batch heads queries keys], the keys of the cache included.
            cache: keys and values of the tokens before x, as an earlier read of self-attention gave them.

        Raises:
            ValueError: tokens of another width; memory and cache together: a cache is the past of x itself.
        """
        check_tokens(self, "x", x, self.d_model)
        check_tokens(self, "memory", memory, self.d_model)
        if memory is not None and cache is not None:
            raise ValueError(
                "got memory and cache; a cache holds the tokens before x, so self-attention alone takes it."
            )
        known = memory if isinstance(memory, KeyValue) else self.prepare(x if memory is None else memory, cache)
        query = split(self.to_query(x), self.n_heads)
        if self.positions is not None:
            query = self.positions(query, places(x.shape[1], known.n_tokens - x.shape[1], x.device))
        held = iter(getattr(self, "held_parameters", ()))
        score, normalise = replace_parameters(self.score, held), replace_parameters(self.normalise, held)
        attended = attend(
            query,
            known.key,
            known.value,
            score=score,
            mask=mask,
            normalise=normalise,
            dropout=self.dropout if self.training else 0.0,
        )
        joined = attended.context.transpose(1, 2).flatten(2)
        return MultiHeadRead(output=self.to_output(joined), attended=attended, cache=known)

    def prepare(self, memory: Float[Tensor, "batch tokens d_model"], cache: KeyValue | None = None) -> KeyValue:
        """The keys and values of some tokens, put behind those of a cache, to be looked at many times."""
        key, value = split(self.to_key(memory), self.n_key_heads), split(self.to_value(memory), self.n_key_heads)
        if self.positions is not None:
            key = self.positions(key, places(memory.shape[1], 0 if cache is None else cache.n_tokens, memory.device))
        if cache is None:
            return KeyValue(key=key, value=value)
        return KeyValue(key=torch.cat([cache.key, key], dim=2), value=torch.cat([cache.value, value], dim=2))

    def extra_repr(self) -> str:
        """Sizes and whatever is not its default; parts with parameters show themselves among the modules."""
        given = [f"n_heads={self.n_heads}", f"d_head={self.d_head}"]
        if self.n_key_heads != self.n_heads:
            given.append(f"n_key_heads={self.n_key_heads}")
        parts = {"score": self.score, "normalise": self.normalise, "positions": self.positions}
        defaults = "ScaledDot()", "Softmax()", "None"
        given += [
            f"{name}={part!r}"
            for name, part in parts.items()
            if not isinstance(part, nn.Module) and repr(part) not in defaults
        ]
        return ", ".join(given)


def check_tokens(module: nn.Module, name: str, tokens: Tensor | KeyValue | None, d_model: int) -> None:
    """Refuse tokens that are not those of a batch, or of another width than the layer's."""
    if isinstance(tokens, Tensor) and (tokens.ndim != 3 or tokens.shape[2] != d_model):
        raise ValueError(
            f"{name} has shape {list(tokens.shape)}; this {type(module).__name__} takes [batch tokens {d_model}]."
        )


def split(projected: Float[Tensor, "batch tokens width"], heads: int) -> Float[Tensor, "batch heads tokens d_head"]:
    """Projected tokens as vectors of each head."""
    return torch.unflatten(projected, 2, (heads, -1)).transpose(1, 2)


def places(n_tokens: int, first: int, device: torch.device) -> Int[Tensor, " tokens"]:
    """The positions of consecutive tokens; those before position 0 are negative."""
    return torch.arange(first, first + n_tokens, device=device)
