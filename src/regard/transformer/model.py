"""The Transformer: an encoder reads the source, a decoder writes the target and looks at both.

Source: Vaswani et al. 2017, "Attention is all you need".
"""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.call import Call
from regard.attention.masks import Padding
from regard.attention.masks.lengths import refuse_lengths
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.transformer.config import TransformerConfig
from regard.transformer.decoder import Decoder
from regard.transformer.decoding.fast_step import Shortcut, may_be_short
from regard.transformer.decoding.state import State
from regard.transformer.decoding.unwrapped_step import Sources
from regard.transformer.encoder import Encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """What a model expects after each token of a whole target, and how it looked, block by block.

    Attributes:
        logits: for each target token, scores of what comes after it.
        encoder: which tokens of the source looked at which.
        decoder: which tokens of the target looked at which.
        cross: which tokens of the target looked at which of the source.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    encoder: tuple[Pattern, ...]
    decoder: tuple[Pattern, ...]
    cross: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """What a model expects after the tokens of one step.

    Attributes:
        logits: for each new token, scores of what comes after it.
        state: what the next step takes.
        cross: where the new tokens looked in the source, block by block.
    """

    logits: Float[Tensor, "batch new vocabulary"]
    state: State
    cross: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BareStep:
    """What a model expects after one token, with patterns for those who ask for them.

    Attributes:
        logits: scores of what comes after it.
        state: what the next step takes.
        queries: of each block, to the source.
    """

    logits: Float[Tensor, "batch 1 vocabulary"]
    state: State
    queries: tuple[Float[Tensor, "sources heads width d_head"], ...]

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """Where the token looked in the source, block by block."""
        mask = None if self.state.lengths is None else Padding(self.state.lengths)
        each = zip(self.queries, self.state.sources, strict=True)
        return tuple(Pattern(Call.of(query, of.key, of.value, ScaledDot(), mask, Softmax())) for query, of in each)


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
    ) -> Predicted:
        """Read sources and whole targets at once, as in training.

        Args:
            source: ids, padded on the right.
            lengths: how many ids of each source are no padding.
            target: what the decoder reads, from BOS on, padded on the right.

        Raises:
            ValueError: a length below 1, or beyond the source; on an accelerator, lengths are not looked at.
        """
        refuse_lengths(lengths, source.shape[1])
        encoded = self.encoder(source, lengths)
        decoded = self.decoder(target, self.decoder.start(encoded.output, lengths))
        return Predicted(logits=decoded.logits, encoder=encoded.patterns, decoder=decoded.patterns, cross=decoded.cross)

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
        """What the output projection makes logits of, for a loss that never needs them all at once."""
        refuse_lengths(lengths, source.shape[1])
        return self.decoder.read(target, self.decoder.start(self.encoder(source, lengths).output, lengths))[0]

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> State:
        """Read the sources once; the steps of the targets start from here."""
        refuse_lengths(lengths, source.shape[1])
        state = self.decoder.start(self.encoder(source, lengths).output, lengths)
        if not may_be_short(source.device) or type(self.decoder) is not Decoder:
            return state
        return replace(state, shortcut=Shortcut.of(self.decoder, Sources.of(state.sources, lengths)))

    def step(self, tokens: Int[Tensor, "batch new"], state: State) -> Step | BareStep:
        """Read the next tokens of each target, usually one, and BOS first."""
        one = tokens.shape[1] == 1 and not self.training
        if one and state.shortcut is not None and may_be_short(tokens.device):
            logits, past, queries = state.shortcut.step(tokens, state.past)
            return BareStep(logits=logits, state=replace(state, past=past), queries=queries)
        decoded = self.decoder(tokens, state)
        return Step(logits=decoded.logits, state=decoded.state, cross=decoded.cross)
