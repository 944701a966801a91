"""A recurrent model as two modules whose inputs and outputs are only tensors, as torch.onnx.export requires.

PyTorch cannot trace the LSTM or GRU of the encoder for variable lengths, so during the export the encoder graph calls
the custom operator `regard::read_cells` instead. The exporter replaces it by ONNX's LSTM or GRU (`onnx_cells`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.scores.prepared import Preparable
from regard.errors import InputError, import_extra
from regard.export.transformer_graphs import PAST, PRESENT, Axes, Graph, Graphs
from regard.recurrent.attention import Memory
from regard.recurrent.cell import Cells
from regard.recurrent.decoder import Decoder, DecoderStep, State
from regard.recurrent.encoder import Encoded
from regard.recurrent.model import Recurrent

PARAMETERS = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
"""The beginnings of the names of an nn.LSTM's or nn.GRU's parameters."""

INT32 = 6
"""ONNX's number of this data type."""

torch.library.define(
    "regard::read_cells", "(Tensor x, Tensor lengths, Tensor[] weights, bool lstm) -> (Tensor, Tensor, Tensor)"
)


def empty_results(x: Tensor, lengths: Tensor, weights: list[Tensor], lstm: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return tensors of the shapes that the operator `regard::read_cells` returns; torch.export needs only the shapes.

    Each tensor concatenates the states of the forward and the backward direction.
    """
    batch, tokens, _ = x.shape
    n_layers, width = len(weights) // 3, 2 * weights[1].shape[2]  # each layer has three tensors of weights
    last = x.new_empty(n_layers, batch, width)
    return x.new_empty(batch, tokens, width), last, torch.empty_like(last)


torch.library.register_fake("regard::read_cells", empty_results)


def onnx_cells(x: Any, lengths: Any, weights: Sequence[Any], lstm: bool) -> tuple[Any, Any, Any]:
    """Build ONNX nodes that compute `regard::read_cells`: a bidirectional LSTM or GRU for each layer.

    Args:
        x, lengths: the embeddings of the source tokens, batch first, and the number of tokens of each source.
        weights: for each layer, the input weights, the hidden weights and the biases, as `onnx_weights` yields them.
        lstm: build LSTM operators; False = GRU operators.

    Returns:
        The last layer's state at every token, the last state of every layer, and the last LSTM memory of every layer;
        for a GRU, which has no memory, the second result again.
    """
    op = import_extra("onnxscript", "export,translation").opset18  # its methods create nodes
    # PyTorch's GRU applies the reset gate after the matrix product with the hidden state
    cells, settings = (op.LSTM, {}) if lstm else (op.GRU, {"linear_before_reset": 1})
    last_states, n_tokens = [], op.Cast(lengths, to=INT32)
    for first in range(0, len(weights), 3):
        ih, hh, bias = weights[first : first + 3]
        inputs = op.Transpose(x, perm=[1, 0, 2]), ih, hh, bias, n_tokens
        states, *last = cells(*inputs, direction="bidirectional", hidden_size=hh.shape[2], **settings)
        x = op.Reshape(op.Transpose(states, perm=[2, 0, 1, 3]), [0, 0, -1])  # concatenates both directions
        last_states.append([op.Reshape(op.Transpose(state, perm=[1, 0, 2]), [0, -1]) for state in last])
    stacked = [
        op.Concat(*(op.Unsqueeze(state, [0]) for state in of_all_layers), axis=0)
        for of_all_layers in zip(*last_states, strict=True)
    ]
    return x, stacked[0], stacked[-1]


def onnx_weights(cells: Cells) -> Iterator[Tensor]:
    """Yield, for each layer, the input weights, hidden weights and biases in ONNX's layout.

    Each tensor is stacked over both directions; the input and hidden biases are concatenated. The gates are reordered:
    for an LSTM from PyTorch's order i f g o to ONNX's i o f c, for a GRU from r z n to z r h.
    """
    order = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}[cells.kind]
    for layer in range(cells.layers.num_layers):
        directions = []
        for suffix in (f"l{layer}", f"l{layer}_reverse"):
            parameters = [getattr(cells.layers, f"{part}_{suffix}").detach() for part in PARAMETERS]
            ih, hh, *biases = (torch.cat([p.chunk(len(order))[gate] for gate in order]) for p in parameters)
            directions.append((ih, hh, torch.cat(biases)))
        yield from map(torch.stack, zip(*directions, strict=True))


class EncoderGraph(nn.Module):
    """The encoder, with only tensors as inputs and outputs; it computes the first decoder state too."""

    def __init__(self, model: Recurrent) -> None:
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder
        self.weights = nn.ParameterList(onnx_weights(model.encoder.cells))

    def forward(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> tuple[Tensor, ...]:
        """Return the encoded sources, then the other tensors of the decoder state before the first target token."""
        if torch.compiler.is_exporting():
            x, lstm = self.encoder.embedding(source), self.encoder.cells.kind == "lstm"
            states, *last = torch.ops.regard.read_cells(x, lengths, list(self.weights), lstm)
            encoded = Encoded(states=states, last=tuple(last if lstm else last[:1]))
        else:
            encoded = self.encoder(source, lengths)
        return tuple(tensors_of(self.decoder.start(encoded, lengths), self.decoder).values())


class DecoderGraph(nn.Module):
    """One decoding step, with only tensors as inputs and outputs; it reads one target token of each sentence."""

    def __init__(self, model: Recurrent) -> None:
        super().__init__()
        self.decoder = model.decoder

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], tensors: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the logits of the next token, then the tensors of the state that the step has changed."""
        return self.tensors_after(self.step(token, lengths, tensors))

    def step(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], tensors: tuple[Tensor, ...]
    ) -> DecoderStep:
        """Run the decoder on one token of each target.

        Args:
            lengths: the number of source tokens of each sentence.
            tensors: at the first step, the outputs of the encoder graph. At a later step, the tensors whose names begin
                with past_ are replaced by the state tensors that the previous step returned.
        """
        states, *others = tensors  # in the order of `tensors_of`
        keys = others.pop(0) if isinstance(self.decoder.reader.score, Preparable) else states
        # the number of tensors that the cells' state has: 2 for an LSTM, 1 for a GRU
        n_hidden = len(self.decoder.bridges) // self.decoder.cells.layers.num_layers
        hidden, others = tuple(others[:n_hidden]), others[n_hidden:]
        state = State(
            memory=Memory(states=states, keys=keys, lengths=lengths),
            hidden=hidden,
            output=others.pop(0) if self.decoder.form == "luong_feeding" else torch.zeros_like(states[:, 0]),
            weights=others.pop(0) if self.decoder.reader.is_location_aware else torch.zeros_like(states[:, :, 0]),
            n_tokens=0,  # used only by attention="local_m", which is not exported
        )
        return self.decoder.step(self.decoder.embedding(token), state)

    def tensors_after(self, step: DecoderStep) -> tuple[Tensor, ...]:
        new = [tensor for name, tensor in tensors_of(step.state, self.decoder).items() if name.startswith(PAST)]
        return self.decoder.to_logits(step.state.output), *new


def tensors_of(state: State, decoder: Decoder) -> dict[str, Tensor]:
    """Return a decoder state's tensors by name; source_… stay the same in all steps, past_… change in each step."""
    tensors = {"source_states": state.memory.states}
    if isinstance(decoder.reader.score, Preparable):
        tensors["source_keys"] = state.memory.keys
    tensors |= zip((f"{PAST}hidden", f"{PAST}memory"), state.hidden, strict=False)  # a GRU has only "hidden"
    if decoder.form == "luong_feeding":
        tensors[f"{PAST}output"] = state.output
    if decoder.reader.is_location_aware:
        tensors[f"{PAST}weights"] = state.weights
    return tensors


def recurrent_graphs(model: Recurrent) -> Graphs:
    config = model.config
    if config.attention == "local_m":
        raise InputError(
            'this translator has attention="local_m", whose window depends on the number of the step, which ONNX '
            'graphs do not get; train it with attention="soft", "hard" or "local_p" to export it.'
        )
    source, lengths = torch.full((2, 5), config.n_source_tokens - 1), torch.tensor([5, 3])
    encoder, decoder = EncoderGraph(model).eval(), DecoderGraph(model).eval()
    with torch.no_grad():
        state = tensors_of(model.start(source, lengths), model.decoder)
        tensors = encoder(source, lengths)
    names = list(state)
    axes: dict[str, Axes] = {
        "source_states": ("batch", "source", state["source_states"].shape[2]),
        "source_keys": ("batch", "source", state.get("source_keys", state["source_states"]).shape[2]),
        f"{PAST}hidden": (config.n_layers, "batch", config.d_model),
        f"{PAST}memory": (config.n_layers, "batch", config.d_model),
        f"{PAST}output": ("batch", config.d_model),
        f"{PAST}weights": ("batch", "source"),
    }
    encoder_outputs, lengths_axes = {name: axes[name] for name in names}, {"lengths": ("batch",)}
    new_state = {f"{PRESENT}{name.removeprefix(PAST)}": axes[name] for name in names if name.startswith(PAST)}
    return Graphs(
        encoder=Graph(
            module=encoder,
            example=(source, lengths),
            inputs={"source": ("batch", "source"), **lengths_axes},
            outputs=encoder_outputs,
        ),
        decoder=Graph(
            module=decoder,
            example=(torch.full((2, 1), config.n_target_tokens - 1), lengths, tensors),
            inputs={"token": ("batch", 1), **lengths_axes, **encoder_outputs},
            outputs={"logits": ("batch", config.n_target_tokens), **new_state},
        ),
    )
