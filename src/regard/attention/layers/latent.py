"""Multi-head latent attention: the keys and values of all heads are made from one narrow vector for each token.

    latent     = norm(x W_latent)                  cached for each token
    rotary_key = rotary(x W_rotary_key)            cached too: the same for all heads
    key_h      = [latent W_key_h ; rotary_key]
    value_h    = latent W_value_h
    query_h    = [content_h ; rotary(r_h)]         content_h and r_h are the two parts of x W_query_h
    context_h  = attend(query_h, key_h, value_h)
    output     = [context_1 ; … ; context_n] W_output

With a cache, the keys and values of the heads are not computed again for all cached tokens. Instead, the matrices
W_key_h and W_value_h are applied to the few queries and contexts ("absorbed", as DeepSeek calls it), since

    content_h · (latent W_key_h) = (content_h W_key_hᵀ) · latent
    Σ weight (latent W_value_h)  = (Σ weight latent) W_value_h
"""

from dataclasses import dataclass, replace

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.layers.checks import check_cache, check_tokens
from regard.attention.layers.key_value import with_cached
from regard.attention.layers.multi_head import join_heads, split_heads
from regard.attention.masks import Mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.positions.rotary import Rotary
from regard.attention.pytorch_arguments import NotAPair
from regard.attention.representation import Described
from regard.attention.scores.dot import ScaledDot

QueryKeyValue = tuple[
    Float[Tensor, "batch heads queries width"],
    Float[Tensor, "batch key_heads keys width"],
    Float[Tensor, "batch key_heads keys d_value"],
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Latents(Described):
    """The cache of multi-head latent attention: two vectors for each token.

    Attributes:
        latent: for each token, the vector from which the keys and values of all heads are computed.
        rotary_key: for each token, the part of its key with rotary positions, which is the same for all heads.
    """

    latent: Float[Tensor, "batch tokens d_latent"]
    rotary_key: Float[Tensor, "batch tokens d_rotary"]

    @property
    def n_tokens(self) -> int:
        """The number of cached tokens."""
        return self.latent.shape[1]


class Norm(nn.RMSNorm):
    """An RMS norm, computed in the data type of its weight, also under autocast."""

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


class LatentAttention(nn.Module):
    """Multi-head self-attention that caches only d_latent + d_rotary numbers for each token, for any number of heads.

    Output and pattern are the same with and without a cache. With a cache, the queries attend to the latents, so that
    `attended.context` contains weighted sums of latents, [batch heads queries d_latent].

    Args:
        d_model: width of the input and output tokens.
        n_heads: number of heads.
        d_latent: width of a latent, the vector from which the keys and values of a token are computed.
        d_key: width of the part of a head's keys that is computed from the latent; None = d_model / n_heads.
        d_rotary: width of the other part of a key, which is rotated and shared by all heads; even.
        d_value: width of a head's values; None = d_key.
        d_query_latent: width of one more latent, from which only queries are computed; None = queries are computed
            from the token directly.
        base: base of the rotary frequencies: pair i is rotated by base^(-2 i / d_rotary) radians per position.

    Raises:
        ValueError: d_key is None and n_heads does not divide d_model.

    >>> from regard import Causal, LatentAttention
    >>> attention = LatentAttention(d_model=64, n_heads=8, d_latent=16, d_rotary=4)
    >>> result = attention(torch.randn(2, 10, 64), mask=Causal())
    >>> result.output.shape, result.cache.latent.shape
    (torch.Size([2, 10, 64]), torch.Size([2, 10, 16]))

    Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1 and appendix C; RMS norms on the latents as in the published
    code.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_latent: int,
        d_rotary: int,
        d_key: int | None = None,
        d_value: int | None = None,
        d_query_latent: int | None = None,
        base: float = 10_000.0,
    ) -> None:
        super().__init__()
        if d_key is None and (n_heads < 1 or d_model % n_heads):
            raise ValueError(
                f"d_model={d_model} does not split evenly into n_heads={n_heads}; "
                "give the width of a head's keys as d_key."
            )
        self.d_model, self.n_heads, self.d_latent, self.d_rotary = d_model, n_heads, d_latent, d_rotary
        self.d_key = d_model // n_heads if d_key is None else d_key
        self.d_value = self.d_key if d_value is None else d_value
        self.positions = Rotary(
            base=base, pairing="neighbours", d_rotary=d_rotary
        )  # numbers 2i and 2i + 1 rotate together
        self.score = ScaledDot(scale=(self.d_key + d_rotary) ** -0.5)
        query_width = n_heads * (self.d_key + d_rotary)
        if d_query_latent is None:
            self.to_query: nn.Module = nn.Linear(d_model, query_width, bias=False)
        else:
            down = nn.Linear(d_model, d_query_latent, bias=False)
            norm = Norm(d_query_latent, eps=1e-6)
            self.to_query = nn.Sequential(down, norm, nn.Linear(d_query_latent, query_width, bias=False))
        self.to_latent = nn.Linear(d_model, d_latent, bias=False)
        self.norm = Norm(d_latent, eps=1e-6)
        self.to_rotary_key = nn.Linear(d_model, d_rotary, bias=False)
        self.to_key = nn.Linear(d_latent, n_heads * self.d_key, bias=False)
        self.to_value = nn.Linear(d_latent, n_heads * self.d_value, bias=False)
        self.to_output = nn.Linear(n_heads * self.d_value, d_model, bias=False)
        self.reset_parameters()

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        *,
        mask: Mask | Tensor | None = None,
        cache: Latents | None = None,
        score: ScaledDot | None = None,
        normalise: Normaliser | None = None,
    ) -> "LatentRead":
        """Return the output of self-attention: queries come from x, keys and values from the cached tokens and x.

        Args:
            mask: as for `attend`; broadcasts to [batch heads queries keys], where keys include the cached tokens.
            cache: the latents of the tokens before x, from an earlier call; None = no tokens before x.
            score, normalise: the score and the normaliser of this call; None = `ScaledDot()` and `Softmax()`. In a
                `ScaledDot`, scale None means 1 / sqrt(d_key + d_rotary).

        Raises:
            ValueError: the width of x is not d_model.
        """
        check_tokens(self, "x", x, self.d_model)
        check_cache(cache, Latents)
        latents = self.prepare(x, cache)
        if cache is None:
            query, key, value = self.inputs_by_head(x, latents)
        else:
            query, key, value = self.inputs_from_latents(x, latents)
        score = self.score if score is None else score
        if score.scale is None:
            score = replace(score, scale=self.score.scale)
        normalise = Softmax() if normalise is None else normalise
        attended = attend(query, key, value, score=score, mask=mask, normalise=normalise)
        contexts = attended.context
        if cache is not None:
            contexts = einsum(contexts, self.by_head(self.to_value), "b h q latent, h d latent -> b h q d")
        return LatentRead(output=self.to_output(join_heads(contexts)), attended=attended, cache=latents)

    def prepare(self, x: Float[Tensor, "batch tokens d_model"], cache: Latents | None = None) -> Latents:
        """Return the latents of the cached tokens (None = no tokens), followed by the latents of the tokens x."""
        first = 0 if cache is None else cache.n_tokens
        positions = torch.arange(first, first + x.shape[1], device=x.device)
        rotary_key = self.positions(self.to_rotary_key(x)[:, None], positions)[:, 0]  # as one head
        latent = self.norm(self.to_latent(x))
        if cache is not None:
            latent = with_cached("latents", cache.latent, latent, axis=1)
            rotary_key = with_cached("rotary keys", cache.rotary_key, rotary_key, axis=1)
        return Latents(latent=latent, rotary_key=rotary_key)

    def inputs_by_head(self, x: Float[Tensor, "batch queries d_model"], latents: Latents) -> QueryKeyValue:
        """Return the queries of the tokens x, and the keys and values of all `latents`, for each head."""
        content, rotary = self.query_parts(x, latents.n_tokens)
        key_content = split_heads(self.to_key(latents.latent), self.n_heads)
        rotary_key = latents.rotary_key[:, None].expand(-1, self.n_heads, -1, -1)
        value = split_heads(self.to_value(latents.latent), self.n_heads)
        return torch.cat([content, rotary], dim=-1), torch.cat([key_content, rotary_key], dim=-1), value

    def inputs_from_latents(self, x: Float[Tensor, "batch queries d_model"], latents: Latents) -> QueryKeyValue:
        """Return the queries of the tokens x, and one head of keys and values (`latents`) that all query heads share.

        The key of a token is its latent, followed by its rotary key; its value is the latent. The content part of each
        query is multiplied by W_keyᵀ of its head: content · (latent W_key) = (content W_keyᵀ) · latent.
        """
        content, rotary = self.query_parts(x, latents.n_tokens)
        latent_query = einsum(content, self.by_head(self.to_key), "b h q d, h d latent -> b h q latent")
        key = torch.cat([latents.latent, latents.rotary_key], dim=-1)
        return torch.cat([latent_query, rotary], dim=-1), key[:, None], latents.latent[:, None]

    def query_parts(self, x: Float[Tensor, "batch queries d_model"], n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the queries of x in every head: the content part, and the part with rotary positions.

        Args:
            n_keys: the number of all tokens, including cached tokens; the tokens of x are the last of them.
        """
        query = split_heads(self.to_query(x), self.n_heads)
        content, rotary = torch.split(query, [self.d_key, self.d_rotary], dim=-1)
        return content, self.positions(rotary, torch.arange(n_keys - x.shape[1], n_keys, device=x.device))

    def by_head(self, projection: nn.Linear) -> Float[Tensor, "heads d d_latent"]:
        """Return the weight matrix of a projection from latents to all heads, as one matrix for each head."""
        return rearrange(projection.weight, "(heads d) latent -> heads d latent", heads=self.n_heads)

    def reset_parameters(self) -> None:
        """Initialise projections by the Xavier uniform distribution (Glorot & Bengio 2010), and norms to 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
            elif isinstance(module, Norm):
                module.reset_parameters()

    def extra_repr(self) -> str:
        return (
            f"n_heads={self.n_heads}, d_latent={self.d_latent}, d_rotary={self.d_rotary}, "
            f"d_key={self.d_key}, d_value={self.d_value}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LatentRead(NotAPair, Described):
    """The result of multi-head latent attention.

    Attributes:
        output: the contexts of all heads, joined and projected.
        attended: the result of `attend`: the context of every head, and the pattern (attention weights).
        cache: the latents of all tokens so far, for the argument `cache` of the call with the next tokens.
    """

    output: Float[Tensor, "batch queries d_model"]
    attended: Attended
    cache: Latents

    @property
    def pattern(self) -> Pattern:
        """The attention weights of every head, as a lazy `Pattern`."""
        return self.attended.pattern
