"""A stack of LSTM or GRU layers over whole sequences, with an initialisation that makes training fast."""

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.recurrent.config import Cell

Hidden = tuple[Float[Tensor, "layers batch d_state"], ...]
"""The hidden states of all layers after a token: (state,) for a GRU, and (state, memory cell) for an LSTM."""


class Cells(nn.Module):
    """Layers of LSTM or GRU cells.

    Args:
        d_state: the width of the state in each direction.
        dropout: the dropout probability between layers.
        directions: 1 = forwards; 2 = bidirectional: each output is the forward state and the backward state of a token,
            concatenated.
    """

    def __init__(self, kind: Cell, d_input: int, d_state: int, n_layers: int, dropout: float, directions: int = 1):
        super().__init__()
        self.kind, self.d_state = kind, d_state
        self.layers = (nn.LSTM if kind == "lstm" else nn.GRU)(
            d_input,
            d_state,
            n_layers,
            batch_first=True,
            dropout=dropout if n_layers > 1 else 0.0,
            bidirectional=directions == 2,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make state-to-state matrices orthogonal, draw input-to-state matrices by Glorot, and set biases to 0.

        The bias of an LSTM's forget gate is 1, so that the LSTM keeps its memory until it has learned what to forget.

        Source: Jozefowicz, Zaremba & Sutskever 2015, section 2.2 (the forget gate's bias).
        """
        for name, parameter in self.layers.named_parameters():
            gates = torch.split(parameter, self.d_state)  # of an LSTM: input, forget, cell, output gate
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                initialise = nn.init.orthogonal_ if "hh" in name else nn.init.xavier_uniform_
                for gate in gates:
                    initialise(gate)
            if self.kind == "lstm" and "bias_ih" in name:
                forget_gate = gates[1]
                nn.init.ones_(forget_gate)

    def forward(
        self, x: Float[Tensor, "batch tokens d_input"], hidden: Hidden
    ) -> tuple[Float[Tensor, "batch tokens d_state"], Hidden]:
        """Read tokens forwards, starting with the states `hidden` of all layers.

        Returns:
            The last layer's state after each token, and the states of all layers after the last token.
        """
        if self.kind == "gru":
            output, last = self.layers(x, hidden[0])
            return output, (last,)
        return self.layers(x, hidden)

    def read_from_start(
        self, x: Float[Tensor, "batch tokens d_input"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch tokens d_output"], Hidden]:
        """Read texts padded on the right, from zero states; the cells do not read the padding.

        Returns:
            The last layer's state after each token (0 for padding), and the final states of all layers. With two
            directions, a state is the forward and the backward state, concatenated.
        """
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self.layers(packed)
        states, _ = pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])
        hidden = (last,) if self.kind == "gru" else last
        both_directions = "(layers directions) batch d_state -> layers batch (directions d_state)"
        return states, tuple(rearrange(h, both_directions, layers=self.layers.num_layers) for h in hidden)
