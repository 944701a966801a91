"""Layers of LSTM or GRU cells over whole texts, with initial parameters that learn quickly."""

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.recurrent.config import Cell

Hidden = tuple[Float[Tensor, "layers batch d_state"], ...]
"""The states of all layers between two tokens: one tensor for a GRU, and for an LSTM its state and its memory cell."""

KINDS: dict[Cell, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class Cells(nn.Module):
    """Layers of LSTM or GRU cells.

    Args:
        directions: 2 = one set of cells reads forwards and one backwards; the output has both states side by side.
        dropout: the probability with which a number is set to 0 between layers.
    """

    def __init__(self, kind: Cell, d_input: int, d_state: int, n_layers: int, dropout: float, directions: int = 1):
        super().__init__()
        self.kind, self.d_state = kind, d_state
        self.layers = KINDS[kind](
            d_input,
            d_state,
            n_layers,
            batch_first=True,
            dropout=dropout if n_layers > 1 else 0.0,
            bidirectional=directions == 2,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the matrices of each gate: orthogonal from state to state, Glorot's from the input; biases are 0.

        An LSTM's forget gates start open, with a bias of 1, so that it keeps its memory before it has learned to
        (Jozefowicz, Zaremba & Sutskever 2015, section 2.2).
        """
        for name, parameter in self.layers.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            for gate in torch.split(parameter, self.d_state) if "weight" in name else ():
                (nn.init.orthogonal_ if "hh" in name else nn.init.xavier_uniform_)(gate)
            if self.kind == "lstm" and "bias_ih" in name:
                nn.init.ones_(parameter.detach()[self.d_state : 2 * self.d_state])

    def forward(
        self, x: Float[Tensor, "batch tokens d_input"], hidden: Hidden
    ) -> tuple[Float[Tensor, "batch tokens d_state"], Hidden]:
        """Return the last layer's state after each token, and the states of all layers after the last token."""
        if self.kind == "gru":
            output, last = self.layers(x, hidden[0])
            return output, (last,)
        return self.layers(x, hidden)

    def from_start(
        self, x: Float[Tensor, "batch tokens d_input"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch tokens d_output"], Hidden]:
        """Read padded texts of different lengths from zero states; the cells skip the padding.

        Returns:
            The last layer's state after each token, 0 for padding, and the states of all layers after the last token.
        """
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self.layers(packed)
        states, _ = pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])
        n_layers = self.layers.num_layers
        hidden = (last,) if self.kind == "gru" else last
        return states, tuple(rearrange(h, "(n d) b s -> n b (d s)", n=n_layers) for h in hidden)
