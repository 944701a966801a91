"""The recurrent encoder: for each token, the states of a forward and of a backward cell, concatenated.

    h_j = [forward cell's state after tokens 1 … j ; backward cell's state after tokens N … j]     N: number of tokens

Source: Schuster & Paliwal 1997; for translation with attention, Bahdanau, Cho & Bengio 2015, section 3.2.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks.lengths import check_token_ids
from regard.recurrent.cell import Cells, Hidden
from regard.recurrent.config import RecurrentConfig


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Encoded:
    """The output of the encoder for a batch of sources.

    Attributes:
        states: h, one vector for each token; 0 for padding.
        last: the final states of all layers: the forward state after the last token and the backward state after the
            first token, concatenated.
    """

    states: Float[Tensor, "batch source d_model"]
    last: Hidden


class Encoder(nn.Module):
    """An encoder: embedding, and layers of cells that read a text forwards and backwards.

    >>> import torch
    >>> encoder = Encoder(RecurrentConfig.preset("tiny", n_source_tokens=97, n_target_tokens=97))
    >>> encoder(torch.tensor([[5, 7, 3], [11, 3, 0]]), torch.tensor([3, 2])).states.shape
    torch.Size([2, 3, 128])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.n_source_tokens, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.cells = Cells(
            config.cell, config.d_model, config.d_model // 2, config.n_layers, config.dropout, directions=2
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> Encoded:
        """Read texts padded on the right; `lengths` has the number of tokens of each text, at least 1."""
        check_token_ids("source", source, self.embedding.num_embeddings)
        states, last = self.cells.read_from_start(self.dropout(self.embedding(source)), lengths)
        return Encoded(states=states, last=last)
