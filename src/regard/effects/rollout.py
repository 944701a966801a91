"""Attention rollout: how much each input token contributes to a token's vector, through all layers.

    rollout = product of the flows of all layers, from the last to the first

The flow of a layer is a matrix [tokens, tokens]: row i says which fraction (share) of the vector of token i after the
layer comes from each token before the layer. Each row sums to 1.

Source: Abnar & Zuidema 2020, "Quantifying attention flow in transformers", section 3; Kobayashi et al. 2021,
"Incorporating residual and normalization layers into analysis of masked language models".
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.representation import type_name
from regard.effects.contributions import value_vectors
from regard.effects.distance import query_blocks
from regard.effects.movement import LayerStates


class Flow(ABC):
    """A rule for the flow of a layer: the fraction of each token's vector that comes from each token before the layer.

    The flow is a matrix [tokens after the layer, tokens before the layer], in which each row sums to 1.
    """

    needs_states = False
    """Whether the flow is computed from the vectors of the tokens as well as from the attention weights."""

    @abstractmethod
    def back(
        self, pattern: Pattern, states: LayerStates | None, shares: Float[Tensor, " tokens"]
    ) -> Float[Tensor, " tokens"]:
        """Go back from the tokens after a layer to the tokens before it: return shares @ flow.

        `shares` says which fraction of one token's final vector comes from each token after this layer. The result says
        which fraction comes from each token before this layer.

        Args:
            pattern: the self-attention pattern of this layer, with one batch item.
            states: the vectors of the tokens in this layer; may be None if `needs_states` is False.
        """


@dataclass(frozen=True, slots=True)
class HeadMean(Flow):
    """A rule for rollouts: half of a token's vector comes from the token itself, half from what its heads attend to.

        flow = mean of the heads' weights + identity, each row divided by its sum

    Source: Abnar & Zuidema 2020, section 3.
    """

    def back(
        self, pattern: Pattern, states: LayerStates | None, shares: Float[Tensor, " tokens"]
    ) -> Float[Tensor, " tokens"]:
        _, heads, n_tokens, _ = pattern.shape
        ones = pattern.value.new_ones(1, 1, n_tokens, 1, dtype=pattern.call.weights_dtype)
        row_sums = pattern.apply(ones)[0, :, :, 0].double().mean(dim=0).cpu()  # of the weights; below 1 with sinks
        shares = shares / (1 + row_sums)  # 1 is the identity's row sum
        vectors = shares.to(ones).expand(1, heads, n_tokens)
        through_heads = pattern.back(vectors)[0]  # vectors @ weights, for each head
        return shares + through_heads.double().mean(dim=0).cpu()


@dataclass(frozen=True, slots=True)
class VectorLengths(Flow):
    """A rule for rollouts: the fraction of token i that comes from token j is proportional to the norm of what j adds.

    Token j adds to token i the sum over heads of weight · value · W_O. For j = i, the token's own vector is added to
    this sum. So a large weight on a token whose value has a small norm, such as a separator, counts little.

    Departure: unlike in the source, layer norms are left out; so is the feed-forward network. Neither mixes tokens.

    Source: Kobayashi et al. 2021, section 3.
    """

    needs_states = True

    def back(
        self, pattern: Pattern, states: LayerStates | None, shares: Float[Tensor, " tokens"]
    ) -> Float[Tensor, " tokens"]:
        assert states is not None
        added = value_vectors(pattern, states.projection.weight.double().cpu())
        vectors = states.before.double().cpu()
        products = torch.einsum("hkd,gkd->hgk", added, added)
        added_times_vector = torch.einsum("hkd,kd->hk", added, vectors)  # added[h, k] · vectors[k]
        result = torch.zeros_like(shares)
        for queries in query_blocks(pattern):
            weights = pattern[0, :, queries].double().cpu()
            # a key adds w_h u_h in head h (u = `added`); the squared norm is ‖Σ_h w_h u_h‖² = Σ_hg w_h w_g (u_h · u_g)
            squares = torch.einsum("hqk,gqk,hgk->qk", weights, weights, products)
            positions = torch.arange(len(shares))[queries]
            rows = torch.arange(len(positions))  # the indices of these queries in the block
            # a token adds s = Σ_h w_h u_h to itself, too; with its own vector v: ‖s + v‖² = ‖s‖² + 2 s · v + ‖v‖²
            to_itself = (weights[:, rows, positions] * added_times_vector[:, positions]).sum(dim=0)
            squares[rows, positions] += 2 * to_itself + vectors[positions].square().sum(dim=-1)
            lengths = squares.clamp(min=0).sqrt()
            result += shares[queries] @ (lengths / lengths.sum(dim=-1, keepdim=True))
        return result


def check_flow(flow: object) -> None:
    if not isinstance(flow, Flow):
        raise TypeError(f"flow is {type_name(flow)}; it takes an object such as HeadMean() or VectorLengths().")


def rollout(
    patterns: Sequence[Pattern], states: Sequence[LayerStates | None], token: int, flow: Flow
) -> Float[Tensor, " tokens"]:
    """Return which fraction of a token's final vector comes from each input token; the fractions sum to 1.

    This is one row of the product of the flows of all layers, computed without any matrix of tokens × tokens.

    Args:
        patterns: the self-attention patterns of all layers, from the first to the last, with one batch item.
        states: the vectors of the tokens in each layer; all None if `flow` needs none.
        token: the position of the token.
    """
    shares = torch.zeros(patterns[-1].shape[2], dtype=torch.float64)
    shares[token] = 1.0
    with torch.no_grad():
        for pattern, state in zip(reversed(patterns), reversed(states), strict=True):
            shares = flow.back(pattern, state, shares)
    return shares.to(patterns[-1].call.weights_dtype)
