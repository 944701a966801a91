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

SOURCE_STATES, SOURCE_KEYS = "source_states", "source_keys"
PAST_HIDDEN, PAST_MEMORY = f"{PAST}hidden", f"{PAST}memory"
PAST_OUTPUT, PAST_WEIGHTS = f"{PAST}output", f"{PAST}weights"
"""The names of all tensors that a decoder state may have; see `tensor_names`."""

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
    n_layers = len(weights) // 3  # each layer has three tensors of weights
    width = 2 * weights[1].shape[2]  # a hidden weight is [directions gates·d_state d_state]
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
    op = import_extra("onnxscript", "export,translation").opset18  # ONNX's operators (version 18, as `onnx.OPSET`)
    # PyTorch's GRU applies the reset gate after the matrix product with the hidden state
    cells, settings = (op.LSTM, {}) if lstm else (op.GRU, {"linear_before_reset": 1})
    n_tokens = op.Cast(lengths, to=INT32)
    last_of_layers, memory_of_layers = [], []
    for first in range(0, len(weights), 3):
        ih, hh, bias = weights[first : first + 3]
        # ONNX's LSTM and GRU take X, W, R, B, sequence_lens and return Y, Y_h and, for an LSTM, Y_c:
        # Y is [tokens directions batch d_state]; Y_h and Y_c are [directions batch d_state]
        inputs = op.Transpose(x, perm=[1, 0, 2]), ih, hh, bias, n_tokens
        states, *last = cells(*inputs, direction="bidirectional", hidden_size=hh.shape[2], **settings)
        # in the shape of a Reshape, 0 keeps an axis and -1 joins the rest: here directions and d_state
        x = op.Reshape(op.Transpose(states, perm=[2, 0, 1, 3]), [0, 0, -1])
        last = [op.Reshape(op.Transpose(state, perm=[1, 0, 2]), [0, -1]) for state in last]
        last_of_layers.append(op.Unsqueeze(last[0], [0]))
        memory_of_layers.append(op.Unsqueeze(last[-1], [0]))  # a GRU has only Y_h
    return x, op.Concat(*last_of_layers, axis=0), op.Concat(*memory_of_layers, axis=0)


def onnx_weights(cells: Cells) -> Iterator[Tensor]:
    """Yield, for each layer, the input weights, hidden weights and biases in ONNX's layout.

    Each tensor is stacked over both directions; the input and hidden biases are concatenated. The gates are reordered:
    for an LSTM from PyTorch's order input, forget, cell, output to ONNX's input, output, forget, cell; for a GRU from
    reset, update, new state to update, reset, new state.
    """
    order = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}[cells.kind]
    for layer in range(cells.layers.num_layers):
        directions = []
        for suffix in (f"l{layer}", f"l{layer}_reverse"):
            reordered = {}
            for part in PARAMETERS:
                gates = getattr(cells.layers, f"{part}_{suffix}").detach().chunk(len(order))
                reordered[part] = torch.cat([gates[gate] for gate in order])
            bias = torch.cat([reordered["bias_ih"], reordered["bias_hh"]])
            directions.append((reordered["weight_ih"], reordered["weight_hh"], bias))
        for both_directions in zip(*directions, strict=True):  # the input weights, then hidden weights, then biases
            yield torch.stack(both_directions)


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
            encoded = Encoded(states=states, last=tuple(last if lstm else last[:1]))  # a GRU has no memory
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
            tensors: at the first step, the outputs of the encoder graph, named by `tensor_names`. At a later step, the
                tensors whose names begin with past_ are replaced by the state tensors that the previous step returned.
        """
        by_name = dict(zip(tensor_names(self.decoder), tensors, strict=True))
        states = by_name[SOURCE_STATES]
        state = State(
            memory=Memory(states=states, keys=by_name.get(SOURCE_KEYS, states), lengths=lengths),
            hidden=tuple(by_name[name] for name in (PAST_HIDDEN, PAST_MEMORY) if name in by_name),
            # a decoder without the tensor "past_output" or "past_weights" never reads this field
            output=by_name[PAST_OUTPUT] if PAST_OUTPUT in by_name else torch.zeros_like(states[:, 0]),
            weights=by_name[PAST_WEIGHTS] if PAST_WEIGHTS in by_name else torch.zeros_like(states[:, :, 0]),
            n_tokens=0,  # used only by attention="local_m", which is not exported
        )
        return self.decoder.step(self.decoder.embedding(token), state)

    def tensors_after(self, step: DecoderStep) -> tuple[Tensor, ...]:
        new = [tensor for name, tensor in tensors_of(step.state, self.decoder).items() if name.startswith(PAST)]
        return self.decoder.to_logits(step.state.output), *new  # a `DecoderStep` itself has no logits


def tensors_of(state: State, decoder: Decoder) -> dict[str, Tensor]:
    tensors = {
        SOURCE_STATES: state.memory.states,
        SOURCE_KEYS: state.memory.keys,
        PAST_HIDDEN: state.hidden[0],
        PAST_MEMORY: state.hidden[-1],  # used only for an LSTM
        PAST_OUTPUT: state.output,
        PAST_WEIGHTS: state.weights,
    }
    return {name: tensors[name] for name in tensor_names(decoder)}


def tensor_names(decoder: Decoder) -> list[str]:
    """Return the names of the state tensors that a decoder reads; source_… never change, past_… change in each step."""
    is_needed = {
        SOURCE_STATES: True,
        SOURCE_KEYS: isinstance(decoder.reader.score, Preparable),  # keys are projected, once for all steps
        PAST_HIDDEN: True,
        PAST_MEMORY: decoder.cells.kind == "lstm",
        PAST_OUTPUT: decoder.form == "luong_feeding",  # the last attention vector is an input of the cells
        PAST_WEIGHTS: decoder.reader.is_location_aware,  # the score reads the weights of the last step
    }
    return [name for name, needed in is_needed.items() if needed]


def recurrent_graphs(model: Recurrent) -> Graphs:
    config = model.config
    if config.attention == "local_m":
        raise InputError(
            'this translator has attention="local_m", whose window depends on the number of the step, which ONNX '
            'graphs do not get; train it with attention="soft", "hard" or "local_p" to export it.'
        )
    source = torch.full((2, 5), config.n_source_tokens - 1)  # the last id: no special token, which have the first ids
    lengths = torch.tensor([5, 3])
    encoder, decoder = EncoderGraph(model).eval(), DecoderGraph(model).eval()
    with torch.no_grad():
        tensors = encoder(source, lengths)
        memory = model.start(source, lengths).memory
    names = tensor_names(model.decoder)
    axes: dict[str, Axes] = {
        SOURCE_STATES: ("batch", "source", memory.states.shape[2]),
        SOURCE_KEYS: ("batch", "source", memory.keys.shape[2]),
        PAST_HIDDEN: (config.n_layers, "batch", config.d_model),
        PAST_MEMORY: (config.n_layers, "batch", config.d_model),
        PAST_OUTPUT: ("batch", config.d_model),
        PAST_WEIGHTS: ("batch", "source"),
    }
    encoder_outputs = {name: axes[name] for name in names}
    lengths_axes = {"lengths": ("batch",)}
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
