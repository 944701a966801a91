"""A translator as ONNX graphs, for ONNX Runtime anywhere: a server, a phone, a browser.

    encoder.onnx            source [batch source], lengths [batch]    →  the source, prepared for the decoder
    decoder.onnx            token [batch 1], lengths, the prepared source, the state so far    →  logits, the new state
    config.json             the ids to begin and to end with, the longest text, what the graphs take and give
    source.spm target.spm   the vocabularies, to cut a text into pieces and to join them again

The state of the decoder has names that begin with past_. Before the first token, BOS, it is the encoder's output of the
same names, or empty if the encoder has none; after each step it is the decoder's output of the names that begin with
present_. In config.json the axis "past" is the number of target tokens so far.
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
from torch import Tensor, nn

from regard.errors import InputError, import_extra
from regard.export.recurrent_graphs import onnx_cells, recurrent_graphs
from regard.export.transformer_graphs import PAST, Graphs, transformer_graphs
from regard.recurrent.model import Recurrent
from regard.text.vocabulary import BOS, EOS, PAD
from regard.transformer.model import Transformer
from regard.translation.translator_folder import TranslatorContents

OPSET = 18
"""The version of ONNX's operators; of 2022, so that runtimes in use know it."""


def write(contents: TranslatorContents, folder: Path) -> None:
    """Write a translator as ONNX graphs.

    Raises:
        InputError: a model that is neither a Transformer nor a Recurrent, or onnx is not installed.
    """
    import_extra("onnxscript", "export,translation")
    graphs = graphs_of(contents.model)
    max_tokens = contents.model.config.max_tokens
    for graph, name in ((graphs.encoder, "encoder"), (graphs.decoder, "decoder")):
        export(graph.module, graph.example, graph.inputs, graph.outputs, max_tokens, folder / f"{name}.onnx")
    config = {
        "pad": PAD,
        "bos": BOS,
        "eos": EOS,
        "max_tokens": max_tokens,
        "encoder": {"inputs": graphs.encoder.inputs, "outputs": graphs.encoder.outputs},
        "decoder": {"inputs": graphs.decoder.inputs, "outputs": graphs.decoder.outputs},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    contents.source_vocabulary.save(folder / "source.spm")
    contents.target_vocabulary.save(folder / "target.spm")


def graphs_of(model: Any) -> Graphs:
    """Return the graphs of a model."""
    if isinstance(model, Transformer):
        return transformer_graphs(model)
    if isinstance(model, Recurrent):
        return recurrent_graphs(model)
    raise InputError(
        "only a Transformer and a Recurrent are exported to ONNX, and this is a "
        f"{type(model).__name__} translator; it runs in regard alone."
    )


def export(
    module: nn.Module,
    example: Sequence[Tensor | tuple[Tensor, ...]],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    max_tokens: int,
    path: Path,
) -> None:
    """Write one graph, in which each named axis may have any length up to the model's max_tokens, or any batch size."""
    named = {
        axis: torch.export.Dim(axis, max=None if axis == "batch" else max_tokens)
        for axes in inputs.values()
        for axis in axes
        if isinstance(axis, str)
    }
    flat = iter([{i: named[axis] for i, axis in enumerate(axes) if axis in named} for axes in inputs.values()])
    dynamic = tuple(next(flat) if isinstance(one, Tensor) else tuple(next(flat) for _ in one) for one in example)
    with quiet(), torch.no_grad():
        program = torch.onnx.export(
            module.eval(),
            tuple(example),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=dynamic,
            opset_version=OPSET,
            custom_translation_table={torch.ops.regard.read_cells.default: cells_of_graph},
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # None is returned only by the older exporter
        program.save(path)


def cells_of_graph(x: Any, lengths: Any, weights: Sequence[Any], lstm: bool) -> tuple[Any, Any, Any]:
    """Return the nodes of recurrent cells, for the graph that is being written."""
    return onnx_cells(import_extra("onnxscript", "export,translation").opset18, x, lengths, weights, lstm)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the log lines and warnings of torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class Opened:
    """An exported translator, loaded with ONNX Runtime and SentencePiece."""

    def __init__(self, folder: Path) -> None:
        runtime, sentencepiece = (
            import_extra("onnxruntime", "export,translation"),
            import_extra("sentencepiece", "export,translation"),
        )
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.encoder, self.decoder = (
            runtime.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
            for name in ("encoder", "decoder")
        )
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(folder / name)) for name in ("source.spm", "target.spm")
        )

    def translate(self, text: str, limit: int) -> tuple[list[int], str]:
        """Return the ids of a greedy translation of at most `limit` pieces, and its text."""
        tokens: list[int] = []
        steps = self.steps(text)
        logits = next(steps)
        while len(tokens) < limit:
            logits[[PAD, BOS]] = -np.inf
            if (token := int(logits.argmax())) == EOS:
                break
            tokens.append(token)
            logits = steps.send(token)
        return tokens, self.target.decode(tokens)

    def log_probability(self, text: str, tokens: list[int]) -> float:
        """Return the log-probability of some pieces and EOS, in nats."""
        steps = self.steps(text)
        read = [next(steps), *map(steps.send, tokens)]
        logits = torch.from_numpy(np.stack(read)).double()
        return logits.log_softmax(dim=1).gather(1, torch.tensor([[*tokens, EOS]]).T).sum().item()

    def steps(self, text: str) -> Generator[Float[np.ndarray, " vocabulary"], int, None]:
        """Yield logits of the first token, then of the token after each token that is sent."""
        source = np.array([[*self.source.encode(text), EOS]])
        lengths = np.array([source.shape[1]])
        read = self.encoder.run(None, {"source": source, "lengths": lengths})
        known = dict(zip(self.config["encoder"]["outputs"], read, strict=True))
        inputs = self.config["decoder"]["inputs"]
        known |= {name: empty(axes) for name, axes in inputs.items() if name.startswith(PAST) and name not in known}
        token = BOS
        while True:
            given = {name: known[name] for name in inputs if name in known}
            logits, *state = self.decoder.run(None, {"token": np.array([[token]]), "lengths": lengths, **given})
            known |= dict(zip((name for name in inputs if name.startswith(PAST)), state, strict=True))
            token = yield logits[0]


def empty(axes: Sequence[str | int]) -> Float[np.ndarray, "*axes"]:
    """Return an empty tensor of the state of one text before its first token."""
    sizes = {"batch": 1, "past": 0}
    return np.zeros([axis if isinstance(axis, int) else sizes[axis] for axis in axes], dtype=np.float32)
