"""Multi-head attention: several heads attend to the same tokens, each through its own projections to a smaller width.

    query, key, value = x W_q, memory W_k, memory W_v          each split into heads of width d_head
    context_h = attend(query_h, key_h, value_h)
    output    = [context_1 ; … ; context_n] W_o

In self-attention, memory is x; in cross-attention, memory is the tokens of another sequence.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.backends.choose import check_dropout
from regard.attention.layers.checks import check_cache, check_positions, check_sizes, check_tokens
from regard.attention.layers.from_torch import (
    check_torch_module,
    copy_projections,
    explain_call_arguments,
    explain_constructor_arguments,
)
from regard.attention.layers.key_value import KeyValue
from regard.attention.masks import Mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.positions.rotary import Rotary
from regard.attention.pytorch_arguments import NotAPair
from regard.attention.representation import Described
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.stages import field_modules, field_parameters, with_parameters

# These functions do not use einops.rearrange, which takes 6 µs instead of 1.5 and would make decoding steps slower.


def split_heads(tokens: Float[Tensor, "batch tokens width"], heads: int) -> Float[Tensor, "batch heads tokens d_head"]:
    return torch.unflatten(tokens, 2, (heads, -1)).transpose(1, 2)


def join_heads(contexts: Float[Tensor, "batch heads tokens d_head"]) -> Float[Tensor, "batch tokens width"]:
    return contexts.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """Multi-head attention with learned projections of queries, keys, values and output.

    Scores are divided by √d_head, as in the paper. Some tutorials divide by √d_model, which makes the weights more
    uniform; `score=ScaledDot(scale=d_model**-0.5)` does so too.

    Args:
        d_model: width of the input and output tokens.
        n_heads: number of heads; must divide d_model, and d_head = d_model / n_heads.
        n_key_heads: number of heads of keys and values, each shared by a group of query heads; None = n_heads.
        score, normalise: the score and the normaliser (rule from scores to weights), as for `attend`.
        positions: the rotary embedding applied to queries and keys; None = no rotary embedding.
        dropout: the probability with which an attention weight is set to 0 in training.
        bias: whether the four projections have biases.

    Raises:
        ValueError: n_heads does not divide d_model, or n_key_heads does not divide n_heads; the message lists the
            divisors; or dropout is not at least 0 and below 1.
        TypeError: a size is not a whole number, or positions is neither a `Rotary` nor None.

    >>> import torch
    >>> from regard import Causal, MultiHeadAttention
    >>> result = MultiHeadAttention(d_model=512, n_heads=8)(torch.randn(2, 10, 512), mask=Causal())
    >>> result.output.shape, result.pattern
    (torch.Size([2, 10, 512]), Pattern(batch=2, heads=8, queries=10, keys=10, mask=Causal()))

    Source: Vaswani et al. 2017, section 3.2.2; grouped heads: Ainslie et al. 2023, section 2.2.
    """

    @explain_constructor_arguments
    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_key_heads: int | None = None,
        score: Score = ScaledDot(),  # noqa: B008 (frozen, so safe to share)
        normalise: Normaliser = Softmax(),  # noqa: B008 (frozen, so safe to share)
        positions: Rotary | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        n_key_heads = n_heads if n_key_heads is None else n_key_heads
        check_sizes(d_model, n_heads, n_key_heads)
        check_positions(positions)
        check_dropout(dropout)
        self.d_model, self.n_heads, self.n_key_heads, self.d_head = d_model, n_heads, n_key_heads, d_model // n_heads
        self.score, self.normalise, self.positions, self.dropout = score, normalise, positions, dropout
        # registers the modules and parameters in score and normaliser (see stages.py); saved models have these names
        self.held, self.held_parameters = field_modules(score, normalise), field_parameters(score, normalise)
        self.to_query = nn.Linear(d_model, d_model, bias)
        self.to_key = nn.Linear(d_model, n_key_heads * self.d_head, bias)
        self.to_value = nn.Linear(d_model, n_key_heads * self.d_head, bias)
        self.to_output = nn.Linear(d_model, d_model, bias)
        self.reset_parameters()

    @explain_call_arguments
    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        memory: Float[Tensor, "batch keys d_model"] | KeyValue | None = None,
        *,
        mask: Mask | Tensor | None = None,
        cache: KeyValue | None = None,
        score: Score | None = None,
        normalise: Normaliser | None = None,
    ) -> "MultiHeadRead":
        """Return the output of attention: the tokens of x attend to memory, or to x itself if memory is None.

        Args:
            memory: the tokens to attend to, or their keys and values as returned by `prepare`.
            mask: as for `attend`; broadcasts to [batch heads queries keys], where keys include the cached tokens.
            cache: keys and values of the tokens before x, from an earlier call of self-attention; None = no tokens
                before x.
            score, normalise: the score and the normaliser of this call; None = the score or normaliser of the layer.

        Raises:
            ValueError: the width of x or memory is not d_model; or memory and cache are both given, although only
                self-attention has a cache.
            TypeError: cache is not a `KeyValue`.
        """
        check_tokens(self, "x", x, self.d_model)
        check_tokens(self, "memory", memory, self.d_model)
        check_cache(cache, KeyValue)
        if memory is not None and cache is not None:
            raise ValueError("got both memory and cache; give memory for cross-attention, or cache for self-attention.")
        key_value = memory if isinstance(memory, KeyValue) else self.prepare(x if memory is None else memory, cache)
        query = split_heads(self.to_query(x), self.n_heads)
        if self.positions is not None:
            # the queries are taken to be the last tokens, in cross-attention too
            first, stop = key_value.n_tokens - x.shape[1], key_value.n_tokens
            query = self.positions(query, torch.arange(first, stop, device=x.device))
        # copies with the registered parameters, which load_state_dict(assign=True) may have replaced
        layer_score, layer_normalise = with_parameters(self.held_parameters, self.score, self.normalise)
        attended = attend(
            query,
            key_value.key,
            key_value.value,
            score=layer_score if score is None else score,
            mask=mask,
            normalise=layer_normalise if normalise is None else normalise,
            dropout=self.dropout if self.training else 0.0,
        )
        output = self.to_output(join_heads(attended.context))
        return MultiHeadRead(output=output, attended=attended, cache=key_value)

    def prepare(self, memory: Float[Tensor, "batch tokens d_model"], cache: KeyValue | None = None) -> KeyValue:
        """Return the cached keys and values, followed by the keys and values of the tokens of `memory`, in every head.

        Args:
            cache: keys and values of the tokens before `memory`; None = `memory` begins at position 0.
        """
        key = split_heads(self.to_key(memory), self.n_key_heads)
        value = split_heads(self.to_value(memory), self.n_key_heads)
        if self.positions is not None:
            first = 0 if cache is None else cache.n_tokens
            key = self.positions(key, torch.arange(first, first + memory.shape[1], device=memory.device))
        tokens = KeyValue(key=key, value=value)
        return tokens if cache is None else cache.append(tokens)

    def reset_parameters(self) -> None:
        """Initialise projections by the Xavier uniform distribution (Glorot & Bengio 2010), and biases to 0."""
        for projection in (self.to_query, self.to_key, self.to_value, self.to_output):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Return a layer that computes what a torch.nn.MultiheadAttention computes, with a copy of its parameters.

        Frozen parameters (requires_grad=False) stay frozen.

        Raises:
            ValueError: the module has an option that this class does not have (the message names the option), or its
                batch_first is False.
            TypeError: module is not a torch.nn.MultiheadAttention.
        """
        check_torch_module(module)
        bias = module.in_proj_bias is not None
        layer = cls(module.embed_dim, module.num_heads, dropout=module.dropout, bias=bias).to(module.in_proj_weight)
        copy_projections(module, layer.to_query, layer.to_key, layer.to_value, layer.to_output)
        return layer.train(module.training)

    def extra_repr(self) -> str:
        options = {"n_heads": self.n_heads, "d_head": self.d_head}
        if self.n_key_heads != self.n_heads:
            options["n_key_heads"] = self.n_key_heads
        for name, default in {"score": ScaledDot(), "normalise": Softmax(), "positions": None}.items():
            part = getattr(self, name)
            if part != default and not isinstance(part, nn.Module):  # nn.Module shows its submodules itself
                options[name] = part
        return ", ".join(f"{name}={value!r}" for name, value in options.items())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MultiHeadRead(NotAPair, Described):
    """The result of multi-head attention.

    Attributes:
        output: the contexts of all heads, joined and projected.
        attended: the result of `attend`: the context of every head, and the pattern (attention weights).
        cache: the keys and values of all tokens attended to, including cached tokens. In self-attention, give it as
            `cache` to the call with the next tokens.
    """

    output: Float[Tensor, "batch queries d_model"]
    attended: Attended
    cache: KeyValue

    @property
    def pattern(self) -> Pattern:
        """The attention weights of every head, as a lazy `Pattern`."""
        return self.attended.pattern
