"""A recurrent encoder-decoder as two modules of tensors, which an exporter can trace for texts of any length.

The decoder graph calls the model's own decoder, one token at a time. The recurrent cells of the encoder would be traced
for one length of text alone, so the encoder graph calls the operator `regard::read_cells` instead. The operator has no
implementation in PyTorch; each export format replaces it by its own cells.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.scores.prepared import Preparable
from regard.errors import InputError
from regard.export.transformer_graphs import PAST, PRESENT, Axes, Graph, Graphs
from regard.recurrent.attention import Memory
from regard.recurrent.cell import Cells
from regard.recurrent.decoder import Decoder, State
from regard.recurrent.encoder import Encoded
from regard.recurrent.model import Recurrent

PARTS = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
"""The parameters of one direction of a layer of PyTorch's cells."""

INT32 = 6
"""ONNX's number for the data type int32."""

torch.library.define(
    "regard::read_cells", "(Tensor x, Tensor lengths, Tensor[] weights, bool lstm) -> (Tensor, Tensor, Tensor)"
)


def shapes(x: Tensor, lengths: Tensor, weights: list[Tensor], lstm: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return empty tensors with the shapes of the operator's results: all states, and the last states of the cells."""
    (batch, tokens, _), width = x.shape, 2 * weights[1].shape[2]
    last = x.new_empty(len(weights) // 3, batch, width)
    return x.new_empty(batch, tokens, width), last, torch.empty_like(last)


torch.library.register_fake("regard::read_cells", shapes)


def onnx_cells(op: Any, x: Any, lengths: Any, weights: Sequence[Any], lstm: bool) -> tuple[Any, Any, Any]:
    """Return the results of `regard::read_cells` computed by ONNX's LSTM or GRU in both directions.

    Args:
        op: the builder of ONNX nodes.
        weights: see `onnx_weights`.
    """
    kind, how = (op.LSTM, {}) if lstm else (op.GRU, {"linear_before_reset": 1})
    known, n_tokens = [], op.Cast(lengths, to=INT32)
    for layer in range(0, len(weights), 3):
        ih, hh, bias = weights[layer : layer + 3]
        given = op.Transpose(x, perm=[1, 0, 2]), ih, hh, bias, n_tokens
        states, *last = kind(*given, direction="bidirectional", hidden_size=hh.shape[2], **how)
        x = op.Reshape(op.Transpose(states, perm=[2, 0, 1, 3]), [0, 0, -1])  # both directions side by side
        known.append([op.Reshape(op.Transpose(part, perm=[1, 0, 2]), [0, -1]) for part in last])
    parts = [op.Concat(*(op.Unsqueeze(layer, [0]) for layer in part), axis=0) for part in zip(*known, strict=True)]
    return x, parts[0], parts[-1]


def onnx_weights(cells: Cells) -> Iterator[Tensor]:
    """Yield the weights that ONNX's operators take: three tensors for each layer, stacked over both directions.

    ONNX has its gates in another order: i o f c for an LSTM, not PyTorch's i f g o; z r h for a GRU, not r z n.
    """
    order = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}[cells.kind]
    for layer in range(cells.layers.num_layers):
        ways = []
        for way in (f"l{layer}", f"l{layer}_reverse"):
            given = [getattr(cells.layers, f"{part}_{way}").detach() for part in PARTS]
            ih, hh, *biases = (torch.cat([part.chunk(len(order))[gate] for gate in order]) for part in given)
            ways.append((ih, hh, torch.cat(biases)))
        yield from map(torch.stack, zip(*ways, strict=True))


class EncoderGraph(nn.Module):
    """From source ids and lengths to the encoded source and the decoder's state before the first token."""

    def __init__(self, model: Recurrent) -> None:
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder
        self.weights = nn.ParameterList(onnx_weights(model.encoder.cells))

    def forward(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> tuple[Tensor, ...]:
        """Return the tensors that `parts_of` names."""
        encoded = self.exported(source, lengths) if torch.compiler.is_exporting() else self.encoder(source, lengths)
        return tuple(parts_of(self.decoder.start(encoded, lengths), self.decoder).values())

    def exported(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Return the encoded source, its cells computed by the operator."""
        lstm = self.encoder.cells.kind == "lstm"
        states, *last = torch.ops.regard.read_cells(self.encoder.embedding(source), lengths, list(self.weights), lstm)
        return Encoded(states=states, last=tuple(last if lstm else last[:1]))


class DecoderGraph(nn.Module):
    """From one token and a state to logits and the next state."""

    def __init__(self, model: Recurrent) -> None:
        super().__init__()
        self.decoder = model.decoder

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], known: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the logits of the next token, and the state after this one.

        Args:
            known: the tensors that the encoder graph returned, with the state of the step before in place of the first.
        """
        states, *rest = known
        keys = rest.pop(0) if isinstance(self.decoder.reader.score, Preparable) else states
        n_parts = len(self.decoder.bridges) // self.decoder.cells.layers.num_layers
        hidden, rest = tuple(rest[:n_parts]), rest[n_parts:]
        state = State(
            memory=Memory(states=states, keys=keys, lengths=lengths),
            hidden=hidden,
            output=rest.pop(0) if self.decoder.form == "luong_feeding" else torch.zeros_like(states[:, 0]),
            weights=rest.pop(0) if self.decoder.reader.is_location_aware else torch.zeros_like(states[:, :, 0]),
            n_tokens=0,  # only a window counts them
        )
        after = self.decoder.step(self.decoder.embedding(token), state).state
        parts = parts_of(after, self.decoder)
        return self.decoder.to_logits(after.output), *(part for name, part in parts.items() if name.startswith(PAST))


def parts_of(state: State, decoder: Decoder) -> dict[str, Tensor]:
    """The tensors that a decoder's steps need, by name: of the source, and what changes from step to step."""
    parts = {"source_states": state.memory.states}
    if isinstance(decoder.reader.score, Preparable):
        parts["source_keys"] = state.memory.keys
    parts |= zip((f"{PAST}hidden", f"{PAST}memory"), state.hidden, strict=False)
    if decoder.form == "luong_feeding":
        parts[f"{PAST}output"] = state.output
    if decoder.reader.is_location_aware:
        parts[f"{PAST}weights"] = state.weights
    return parts


def recurrent_graphs(model: Recurrent) -> Graphs:
    """The graphs of a recurrent encoder-decoder, with inputs to follow them with.

    Raises:
        InputError: attention that moves with the number of tokens, which no tensor here knows.
    """
    config = model.config
    if config.attention == "local_m":
        raise InputError(
            'this translator looks near its own place (attention="local_m"), which its ONNX graphs cannot count; '
            'train it with attention="soft", "hard" or "local_p" to export it.'
        )
    source, lengths = torch.full((2, 5), config.n_source_tokens - 1), torch.tensor([5, 3])
    encoder, decoder = EncoderGraph(model).eval(), DecoderGraph(model).eval()
    with torch.no_grad():
        names, known = list(parts_of(model.start(source, lengths), model.decoder)), encoder(source, lengths)
    layers, per_token = (config.n_layers, "batch", config.d_model), ("batch", "source")
    axes: dict[str, Axes] = {
        "source_states": (*per_token, known[0].shape[2]),
        "source_keys": (*per_token, known[1].shape[2]),
        f"{PAST}hidden": layers,
        f"{PAST}memory": layers,
        f"{PAST}output": ("batch", config.d_model),
        f"{PAST}weights": per_token,
    }
    given, texts = {name: axes[name] for name in names}, {"lengths": ("batch",)}
    after = {f"{PRESENT}{name.removeprefix(PAST)}": axes[name] for name in names if name.startswith(PAST)}
    return Graphs(
        encoder=Graph(
            module=encoder,
            example=(source, lengths),
            inputs={"source": ("batch", "source"), **texts},
            outputs=given,
        ),
        decoder=Graph(
            module=decoder,
            example=(torch.full((2, 1), config.n_target_tokens - 1), lengths, known),
            inputs={"token": ("batch", 1), **texts, **given},
            outputs={"logits": ("batch", config.n_target_tokens), **after},
        ),
    )
