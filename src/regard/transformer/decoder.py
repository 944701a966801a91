"""The decoder: logits of the next token, from the target tokens so far and, in a translator, the encoded source.

    logits_t = norm(x_t) Wᵀ + b      x_t: the last block's output for token t

Only a pre-norm model has this norm. W is the target embedding matrix, unless share="none".

Source: Vaswani et al. 2017, section 3.1; shared matrix: Press & Wolf 2017.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Causal, Padding
from regard.attention.pattern import Pattern
from regard.attention.representation import Described
from regard.checks import check_config
from regard.transformer.block import BlockOutput, DecoderBlock
from regard.transformer.config import TransformerConfig
from regard.transformer.decoding.state import DecodingState
from regard.transformer.embedding import Embedding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Decoded(Described):
    """For each input token, the logits of the token that follows it; the state is an argument of the next call.

    Attributes:
        patterns: the self-attention weights of each block, as a `Pattern`.
        cross: the cross-attention weights of each block; empty for a language model. The batch axis counts the sources;
            the queries of a source are the tokens of all its targets, one target after the other.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    state: DecodingState
    patterns: tuple[Pattern, ...]
    cross: tuple[Pattern, ...]


class Decoder(nn.Module):
    """A Transformer decoder: embedding, blocks with causal self-attention, output projection.

    The blocks have cross-attention if n_source_tokens is above 0; otherwise the decoder is a language model.

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
        check_config(config, TransformerConfig)
        if not config.n_target_tokens:
            raise ValueError(
                "n_target_tokens=0 leaves a decoder without a vocabulary; give the size of its vocabulary."
            )
        self.config = config
        self.embedding = Embedding(config.n_target_tokens, config)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else None
        self.to_logits = nn.Linear(config.d_model, config.n_target_tokens)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the matrix and the biases of the output projection.

        The matrix is the embedding matrix itself, or is drawn from N(0, 1/d_model) if share="none". The biases are 0.
        """
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
        """Return the state before the first target token, with each block's cross-attention keys and values.

        Args:
            memory: the output of an encoder, `Encoded.output`; None for a language model.
            lengths: the number of tokens of each source before its padding; None = no padding.

        Raises:
            ValueError: the decoder has cross-attention and memory is None, or it has none and memory is given.
        """
        if (memory is None) != (self.config.n_source_tokens == 0):
            given = "no memory" if memory is None else "a memory"
            raise ValueError(
                f"got {given} for n_source_tokens={self.config.n_source_tokens}; a decoder that was built for a source "
                "takes the encoder's output as its memory, and one with n_source_tokens=0 takes none."
            )
        blocks = cast("Iterable[DecoderBlock]", self.blocks)
        prepared = tuple(None if memory is None else block.prepare(memory) for block in blocks)
        return DecodingState(lengths=lengths, memory=prepared)

    def forward(self, tokens: Int[Tensor, "batch tokens"], state: DecodingState | None = None) -> Decoded:
        """Return, for each input token, the logits of the token that follows it.

        Args:
            tokens: the next token ids of each target, one or more; a target begins with BOS. Shorter targets are
                padded on the right; since attention is causal, no token before the padding attends to it.
            state: for the first tokens of the targets, the result of `start`; for later tokens, `Decoded.state` of the
                previous call. None = the result of `start()`, for the first tokens of a language model.
        """
        state = self.start() if state is None else state
        vectors, outputs = self.run_blocks(tokens, state)
        return Decoded(
            logits=self.to_logits(vectors),
            state=replace(state, cache=tuple(output.self_attention.cache for output in outputs)),
            patterns=tuple(output.self_attention.pattern for output in outputs),
            cross=tuple(output.cross_attention.pattern for output in outputs if output.cross_attention is not None),
        )

    def run_blocks(
        self, tokens: Int[Tensor, "batch tokens"], state: DecodingState
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockOutput]]:
        """Compute all decoder blocks for the next tokens of each target.

        Args:
            tokens: the next token ids of each target.
            state: the decoding state before these tokens.

        Returns:
            The hidden states to which the output projection is applied, and the output of each block.
        """
        x, outputs = self.embedding(tokens, first=state.n_tokens), []
        # A single new token may attend to itself and all earlier tokens: it needs no mask.
        mask = Causal() if tokens.shape[1] > 1 else None
        memory_mask = None if state.lengths is None else Padding(state.lengths)
        for layer, (block, memory) in enumerate(zip(self.blocks, state.memory, strict=True)):
            cache = None if state.cache is None else state.cache[layer]
            outputs.append(block(x, memory, mask=mask, memory_mask=memory_mask, cache=cache))
            x = outputs[-1].output
        hidden_states = x if self.norm is None else self.norm(x)
        return hidden_states, outputs
