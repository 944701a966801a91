"""Multi-head latent attention: keys and values of all heads are made from one narrow vector for each token.

    latent        = norm(x W_down)                     all that need be kept of a token, with
    turned        = rotary(x W_turned)                 one key for all heads that says where it stands
    key_h         = [latent W_key_h ; turned]
    value_h       = latent W_value_h
    context_h     = attend(query_h, key_h, value_h)    query_h = [plain_h ; rotary(turned_h)]

The products of a query with such keys are those of another query with the latents themselves, plain_h W_key_hᵀ, so that
tokens that come one by one look at the latents and keys and values are never made: that is how a cache is read.

Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.
"""

from dataclasses import dataclass

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.layers.multi_head import check_tokens, places, split
from regard.attention.masks import Mask
from regard.attention.pattern import Pattern
from regard.attention.positions.rotary import Rotary
from regard.attention.scores.dot import ScaledDot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Latents:
    """What is kept of each token: a narrow vector that keys and values are made from, and where it stands."""

    latent: Float[Tensor, "batch tokens d_latent"]
    turned: Float[Tensor, "batch tokens d_rotary"]

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return self.latent.shape[1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentRead:
    """What a latent attention gave, and how it looked.

    Attributes:
        output: the heads' contexts, joined and projected.
        attended: the contexts of the heads and their pattern.
        cache: the latents that were looked at; the next tokens of the text take them as their cache.
    """

    output: Float[Tensor, "batch queries d_model"]
    attended: Attended
    cache: Latents

    @property
    def pattern(self) -> Pattern:
        """Who looked at whom, in every head."""
        return self.attended.pattern


class Norm(nn.RMSNorm):
    """An RMS norm that computes in the type of its own parameters, whatever autocast has made of what comes in."""

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        """The rows, each of size 1 but for its parameters, in the type that they came in."""
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


class LatentAttention(nn.Module):
    """Multi-head self-attention that keeps d_latent + d_rotary numbers of each token, however many heads there are.

    Where a cache is given, the queries look at the latents: the contexts and the pattern are the same, and `attended`
    then holds what was read of the latents, [batch heads queries d_latent], before it becomes values.

    Args:
        d_latent: width of what keys and values are made from.
        d_key: width of the part of a head's keys that comes from the latent; None = d_model / n_heads.
        d_rotary: width of the part that says where a token stands, one for all heads; even.
        d_value: width of a head's values; None = d_key.
        d_query_latent: queries too are made from a narrow vector of this width; None = from the token itself.
        base: how slowly the slowest pair of the rotary part turns.

    Raises:
        ValueError: d_key is to be derived and n_heads does not divide d_model.

    >>> from regard import Causal, LatentAttention
    >>> attention = LatentAttention(d_model=64, n_heads=8, d_latent=16, d_rotary=4)
    >>> read = attention(torch.randn(2, 10, 64), mask=Causal())
    >>> read.output.shape, read.cache.latent.shape
    (torch.Size([2, 10, 64]), torch.Size([2, 10, 16]))

    Source: DeepSeek-AI 2024, section 2.1 and appendix C; RMS norms on the latents as in its published code.
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
        self.positions = Rotary(base=base, pairing="neighbours", d_rotary=d_rotary)
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
        self.to_turned = nn.Linear(d_model, d_rotary, bias=False)
        self.to_key = nn.Linear(d_latent, n_heads * self.d_key, bias=False)
        self.to_value = nn.Linear(d_latent, n_heads * self.d_value, bias=False)
        self.to_output = nn.Linear(n_heads * self.d_value, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Projections from a uniform distribution that keeps their output's size (Glorot & Bengio 2010), norms 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
            elif isinstance(module, Norm):
                module.reset_parameters()

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        *,
        mask: Mask | Tensor | None = None,
        cache: Latents | None = None,
    ) -> LatentRead:
        """Let the tokens of x look at each other, and at those of the cache before them.

        Args:
            mask: as for `attend`; it broadcasts to [batch heads queries keys], the keys of the cache included.
            cache: the latents of the tokens before x, as an earlier read gave them.

        Raises:
            ValueError: tokens of another width.
        """
        check_tokens(self, "x", x, self.d_model)
        known = self.prepare(x, cache)
        query = split(self.to_query(x), self.n_heads)
        plain, turned = query[..., : self.d_key], query[..., self.d_key :]
        turned = self.positions(turned, places(x.shape[1], known.n_tokens - x.shape[1], x.device))
        if cache is None:
            attended = self.read_values(plain, turned, known, mask)
            contexts = attended.context
        else:
            attended = self.read_latents(plain, turned, known, mask)
            contexts = einsum(attended.context, self.by_head(self.to_value), "b h q latent, h d latent -> b h q d")
        joined = rearrange(contexts, "batch heads queries d_value -> batch queries (heads d_value)")
        return LatentRead(output=self.to_output(joined), attended=attended, cache=known)

    def prepare(self, x: Float[Tensor, "batch tokens d_model"], cache: Latents | None = None) -> Latents:
        """What is kept of some tokens, put behind those of a cache."""
        first = 0 if cache is None else cache.n_tokens
        turned = self.positions(self.to_turned(x)[:, None], places(x.shape[1], first, x.device))[:, 0]
        latent = self.norm(self.to_latent(x))
        if cache is None:
            return Latents(latent=latent, turned=turned)
        return Latents(latent=torch.cat([cache.latent, latent], 1), turned=torch.cat([cache.turned, turned], 1))

    def read_values(
        self,
        plain: Float[Tensor, "batch heads queries d_key"],
        turned: Float[Tensor, "batch heads queries d_rotary"],
        known: Latents,
        mask: Mask | Tensor | None,
    ) -> Attended:
        """Look at keys and values made from the latents."""
        key, value = split(self.to_key(known.latent), self.n_heads), split(self.to_value(known.latent), self.n_heads)
        where = known.turned[:, None].expand(-1, self.n_heads, -1, -1)
        return attend(
            torch.cat([plain, turned], dim=-1), torch.cat([key, where], dim=-1), value, score=self.score, mask=mask
        )

    def read_latents(
        self,
        plain: Float[Tensor, "batch heads queries d_key"],
        turned: Float[Tensor, "batch heads queries d_rotary"],
        known: Latents,
        mask: Mask | Tensor | None,
    ) -> Attended:
        """Look at the latents themselves, with queries that have taken up what makes keys of them."""
        absorbed = einsum(plain, self.by_head(self.to_key), "b h q d, h d latent -> b h q latent")
        key = torch.cat([known.latent, known.turned], dim=-1)
        query = torch.cat([absorbed, turned], dim=-1)
        return attend(query, key[:, None], known.latent[:, None], score=self.score, mask=mask)

    def by_head(self, projection: nn.Linear) -> Float[Tensor, "heads d d_latent"]:
        """A projection's parameters, apart for each head."""
        return rearrange(projection.weight, "(heads d) latent -> heads d latent", heads=self.n_heads)

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"n_heads={self.n_heads}, d_latent={self.d_latent}, d_rotary={self.d_rotary}, "
            f"d_key={self.d_key}, d_value={self.d_value}"
        )
