"""The decoder: from a target's tokens so far, and the source where there is one, what comes next.

    logits_t = norm(x_t) W + b             W is the target's embedding unless share="none"

Source: Vaswani et al. 2017, section 3.1; one matrix for both: Press & Wolf 2017.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Causal, Padding
from regard.attention.pattern import Pattern
from regard.transformer.block import BlockRead, DecoderBlock
from regard.transformer.config import TransformerConfig
from regard.transformer.decoding.cache import PastByBlock
from regard.transformer.decoding.state import State
from regard.transformer.embedding import Embedding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """What a decoder expects after each token it was given, and how each block looked.

    Attributes:
        logits: for each token, scores of what comes after it.
        state: what the next call takes to go on from here.
        patterns: which tokens of the target looked at which, block by block.
        cross: which looked at which of the source; empty where there is none. Rows that share a source are one item of
            its batch, their tokens row after row.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    state: State
    patterns: tuple[Pattern, ...]
    cross: tuple[Pattern, ...]


class Decoder(nn.Module):
    """Embedding, blocks that never see the future, and the output projection; without a source, a language model.

    >>> import torch
    >>> decoder = Decoder(TransformerConfig.preset("tiny", n_target_tokens=97, share="target"))
    >>> decoded = decoder(torch.tensor([[2, 5, 7]]))
    >>> decoded.logits.shape, decoded.state
    (torch.Size([1, 3, 97]), State(n_tokens=3, rows=1, layers=4))
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
        """The output projection as the embedding, which it is unless share="none"; biases 0."""
        if self.config.share == "none":
            nn.init.normal_(self.to_logits.weight, std=self.config.d_model**-0.5)
        else:
            self.to_logits.weight = self.embedding.by_token.weight
        nn.init.zeros_(self.to_logits.bias)

    def start(
        self,
        memory: Float[Tensor, "batch source d_model"] | None = None,
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> State:
        """The state before the first token: the source as keys and values of every block, projected once.

        Args:
            memory: an encoder's output; None for a language model.
            lengths: how many tokens of each source are no padding; None = all.

        Raises:
            ValueError: a source for a language model, or none for a decoder that reads one.
        """
        if (memory is None) != (self.config.n_source_tokens == 0):
            had = "no memory" if memory is None else "a memory"
            raise ValueError(
                f"got {had} for n_source_tokens={self.config.n_source_tokens}; a decoder that was built for a source "
                "takes the encoder's output as its memory, and one with n_source_tokens=0 takes none."
            )
        blocks = cast("Iterable[DecoderBlock]", self.blocks)
        prepared = tuple(None if memory is None else block.prepare(memory) for block in blocks)
        return State(lengths=lengths, memory=prepared)

    def forward(self, tokens: Int[Tensor, "batch tokens"], state: State | None = None) -> Decoded:
        """Read the next tokens of each row.

        Args:
            tokens: ids; the first of a text is BOS. Rows that are shorter are padded on the right, which those before
                never see.
            state: from `start`, or from the tokens before these; None = a language model's start.
        """
        state = self.start() if state is None else state
        vectors, reads = self.read(tokens, state)
        return Decoded(
            logits=self.to_logits(vectors),
            state=replace(state, past=PastByBlock(tuple(read.own.cache for read in reads))),
            patterns=tuple(read.own.pattern for read in reads),
            cross=tuple(read.cross.pattern for read in reads if read.cross is not None),
        )

    def read(
        self, tokens: Int[Tensor, "batch tokens"], state: State
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockRead]]:
        """What the output projection takes for each token, and what each block has read."""
        # One token is the last and may look at all before it: no mask need be built.
        mask = Causal() if tokens.shape[1] > 1 else None
        memory_mask = None if state.lengths is None else Padding(state.lengths)
        x, reads = self.embedding(tokens, first=state.n_tokens), []
        for number, (block, memory) in enumerate(zip(self.blocks, state.memory, strict=True)):
            cache = None if state.past is None else state.past.block(number)
            reads.append(block(x, memory, mask=mask, memory_mask=memory_mask, cache=cache))
            x = reads[-1].output
        return x if self.norm is None else self.norm(x), reads
