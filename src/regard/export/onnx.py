"""Exporting a translator to two ONNX graphs, which ONNX Runtime runs on servers, phones and in browsers.

    encoder.onnx            source [batch source], lengths [batch]  →  the encoded source
    decoder.onnx            token [batch 1], lengths, the encoded source, decoder state  →  logits, new decoder state
    config.json             the ids of PAD, BOS and EOS, max_tokens, and the names and axes of all inputs and outputs
    source.spm target.spm   the vocabularies, to split texts into pieces and to join pieces

To read a text, clean it as `regard.text.cleaning.clean_text` does, divide it into the pieces of source.spm, and add the
id of EOS. In an export of a Marian model, source.spm also has pieces of the other language, marked as unused.
SentencePiece returns the id of the unknown piece for them; use the id that the piece itself has in source.spm, as
Marian does.

To translate, run the encoder once, then the decoder once per target token, beginning with the token BOS. Decoder inputs
whose names begin with past_ are the decoder state:

    first step     the encoder's outputs of the same names (a recurrent encoder has some, such as past_hidden);
                   otherwise empty tensors (the axis "past" has length 0)
    later steps    the outputs of the previous step, whose names begin with present_ instead of past_

An axis that config.json names "past" has one position for each target token before the token of this step.
"""

import json
import logging
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, import_extra
from regard.export.recurrent_graphs import onnx_cells, recurrent_graphs
from regard.export.transformer_graphs import PAST, PRESENT, Graph, Graphs, transformer_graphs
from regard.recurrent.model import Recurrent
from regard.text.vocabulary import BOS, EOS, PAD, UNK
from regard.transformer.model import Transformer
from regard.translation.translator import Translator

OPSET = 18
"""The version of the ONNX operators: of 2022, supported by all common runtimes."""


def write(translator: Translator, folder: Path) -> None:
    write_graphs(graphs_of(translator.model), translator, folder)


def write_graphs(graphs: Graphs, translator: Translator, folder: Path) -> None:
    import_extra("onnxscript", "export,translation")
    max_tokens = translator.model.config.max_tokens
    write_graph(graphs.encoder, max_tokens, folder / "encoder.onnx")
    write_graph(graphs.decoder, max_tokens, folder / "decoder.onnx")
    config = {
        "pad": PAD,
        "bos": BOS,
        "eos": EOS,
        "max_tokens": max_tokens,
        "encoder": {"inputs": graphs.encoder.inputs, "outputs": graphs.encoder.outputs},
        "decoder": {"inputs": graphs.decoder.inputs, "outputs": graphs.decoder.outputs},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    translator.source_vocabulary.save(folder / "source.spm")
    translator.target_vocabulary.save(folder / "target.spm")


def graphs_of(model: Any) -> Graphs:
    if isinstance(model, Transformer):
        return transformer_graphs(model)
    if isinstance(model, Recurrent):
        return recurrent_graphs(model)
    raise InputError(
        "only a Transformer and a Recurrent can be exported to ONNX, and this is a "
        f"{type(model).__name__} translator, which only regard can run."
    )


def write_graph(graph: Graph, max_tokens: int, path: Path) -> None:
    """Write one ONNX graph to a file.

    An axis named "batch" may have any size, an axis "past" at most the size max_tokens - 1, since a token follows, and
    every other axis of variable size at most the size max_tokens.
    """
    largest = {"batch": None, "past": max_tokens - 1}
    variable_axis_names = {axis for axes in graph.inputs.values() for axis in axes if isinstance(axis, str)}
    variable_axes = {name: torch.export.Dim(name, max=largest.get(name, max_tokens)) for name in variable_axis_names}
    # for each input, {number of an axis: its `Dim`}, for the axes of variable size
    shapes_of_inputs = iter(
        {i: variable_axes[axis] for i, axis in enumerate(axes) if axis in variable_axes}
        for axes in graph.inputs.values()
    )
    dynamic_shapes = list[Any]()
    for argument in graph.example:  # a tensor is one input, a tuple is several inputs
        if isinstance(argument, Tensor):
            dynamic_shapes.append(next(shapes_of_inputs))
        else:
            dynamic_shapes.append(tuple(next(shapes_of_inputs) for _ in argument))
    with exporter_silenced(), torch.no_grad():
        program = torch.onnx.export(
            graph.module.eval(),
            graph.example,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=tuple(dynamic_shapes),
            opset_version=OPSET,
            # the operator that stands for a recurrent encoder's LSTM or GRU, which PyTorch cannot trace
            custom_translation_table={torch.ops.regard.read_cells.default: onnx_cells},
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # torch.onnx.export returns None only if dynamo=False
        program.save(path)


@contextmanager
def exporter_silenced() -> Iterator[None]:
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)


class LoadedExport:
    """An export that ONNX Runtime runs: an `ExportedTranslator`."""

    def __init__(self, folder: Path) -> None:
        runtime = import_extra("onnxruntime", "export,translation")
        sentencepiece = import_extra("sentencepiece", "export,translation")
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        providers = ["CPUExecutionProvider"]
        self.encoder = runtime.InferenceSession(folder / "encoder.onnx", providers=providers)
        self.decoder = runtime.InferenceSession(folder / "decoder.onnx", providers=providers)
        self.source_processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        self.target_processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))

    def translate(self, text: str, limit: int) -> tuple[list[int], str]:
        tokens: list[int] = []
        steps = self.steps(self.source_ids(text))
        logits = next(steps)["logits"][0]
        while len(tokens) < limit:
            logits[[PAD, BOS]] = -np.inf
            if (token := int(logits.argmax())) == EOS:
                break
            tokens.append(token)
            logits = steps.send(token)["logits"][0]  # runs the next step, on this token
        return tokens, self.target_processor.decode(tokens)

    def log_probability(self, text: str, tokens: list[int]) -> float:
        steps = self.steps(self.source_ids(text))
        outputs = [next(steps), *map(steps.send, tokens)]
        logits = torch.from_numpy(np.concatenate([step["logits"] for step in outputs])).double()
        return logits.log_softmax(dim=1).gather(1, torch.tensor([[*tokens, EOS]]).T).sum().item()

    def source_ids(self, text: str) -> list[int]:
        """Return the ids of a source text's pieces, and EOS."""
        pieces = zip(self.source_processor.encode(text), self.source_processor.encode(text, out_type=str), strict=True)
        return [*(self.unused_piece_id(piece) if token == UNK else token for token, piece in pieces), EOS]

    def unused_piece_id(self, letters: str) -> int:
        """Return the id of a piece that SentencePiece marks as unused (and reads as unknown); for other pieces, UNK."""
        token: int = self.source_processor.piece_to_id(letters)
        return token if self.source_processor.is_unused(token) else UNK

    def steps(self, source_ids: Sequence[int]) -> Generator[dict[str, np.ndarray], int, None]:
        """Run the decoder on BOS, then on each token that is passed to the generator's `send`.

        For each step, yield the outputs of the encoder and of the decoder by name; "logits" predict the next token.
        """
        source = np.array([source_ids])
        lengths = np.array([source.shape[1]])
        encoded = self.encoder.run(None, {"source": source, "lengths": lengths})
        tensors = dict(zip(self.config["encoder"]["outputs"], encoded, strict=True))
        inputs, outputs = self.config["decoder"]["inputs"], self.config["decoder"]["outputs"]
        state_names = [name for name in inputs if name.startswith(PAST)]
        tensors |= {name: empty_state_tensor(inputs[name]) for name in state_names if name not in tensors}
        token = BOS
        while True:
            decoder_inputs = {name: tensors[name] for name in inputs if name in tensors}
            decoder_inputs |= {"token": np.array([[token]]), "lengths": lengths}
            decoded = self.decoder.run(None, decoder_inputs)
            tensors |= dict(zip(outputs, decoded, strict=True))
            tensors |= {name: tensors[f"{PRESENT}{name.removeprefix(PAST)}"] for name in state_names}
            token = yield dict(tensors)


def empty_state_tensor(axes: Sequence[str | int]) -> Float[np.ndarray, "*axes"]:
    """Return a tensor of the decoder state before the first token: the axis "past" has size 0, "batch" size 1."""
    sizes = {"batch": 1, "past": 0}
    return np.zeros([axis if isinstance(axis, int) else sizes[axis] for axis in axes], dtype=np.float32)
