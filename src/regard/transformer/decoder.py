"""The decoder: logits of the next token from the target's tokens so far and, if there is one, the source.

    logits_t = norm(x_t) W + b             W: the target's embedding matrix unless share="none"

Source: Vaswani et al. 2017, section 3.1; shared matrix: Press & Wolf 2017.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Causal, Padding
from regard.attention.pattern import Pattern
from regard.transformer.block import BlockOutput, DecoderBlock
from regard.transformer.config import TransformerConfig
from regard.transformer.decoding.cache import BlockCache
from regard.transformer.decoding.state import DecodingState
from regard.transformer.embedding import Embedding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """The output of a decoder for some tokens, and the attention of each block.

    Attributes:
        logits: of the token after each of these tokens.
        state: the state after these tokens, which the next call takes.
        patterns: self-attention of the target's tokens, block by block.
        cross: attention of the target's tokens to the source, block by block; empty if there is no source. Rows that
            share a source are merged into one batch item: their tokens follow each other along the query axis.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    state: DecodingState
    patterns: tuple[Pattern, ...]
    cross: tuple[Pattern, ...]


class Decoder(nn.Module):
    """Embedding, blocks with causal self-attention, and the output projection; without a source, a language model.

    >>> import torch
    >>> decoder = Decoder(TransformerConfig.preset("tiny", n_target_tokens=97, share="target"))
    >>> decoded = decoder(torch.tensor([[2, 5, 7]]))
    >>> decoded.logits.shape, decoded.state
    (torch.Size([1, 3, 97]), DecodingState(n_tokens=3, rows=1, layers=4))
    >>> decoder(torch.tensor([[11]]), decoded.state).patterns[0]
    Pattern(batch=1, heads=4, queries=1, keys=4)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if not config.n_target_tokens:
            raise ValueError("n_target_tokens=0 leaves a decoder nothing to say; give the size of its vocabulary.")
        self.config = config
        self.embedding = Embedding(config.n_target_tokens, config)
        n_layers = config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(n_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else None
        self.to_logits = nn.Linear(config.d_model, config.n_target_tokens)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the output projection as the embedding is, and share its matrix unless share="none"; biases 0."""
        if self.config.share == "none":
            nn.init.normal_(self.to_logits.weight, std=self.config.d_model**-0.5)
        else:
            self.to_logits.weight = self.embedding.by_token.weight
        nn.init.zeros_(self.to_logits.bias)

    def start(
        self,
        memory: Float[Tensor, "batch source d_model"] | None = None,
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> DecodingState:
        """Return the state before the first token: the source as keys and values of every block, projected once.

        Args:
            memory: an encoder's output; None for a language model.
            lengths: how many tokens of each source are no padding; None = all.

        Raises:
            ValueError: a source for a language model, or no source for a decoder that reads one.
        """
        if (memory is None) != (self.config.n_source_tokens == 0):
            had = "no memory" if memory is None else "a memory"
            raise ValueError(
                f"got {had} for n_source_tokens={self.config.n_source_tokens}; a decoder that was built for a source "
                "takes the encoder's output as its memory, and one with n_source_tokens=0 takes none."
            )
        blocks = cast("Iterable[DecoderBlock]", self.blocks)
        prepared = tuple(None if memory is None else block.prepare(memory) for block in blocks)
        return DecodingState(lengths=lengths, memory=prepared)

    def forward(self, tokens: Int[Tensor, "batch tokens"], state: DecodingState | None = None) -> Decoded:
        """Read the next tokens of each row; return, for each of these tokens, the logits of the token after it.

        Args:
            tokens: ids; the first of a text is BOS. Shorter rows are padded on the right, where no earlier token
                attends.
            state: the state that `start`, or the call with the tokens before these, returned; None = a language model
                that has read no token.
        """
        state = self.start() if state is None else state
        vectors, outputs = self.read(tokens, state)
        return Decoded(
            logits=self.to_logits(vectors),
            state=replace(state, cache=BlockCache(tuple(block.self_attention.cache for block in outputs))),
            patterns=tuple(block.self_attention.pattern for block in outputs),
            cross=tuple(block.cross_attention.pattern for block in outputs if block.cross_attention is not None),
        )

    def read(
        self, tokens: Int[Tensor, "batch tokens"], state: DecodingState
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockOutput]]:
        """Run tokens through all blocks; return their last hidden states, normalised, and the output of each block."""
        # A single token is the last one and may attend to all before it, so that it needs no mask.
        mask = Causal() if tokens.shape[1] > 1 else None
        memory_mask = None if state.lengths is None else Padding(state.lengths)
        x, outputs = self.embedding(tokens, first=state.n_tokens), []
        for number, (block, memory) in enumerate(zip(self.blocks, state.memory, strict=True)):
            cache = None if state.cache is None else state.cache.block(number)
            outputs.append(block(x, memory, mask=mask, memory_mask=memory_mask, cache=cache))
            x = outputs[-1].output
        return x if self.norm is None else self.norm(x), outputs
