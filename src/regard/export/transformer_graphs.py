"""A Transformer as two plain functions of tensors, which an exporter can follow for texts of any length.

The model's own forward hands out patterns and states and chooses kernels by sizes; a graph has none of these and is for
every size. So it is written down once more here, of the same modules and parameters, and every export is checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.layers.heads import split_heads
from regard.attention.layers.multi_head import MultiHeadAttention
from regard.transformer.decoder import Decoder
from regard.transformer.embedding import Embedding
from regard.transformer.encoder import Encoder
from regard.transformer.model import Transformer

Axes = Sequence[str | int]
"""The axes of a tensor: a name for one of any length, a number for one that is fixed."""


PAST, PRESENT = "past_", "present_"
"""What the names of a state begin with: before a step, and after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """A function to be exported.

    Attributes:
        module: takes the inputs in their order, gives the outputs in theirs.
        example: inputs to follow it with.
        inputs: their names and axes.
        outputs: the same.
    """

    module: nn.Module
    example: tuple[Tensor | tuple[Tensor, ...], ...]
    inputs: dict[str, Axes]
    outputs: dict[str, Axes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Graphs:
    """What reads a source, and what takes a step.

    The decoder takes a token, the lengths, what the encoder gave, and its state; it gives logits and the next state.
    """

    encoder: Graph
    decoder: Graph


class EncoderGraph(nn.Module):
    """Source and lengths to keys and values of every block of the decoder."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder
        self.table = table(model.encoder.embedding, model.config.max_tokens)

    def forward(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch heads source d_head"], ...]:
        """Keys and values, block by block."""
        places = torch.arange(source.shape[1], device=source.device)
        mask = places < lengths[:, None, None, None]
        x = embedded(self.encoder.embedding, self.table, source, places)
        for block in blocks_of(self.encoder):
            entered = block.around_own_attention.enter(x)
            key, value = projected(block.own_attention, entered, places)
            read = attended(block.own_attention, entered, key, value, places, mask)
            x = block.around_own_attention.leave(x, read)
            x = thought(block, x)
        x = x if self.encoder.norm is None else self.encoder.norm(x)
        return tuple(part for block in blocks_of(self.decoder) for part in projected(block.cross_attention, x, places))


class DecoderGraph(nn.Module):
    """One token and the state to logits and the next state."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.decoder = model.decoder
        self.table = table(model.decoder.embedding, model.config.max_tokens)

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], known: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Logits of what comes next, and keys and values of the tokens so far, block by block.

        Args:
            known: keys and values of the source for every block, then those of the tokens so far.
        """
        memory, past = pairs(known[: len(known) // 2]), pairs(known[len(known) // 2 :])
        mask = torch.arange(memory[0][0].shape[2], device=token.device) < lengths[:, None, None, None]
        first = past[0][0].shape[2]
        place = torch.arange(first, first + 1, device=token.device)
        x, state = embedded(self.decoder.embedding, self.table, token, place), []
        for block, source, earlier in zip(blocks_of(self.decoder), memory, past, strict=True):
            entered = block.around_own_attention.enter(x)
            new = projected(block.own_attention, entered, place)
            key, value = (torch.cat([old, added], dim=2) for old, added in zip(earlier, new, strict=True))
            x = block.around_own_attention.leave(x, attended(block.own_attention, entered, key, value, place, None))
            entered = block.around_cross_attention.enter(x)
            x = block.around_cross_attention.leave(x, attended(block.cross_attention, entered, *source, place, mask))
            x = thought(block, x)
            state += [key, value]
        x = x if self.decoder.norm is None else self.decoder.norm(x)
        return self.decoder.to_logits(x)[:, 0], *state


def transformer_graphs(model: Transformer) -> Graphs:
    """The graphs of a Transformer, with inputs to follow them with."""
    config = model.config
    heads = config.n_heads if config.n_key_heads is None else config.n_key_heads
    blocks = range(len(model.decoder.blocks))

    def kept(prefix: str, axis: str) -> dict[str, Axes]:
        return {
            f"{prefix}{part}_{i}": ("batch", heads, axis, config.d_head) for i in blocks for part in ("key", "value")
        }

    source, lengths = torch.full((2, 5), config.n_source_tokens - 1), torch.tensor([5, 3])
    encoder = EncoderGraph(model)
    memory = encoder(source, lengths)
    past = tuple(torch.zeros(2, heads, 3, config.d_head).to(part) for part in memory)
    texts: dict[str, Axes] = {"lengths": ("batch",)}
    return Graphs(
        encoder=Graph(
            module=encoder,
            example=(source, lengths),
            inputs={"source": ("batch", "source"), **texts},
            outputs=kept("source_", "source"),
        ),
        decoder=Graph(
            module=DecoderGraph(model),
            example=(torch.full((2, 1), config.n_target_tokens - 1), lengths, (*memory, *past)),
            inputs={"token": ("batch", 1), **texts, **kept("source_", "source"), **kept(PAST, "past")},
            outputs={"logits": ("batch", config.n_target_tokens), **kept(PRESENT, "present")},
        ),
    )


def blocks_of(side: Encoder | Decoder) -> list[Any]:
    """The blocks of an encoder or a decoder, in order."""
    return list(side.blocks)


def table(embedding: Embedding, max_tokens: int) -> nn.Buffer | None:
    """The vectors of all positions; None where positions enter elsewhere."""
    places = embedding.places(max_tokens, 0)
    return None if places is None else nn.Buffer(places.detach().clone())


def embedded(
    embedding: Embedding,
    table: Float[Tensor, "positions d_model"] | None,
    tokens: Int[Tensor, "batch tokens"],
    places: Int[Tensor, " tokens"],
) -> Float[Tensor, "batch tokens d_model"]:
    """The tokens' vectors at their places."""
    x = F.embedding(tokens, embedding.by_token.weight) * embedding.d_model**0.5
    return x if table is None else x + table[places]


def projected(
    attention: MultiHeadAttention, x: Float[Tensor, "batch tokens d_model"], places: Int[Tensor, " tokens"]
) -> tuple[Float[Tensor, "batch heads tokens d_head"], Float[Tensor, "batch heads tokens d_head"]]:
    """Keys and values of some tokens."""
    key, value = (split_heads(to(x), attention.n_key_heads) for to in (attention.to_key, attention.to_value))
    return key if attention.positions is None else attention.positions(key, places), value


def attended(
    attention: MultiHeadAttention,
    x: Float[Tensor, "batch queries d_model"],
    key: Float[Tensor, "batch key_heads keys d_head"],
    value: Float[Tensor, "batch key_heads keys d_head"],
    places: Int[Tensor, " queries"],
    mask: Bool[Tensor, "batch 1 1 keys"] | None,
) -> Float[Tensor, "batch queries d_model"]:
    """What tokens read from keys and values."""
    query = split_heads(attention.to_query(x), attention.n_heads)
    if attention.positions is not None:
        query = attention.positions(query, places)
    group = attention.n_heads // attention.n_key_heads
    if group > 1:
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    context = F.scaled_dot_product_attention(query, key, value, mask)
    return attention.to_output(rearrange(context, "batch heads queries d_head -> batch queries (heads d_head)"))


def thought(block: Any, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens d_model"]:
    """The tokens' vectors after a block's feed-forward network."""
    around = block.around_feed_forward
    return around.leave(x, block.feed_forward(around.enter(x)))


def pairs(parts: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Keys and values by turns, as pairs."""
    return list(zip(parts[::2], parts[1::2], strict=True))
