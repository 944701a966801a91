"""The Transformer: an encoder for the source, and a decoder that predicts each target token.

The decoder predicts a token from the source and from the target tokens before it.

Source: Vaswani et al. 2017, "Attention is all you need".
"""

from dataclasses import dataclass, replace

from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.call import Call
from regard.attention.masks import Padding
from regard.attention.masks.lengths import check_source_lengths, shortest_and_longest
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.representation import Described
from regard.attention.scores.dot import ScaledDot
from regard.transformer.config import TransformerConfig
from regard.transformer.decoder import Decoder
from regard.transformer.decoding.encode import encode, encode_reason
from regard.transformer.decoding.kernel import CompiledDecoder, Queries, SourceRows
from regard.transformer.decoding.parameters import StackParameters
from regard.transformer.decoding.state import DecodingState
from regard.transformer.decoding.supported import kernel_allowed
from regard.transformer.encoder import Encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TransformerOutput(Described):
    """The output of `Transformer.forward`.

    Attributes:
        logits: for each target token, the logits of the token that follows it.
        encoder: the self-attention pattern of each encoder block.
        decoder: the self-attention pattern of each decoder block.
        cross: the cross-attention pattern of each decoder block.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    encoder: tuple[Pattern, ...]
    decoder: tuple[Pattern, ...]
    cross: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformerStep:
    """The output of `Transformer.step`.

    Attributes:
        logits: for each input token, the logits of the token that follows it.
        state: the decoding state after the input tokens, an argument of the next step.
        cross: the cross-attention pattern of each decoder block; its queries are the input tokens.
    """

    logits: Float[Tensor, "batch new vocabulary"]
    state: DecodingState
    cross: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledStep:
    """The output of `Transformer.step` if regard's CPU kernel computed the step.

    Attributes:
        logits: for each row, the logits of the token that follows the input token.
        state: the decoding state after the input tokens, an argument of the next step.
        queries: the cross-attention queries of the input tokens in each decoder block.
    """

    logits: Float[Tensor, "batch 1 vocabulary"]
    state: DecodingState
    queries: Queries

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """The cross-attention pattern of each decoder block, built at each access; its queries are the input tokens."""
        mask = None if self.state.lengths is None else Padding(self.state.lengths)
        by_source = "blocks (sources queries) (heads d_head) -> blocks sources heads queries d_head"
        sizes = {"sources": self.state.n_sources, "d_head": self.state.sources[0].key.shape[3]}
        return tuple(
            Pattern(Call.of(query, source.key, source.value, ScaledDot(), mask, Softmax()))
            for query, source in zip(rearrange(self.queries, by_source, **sizes), self.state.sources, strict=True)
        )


class Transformer(nn.Module):
    """An encoder-decoder Transformer for translation.

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
        """Return, for each token of whole targets, the logits of the token that follows it (teacher forcing).

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each source before its padding.
            target: token ids, beginning with BOS and padded on the right.

        Raises:
            ValueError: a length is below 1 or above source.shape[1]. Lengths on an accelerator are not checked.
        """
        check_source_lengths(lengths, source.shape[1])
        encoded = self.encoder(source, lengths)
        decoded = self.decoder(target, self.decoder.start(encoded.output, lengths))
        return TransformerOutput(
            logits=decoded.logits, encoder=encoded.patterns, decoder=decoded.patterns, cross=decoded.cross
        )

    @property
    def to_logits(self) -> nn.Linear:
        """The output projection of the decoder, from hidden states to logits."""
        return self.decoder.to_logits

    def vectors(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Return, for each target token, the hidden state to which the output projection is applied.

        `forward` has the same arguments. From the hidden states a loss can compute the logits in chunks.
        """
        check_source_lengths(lengths, source.shape[1])
        return self.decoder.read(target, self.decoder.start(self.encoder(source, lengths).output, lengths))[0]

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> DecodingState:
        """Encode the sources, and return the decoding state before the first target token, an argument of `step`.

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each source before its padding.
        """
        check_source_lengths(lengths, source.shape[1])
        padded = shortest_and_longest(lengths, source.shape[1]) != {source.shape[1]}
        true_lengths = lengths if padded else None  # without padding, no mask is needed
        compiles = type(self.decoder) is Decoder and kernel_allowed(source.device)
        decoder = StackParameters.of(self.decoder) if compiles else None
        encoder = StackParameters.of(self.encoder) if decoder and type(self.encoder) is Encoder else None
        if decoder and encoder and encode_reason(encoder, decoder, source.numel()) is None:
            memory = encode(encoder, decoder, self.encoder.embedding(source), true_lengths)
            state = DecodingState(lengths=true_lengths, memory=memory)
        else:
            state = self.decoder.start(self.encoder(source, true_lengths).output, true_lengths)
        if decoder is None:
            return state
        return replace(state, compiled=CompiledDecoder.of(decoder, SourceRows.of(state.sources, true_lengths)))

    def step(self, tokens: Int[Tensor, "batch new"], state: DecodingState) -> "TransformerStep | CompiledStep":
        """Return, for each input token, the logits of the token that follows it, and the state for the next step.

        Args:
            tokens: the next token ids of each target, usually one per row; in the first step BOS.
            state: the result of `start`, or `state` of the previous step's output.
        """
        one = tokens.shape[1] == 1 and not self.training
        if one and state.compiled is not None and kernel_allowed(tokens.device):
            x, cache, queries = state.compiled.step(self.decoder.embedding(tokens, state.n_tokens), state.cache)
            return CompiledStep(logits=state.compiled.logits(x), state=replace(state, cache=cache), queries=queries)
        decoded = self.decoder(tokens, state)
        return TransformerStep(logits=decoded.logits, state=decoded.state, cross=decoded.cross)
