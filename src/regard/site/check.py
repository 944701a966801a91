"""Compare an exported model with the original: weights, vectors and output, before and after heads are changed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.effects.changes import Change, Cut, Sharpen
from regard.errors import InputError, import_extra
from regard.site.block_names import HIDDEN, PARTS, block_name
from regard.site.graph import PAST
from regard.tracing.model_loading import LoadedModel
from regard.tracing.run import trace
from regard.tracing.trace import Trace

TOLERANCE = 1e-4
"""The largest difference between the two models that is accepted as rounding in float32."""

TEXTS = (
    "The snake is very dangerous because it has a venom.",
    "It rains.",
    "She said that the ship, which her father had built, sailed in 1912 and never came back; nobody knows why it sank.",
)
"""The texts that the exported model and the original read for the comparison."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest differences between what an exported model and the original compute.

    Attributes:
        weights: the largest difference of an attention weight in any head.
        others: the largest difference of a number in the tensors of queries, keys, values, hidden vectors and output.
            If a tensor has an absolute value above 1, its differences are divided by its largest absolute value.
    """

    weights: float
    others: float

    @property
    def holds(self) -> bool:
        """Whether the differences are small enough to be caused by rounding."""
        return self.weights <= TOLERANCE and self.others <= TOLERANCE

    def __str__(self) -> str:
        return f"{self.weights:.1e} in a weight, {self.others:.1e} in the other numbers"

    @classmethod
    def largest(cls, differences: "Sequence[Difference]") -> "Difference":
        """Return the largest of several differences; NaN if one is NaN, which Python's `max` would not ensure."""
        numbers = [(difference.weights, difference.others) for difference in differences]
        weights, others = np.max([(0.0, 0.0), *numbers], axis=0).tolist()
        return cls(weights, others)


def check_graph(path: Path, loaded: LoadedModel, max_tokens: int, int8: bool = False) -> Difference:
    """Compare an ONNX file with the original model, and return the largest differences.

    Args:
        max_tokens: the largest number of tokens that the graph reads.
        int8: whether the parameters in the file are 8-bit integers, so that differences may be larger than rounding.

    Raises:
        InputError: a difference is NaN or infinite; or, without `int8`, too large to be caused by rounding.
    """
    runtime = import_extra("onnxruntime", "export,huggingface")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    texts = [loaded.tokenizer(text)["input_ids"][:max_tokens] for text in TEXTS]
    differences = [
        differences_of(session, loaded, ids, with_changes) for ids in texts for with_changes in (False, True)
    ]
    is_causal = any(graph_input.name.startswith(PAST) for graph_input in session.get_inputs())
    if is_causal:
        differences += [differences_of(session, loaded, ids, with_changes=False, in_two_runs=True) for ids in texts]
    longest = longest_text(loaded.tokenizer, max_tokens)
    worst = Difference.largest([*differences, differences_of(session, loaded, longest, with_changes=False)])
    is_accepted = math.isfinite(worst.weights + worst.others) if int8 else worst.holds
    if not is_accepted:
        raise InputError(
            f"{loaded.name} as an ONNX graph does not attend as the model itself does, so no site was written: they "
            f"differ by up to {worst}."
        )
    return worst


def longest_text(tokenizer: Any, max_tokens: int) -> list[int]:
    """Return the ids of `max_tokens` tokens: the texts in `TEXTS`, repeated."""
    ids: list[int] = tokenizer(" ".join(TEXTS))["input_ids"]
    return (ids * (max_tokens // len(ids) + 1))[:max_tokens]


@torch.no_grad()
def differences_of(
    session: Any, loaded: LoadedModel, ids: list[int], with_changes: bool, in_two_runs: bool = False
) -> Difference:
    """Return the largest differences between an exported model (`session`) and the original on the tokens `ids`.

    Args:
        with_changes: whether, in the first layer, the last token attends to no key in head 0, and the last head has
            the temperature 0.5.
        in_two_runs: whether a causal model reads the text in two runs; the second gets keys and values of the first.
    """
    n_tokens, last = len(ids), len(ids) - 1
    shapes = {graph_input.name: graph_input.shape for graph_input in session.get_inputs()}
    inputs = {
        "ids": np.array([ids]),
        "cut": np.zeros((n_tokens, n_tokens), dtype=bool),
        "changed": np.zeros(shapes["changed"], dtype=bool),
        "temperature": np.ones(shapes["temperature"], dtype=np.float32),
    }
    changes: list[Change] = []
    if with_changes:
        inputs["cut"][last] = True  # "cut" has no effect where "changed", with the axes [layers heads], is False
        inputs["changed"][0, 0] = True
        inputs["temperature"][0, -1] = 0.5
        attended = trace(loaded.model, ids, tokenizer=loaded.tokenizer).attended
        (layers,) = attended.values()  # a model with a graph has one kind of attention
        first_layer = next(iter(layers))
        changes = [Cut(last, key, heads=[f"L{first_layer}H0"]) for key in range(n_tokens)]
        changes.append(Sharpen(f"L{first_layer}H{shapes['temperature'][1] - 1}", 0.5))
    has_hidden = any(output.name.endswith(f" {HIDDEN[0]}") for output in session.get_outputs())
    keep = ("hidden",) if has_hidden and not with_changes else ()
    exact = trace(loaded.model, ids, tokenizer=loaded.tokenizer, changes=changes, keep=keep)
    outputs = run_graph(session, inputs, n_read_first=n_tokens // 2 if in_two_runs else 0)
    return compare({name: torch.from_numpy(array) for name, array in outputs.items()}, exact, weights=not with_changes)


def run_graph(session: Any, inputs: dict[str, np.ndarray], n_read_first: int = 0) -> dict[str, np.ndarray]:
    """Run a graph, loaded in ONNX Runtime, and return its outputs by name.

    Args:
        inputs: the inputs by name, except cached keys and values. Inputs that the graph does not have are ignored.
        n_read_first: the number of tokens that a causal model reads in a first run; a second run gets the keys and
            values of these tokens, and reads the others. 0 = one run.
    """
    shapes = {graph_input.name: graph_input.shape for graph_input in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    past = {  # no token is cached at first: axes of variable size have length 0
        name: np.zeros([axis if isinstance(axis, int) else 0 for axis in shape], dtype=np.float32)
        for name, shape in shapes.items()
        if name.startswith(PAST)
    }
    runs: list[dict[str, np.ndarray]] = []  # the outputs of each run
    n_tokens = inputs["ids"].shape[1]
    for positions in filter(None, (range(n_read_first), range(n_read_first, n_tokens))):
        span = slice(positions.start, positions.stop)
        run_inputs = inputs | past
        run_inputs["ids"] = inputs["ids"][:, span]
        run_inputs["cut"] = inputs["cut"][span, span]  # without cached keys, which cannot be cut
        run_inputs["places"] = np.arange(len(positions))  # logits after each token of this run
        outputs = session.run(None, {name: run_inputs[name] for name in shapes})
        runs.append(dict(zip(names, outputs, strict=True)))
        past = {name: runs[-1][name.removeprefix(PAST)] for name in past}
    # each run returns vectors of its own tokens only; "output" has no axis of heads before the axis of tokens
    return {name: np.concatenate([run[name] for run in runs], axis=1 if name == "output" else 2) for name in names}


def compare(outputs: Mapping[str, Tensor], exact: Trace, weights: bool) -> Difference:
    """Return the largest differences between the outputs of an ONNX graph and a trace of the original model.

    Args:
        outputs: the tensors by name: by `block_name`, and "output".
        weights: whether to compare attention weights. They are computed here from queries and keys, so they are wrong
            if a key was cut or a temperature was changed.
    """
    others = [] if exact.output is None else [relative_difference(outputs["output"], exact.output)]
    weight_differences = [0.0]
    for kind, layers in exact.attended.items():
        for layer, step in layers.items():
            pattern = step.pattern
            vectors = [outputs[block_name(kind, layer, part)] for part in PARTS]
            others += map(relative_difference, vectors, [getattr(pattern, part) for part in PARTS])
            if weights and pattern.call.formula is not None:
                attended = attend(*(part.double() for part in vectors), score=pattern.score, mask=pattern.mask)
                weight_differences.append(float((attended.pattern.dense() - pattern.dense()).abs().max()))
    for kind, states in (exact.states or {}).items():
        if kind != "cross":  # a layer's hidden vectors are compared once, with its self-attention
            for layer, state in states.items():
                for part in HIDDEN:
                    hidden = outputs[block_name(kind, layer, part)][0, 0]  # the axes before the tokens have length 1
                    others.append(relative_difference(hidden, getattr(state, part)))
    return Difference(float(np.max(weight_differences)), float(np.max(others)))


def relative_difference(computed: Tensor, exact: Tensor) -> float:
    """Return the largest absolute difference, divided by the largest absolute value in `exact` if that is above 1."""
    return float((computed - exact).abs().max()) / max(1.0, float(exact.abs().max()))
