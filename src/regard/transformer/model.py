"""The Transformer: an encoder reads the source, and a decoder attends to both source and target as it writes.

Source: Vaswani et al. 2017, "Attention is all you need".
"""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.call import Call
from regard.attention.masks import Padding
from regard.attention.masks.lengths import check_source_lengths
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.transformer.config import TransformerConfig
from regard.transformer.decoder import Decoder
from regard.transformer.decoding.kernel import CompiledDecoder, SourceRows
from regard.transformer.decoding.state import DecodingState
from regard.transformer.decoding.supported import only_numbers_wanted
from regard.transformer.encoder import Encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformerOutput:
    """The output of a Transformer for whole targets, and the attention of each block.

    Attributes:
        logits: of the token after each target token.
        encoder: self-attention of the source's tokens.
        decoder: self-attention of the target's tokens.
        cross: attention of the target's tokens to the source's.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    encoder: tuple[Pattern, ...]
    decoder: tuple[Pattern, ...]
    cross: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformerStep:
    """The output of one step.

    Attributes:
        logits: of the token after each new token.
        state: the state that the next step takes.
        cross: attention of the new tokens to the source, block by block.
    """

    logits: Float[Tensor, "batch new vocabulary"]
    state: DecodingState
    cross: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledStep:
    """The output of a step of one token by the CPU kernel; patterns are made when they are asked for.

    Attributes:
        logits: of the token after the new token.
        state: the state that the next step takes.
        queries: each block's queries to the source.
    """

    logits: Float[Tensor, "batch 1 vocabulary"]
    state: DecodingState
    queries: tuple[Float[Tensor, "sources heads queries d_head"], ...]

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """Attention of the new token to the source, block by block."""
        mask = None if self.state.lengths is None else Padding(self.state.lengths)
        blocks = zip(self.queries, self.state.sources, strict=True)
        return tuple(Pattern(Call.of(query, to.key, to.value, ScaledDot(), mask, Softmax())) for query, to in blocks)


class Transformer(nn.Module):
    """An encoder and a decoder.

    >>> import torch
    >>> model = Transformer(TransformerConfig.preset("tiny", n_source_tokens=97, n_target_tokens=97)).eval()
    >>> source, lengths = torch.tensor([[5, 7, 3], [11, 3, 0]]), torch.tensor([3, 2])
    >>> predicted = model(source, lengths, torch.tensor([[2, 13], [2, 17]]))
    >>> predicted.logits.shape, predicted.cross[-1].shape
    (torch.Size([2, 2, 97]), torch.Size([2, 4, 2, 3]))
    >>> step = model.step(torch.tensor([[2], [2]]), model.start(source, lengths))
    >>> torch.allclose(step.logits[:, 0], predicted.logits[:, 0], atol=1e-5)
    True
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        if config.share == "all":
            self.encoder.embedding.by_token = self.decoder.embedding.by_token

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> TransformerOutput:
        """Return logits for whole targets at once, as in training.

        Args:
            source: ids, padded on the right.
            lengths: how many ids of each source are no padding.
            target: ids that the decoder reads, from BOS on, padded on the right.

        Raises:
            ValueError: a length below 1, or beyond the source; on an accelerator, lengths are not checked.
        """
        check_source_lengths(lengths, source.shape[1])
        encoded = self.encoder(source, lengths)
        decoded = self.decoder(target, self.decoder.start(encoded.output, lengths))
        return TransformerOutput(
            logits=decoded.logits, encoder=encoded.patterns, decoder=decoded.patterns, cross=decoded.cross
        )

    @property
    def to_logits(self) -> nn.Linear:
        """The output projection."""
        return self.decoder.to_logits

    def vectors(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the vectors that the output projection takes, for a loss that never holds all logits at once."""
        check_source_lengths(lengths, source.shape[1])
        return self.decoder.read(target, self.decoder.start(self.encoder(source, lengths).output, lengths))[0]

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> DecodingState:
        """Encode the sources, and return the state before the first token of each target."""
        check_source_lengths(lengths, source.shape[1])
        state = self.decoder.start(self.encoder(source, lengths).output, lengths)
        if type(self.decoder) is not Decoder or not only_numbers_wanted(source.device):
            return state
        return replace(state, compiled=CompiledDecoder.of(self.decoder, SourceRows.of(state.sources, lengths)))

    def step(self, tokens: Int[Tensor, "batch new"], state: DecodingState) -> "TransformerStep | CompiledStep":
        """Return logits of the token after each of the next tokens of each target, usually one token, BOS first."""
        one = tokens.shape[1] == 1 and not self.training
        if one and state.compiled is not None and only_numbers_wanted(tokens.device):
            x, cache, queries = state.compiled.step(self.decoder.embedding(tokens, state.n_tokens)[:, 0], state.cache)
            logits = self.decoder.to_logits(x[:, None])
            return CompiledStep(logits=logits, state=replace(state, cache=cache), queries=queries)
        decoded = self.decoder(tokens, state)
        return TransformerStep(logits=decoded.logits, state=decoded.state, cross=decoded.cross)
