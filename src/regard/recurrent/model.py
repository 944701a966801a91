"""The recurrent translator: an encoder that reads the source in both directions, and a decoder that attends to it.

Without attention, the decoder knows the source only through one vector of fixed size. With attention, each step of the
decoder also reads a weighted sum of the encoder's states.

Source: Bahdanau, Cho & Bengio 2015; Luong, Pham & Manning 2015.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks.lengths import check_source
from regard.attention.pattern import Pattern
from regard.checks import check_config
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.decoder import Decoded, Decoder, State
from regard.recurrent.encoder import Encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """For each target token, the logits of the token that follows it, and its attention to the source.

    Attributes:
        encoder, decoder: empty tuples, because a recurrent model has no self-attention.
        cross: a tuple of one `Pattern` with one head.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    encoder: tuple[Pattern, ...]
    decoder: tuple[Pattern, ...]
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
        check_config(config, RecurrentConfig)
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> Predicted:
        """Return, for each token of whole targets, the logits of the token that follows it (teacher forcing).

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each source before its padding; at least 1.
            target: token ids, beginning with BOS and padded on the right.

        Raises:
            ValueError: a length is below 1 or above source.shape[1], or an id is not in the vocabulary (ids and lengths
                on an accelerator are not checked); or source and target differ in their batch.
            TypeError: an argument is not a tensor of whole numbers.
        """
        decoded = self.decoder(target, self.start(source, lengths))
        return Predicted(logits=decoded.logits, encoder=(), decoder=(), cross=decoded.cross)

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
        vectors, _, _ = self.decoder.outputs(target, self.start(source, lengths))
        return vectors

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> State:
        """Encode the sources, and return the decoder's state before the first target token, an argument of `step`.

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each source before its padding; at least 1.
        """
        check_source(source, lengths)
        return self.decoder.start(self.encoder(source, lengths), lengths)

    def step(self, tokens: Int[Tensor, "batch new"], state: State) -> Decoded:
        """Return, for each input token, the logits of the token that follows it, and the state for the next step.

        Args:
            tokens: the next token ids of each target, usually one per batch item; in the first step BOS.
            state: the result of `start`, or `state` of the previous step's output.
        """
        return self.decoder(tokens, state)
