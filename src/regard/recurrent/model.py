"""The recurrent translator: an encoder reads the source in both directions, a decoder writes the target and looks back.

A plain encoder-decoder hands the whole source over in one vector of fixed size; here each step of the decoder also
reads the encoder's state at every place, in the shares that a score gives.

Source: Bahdanau, Cho & Bengio 2015; Luong, Pham & Manning 2015.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks.lengths import refuse_lengths
from regard.attention.pattern import Pattern
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.decoder import Decoder, State
from regard.recurrent.encoder import Encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """What a model expects after each token of a whole target, and where it looked.

    Attributes:
        logits: for each target token, scores of what comes after it.
        encoder, decoder: empty, as neither looks at itself.
        cross: one pattern of one head: which tokens of the target looked at which of the source.
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
        cross: one pattern of one head: where the new tokens looked in the source.
    """

    logits: Float[Tensor, "batch new vocabulary"]
    state: State
    cross: tuple[Pattern, ...]


class Recurrent(nn.Module):
    """An encoder and a decoder of LSTM or GRU cells, with attention between them.

    >>> import torch
    >>> model = Recurrent(RecurrentConfig.preset("tiny", n_source_tokens=97, n_target_tokens=89)).eval()
    >>> source, lengths = torch.tensor([[5, 7, 3], [11, 3, 0]]), torch.tensor([3, 2])
    >>> predicted = model(source, lengths, torch.tensor([[2, 13], [2, 17]]))
    >>> predicted.logits.shape, predicted.cross[0].shape
    (torch.Size([2, 2, 89]), torch.Size([2, 1, 2, 3]))
    >>> step = model.step(torch.tensor([[2], [2]]), model.start(source, lengths))
    >>> torch.allclose(step.logits[:, 0], predicted.logits[:, 0], atol=1e-5)
    True
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> Predicted:
        """Read sources and whole targets at once, as in training.

        Args:
            source: ids, padded on the right.
            lengths: how many ids of each source are no padding, at least 1.
            target: what the decoder reads, from BOS on, padded on the right.

        Raises:
            ValueError: a length below 1, or beyond the source; on an accelerator, lengths are not looked at.
        """
        decoded = self.decoder(target, self.start(source, lengths))
        return Predicted(logits=decoded.logits, encoder=(), decoder=(), cross=(decoded.pattern,))

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
        return self.decoder.read(target, self.start(source, lengths))[0]

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> State:
        """Read the sources once; the steps of the targets start from here."""
        refuse_lengths(lengths, source.shape[1])
        return self.decoder.start(self.encoder(source, lengths), lengths)

    def step(self, tokens: Int[Tensor, "batch new"], state: State) -> Step:
        """Read the next tokens of each target, usually one, and BOS first."""
        decoded = self.decoder(tokens, state)
        return Step(logits=decoded.logits, state=decoded.state, cross=(decoded.pattern,))
