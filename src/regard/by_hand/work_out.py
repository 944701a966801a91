"""Attention by hand: compute every matrix of every step in float64.

    inputs → queries, keys and values → products → scores → masked → tempered → weights → context → output

`head_steps.py` computes the matrices of each head; this file gives each one its name and its formula.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.by_hand.example_inputs import MATRICES, ExampleInputs
from regard.by_hand.head_steps import HeadSteps, Matrix, head_steps
from regard.by_hand.inputs_file import built_in_inputs
from regard.by_hand.worked_attention import Stage, WorkedAttention
from regard.errors import InputError, counted
from regard.tracing.tokens.token_reference import TokenReference, query_position


def work_out(inputs: ExampleInputs, token: TokenReference | None = None) -> WorkedAttention:
    """Compute a worked example: every matrix of attention, step by step, from its inputs.

    `token` is the query whose row is marked in every matrix, and whose weighted values are shown; None = no query.

    >>> work_out(built_in_inputs("self-attention"))["products"].matrix
    array([[ 2.,  4.,  4.],
           [ 4., 16., 12.],
           [ 4., 12., 10.]])
    """
    query = None if token is None else query_position(token, inputs.queries, inputs.keys)
    # NumPy gives no warnings of overflow, because `check_finite` raises an error.
    with np.errstate(over="ignore", invalid="ignore"):
        projected = projections(inputs)
        heads = steps_of_heads(inputs, projected)
        stages = [*given_stages(inputs, query), *projected_stages(inputs, projected, query)]
        for head, steps in enumerate(heads, 1):
            stages += HeadStages(inputs, steps, None if inputs.n_heads == 1 else head, query).stages()
        stages += output_stages(inputs, [steps.context for steps in heads], query)
    for stage in stages:
        check_finite(stage)
    return WorkedAttention(inputs=inputs, stages=tuple(stages), query=query)


def worked_example(name: str, token: TokenReference | None = None) -> WorkedAttention:
    return work_out(built_in_inputs(name), token)


def projections(inputs: ExampleInputs) -> dict[str, Matrix]:
    """Return the matrices Q, K and V by name: as they are given, or computed, such as Q = x W_q + b_q."""
    matrices = inputs.matrices
    if "Q" in matrices:
        return {name: matrices[name] for name in ("Q", "K", "V")}
    sources = {"Q": matrices["x"], "K": matrices[inputs.keys_from], "V": matrices[inputs.keys_from]}
    return {
        name: source @ matrices[f"W_{name.lower()}"] + matrices.get(f"b_{name.lower()}", 0.0)
        for name, source in sources.items()
    }


def steps_of_heads(inputs: ExampleInputs, projected: dict[str, Matrix]) -> list[HeadSteps]:
    by_head = [np.split(projected[name], inputs.n_heads, axis=1) for name in ("Q", "K", "V")]
    biases: Any = (None,) * inputs.n_heads
    if inputs.bias is not None:
        biases = np.broadcast_to(inputs.bias, (inputs.n_heads, inputs.n_queries, inputs.n_keys))
    sinks = inputs.sinks or (None,) * inputs.n_heads
    return [
        head_steps(inputs, query, key, value, bias, sink)
        for query, key, value, bias, sink in zip(*by_head, biases, sinks, strict=True)
    ]


# The matrices to show, each as a `Stage` (worked_attention.py explains its attributes), in the order of the computation


def given_stages(inputs: ExampleInputs, query: int | None) -> list[Stage]:
    """Return the matrices in `inputs`, except W_o, as `Stage`s; the row number `query` (None = no row) is marked."""
    queries, keys = inputs.query_texts, inputs.key_texts
    rows = {"x": queries, "Q": queries, "memory": keys, "K": keys, "V": keys}
    stages = [
        Stage(
            section="Given",
            name=name,
            matrix=inputs.matrices[name],
            rows=rows.get(name, ()),
            axis_of_keys="rows" if name in ("memory", "K", "V") else None,
            marked=query if name in ("x", "Q") else None,
        )
        for name in MATRICES
        if name in inputs.matrices and name != "W_o"
    ]
    biases = () if inputs.bias is None else inputs.bias
    for head, matrix in enumerate(biases, start=1):
        name = "bias" if len(biases) == 1 else f"bias_{head}"
        stages.append(
            Stage(
                section="Given",
                name=name,
                matrix=matrix,
                rows=queries,
                columns=keys,
                axis_of_keys="columns",
                marked=query,
                may_be_masked=True,
            )
        )
    return stages


def projected_stages(inputs: ExampleInputs, projected: dict[str, Matrix], query: int | None) -> list[Stage]:
    """Return Q, K and V with their formulas; an empty list if Q, K and V are given."""
    if "Q" in inputs.matrices:
        return []
    section, n_tokens = "Queries, keys and values", inputs.n_queries
    if not inputs.is_cross_attention:
        section += f": {counted(n_tokens, 'token')} × 3 roles = {counted(3 * n_tokens, 'vector')}"
    stages = []
    for name, matrix in projected.items():
        bias = f" + b_{name.lower()}" if f"b_{name.lower()}" in inputs.matrices else ""
        stages.append(
            Stage(
                section=section,
                name=name,
                formula=f"{'x' if name == 'Q' else inputs.keys_from} W_{name.lower()}{bias}",
                matrix=matrix,
                **token_rows(inputs, name, query),
            )
        )
    return stages


def token_rows(inputs: ExampleInputs, name: str, query: int | None) -> dict[str, Any]:
    """Return arguments of `Stage` for Q, K or V: the names of the rows, and for Q the row whose steps are shown."""
    if name == "Q":
        return {"rows": inputs.query_texts, "marked": query}
    return {"rows": inputs.key_texts, "axis_of_keys": "rows"}


@dataclass(frozen=True, slots=True, eq=False)
class HeadStages:
    """The matrices of one head in a worked example, from the head's columns of Q, K and V to its context."""

    inputs: ExampleInputs
    steps: HeadSteps
    head: int | None  # the head's number from 1; None = there is only one
    query: int | None  # the marked row; None = no row

    def stages(self) -> list[Stage]:
        queries, keys = self.inputs.query_texts, self.inputs.key_texts
        axes: dict[str, Any] = {"rows": queries, "columns": keys, "axis_of_keys": "columns", "marked": self.query}
        stages = self.head_columns()
        q, k, v = (self.name(letter) for letter in "QKV")
        stages.append(self.stage("products", f"{q} {k}ᵀ", self.steps.products, **axes))
        has_bias, has_mask = self.inputs.bias is not None, self.inputs.mask is not None
        stages.append(self.stage("scores", self.scores_formula(), self.steps.scores, may_be_masked=has_bias, **axes))
        if has_mask:
            formula = f"{stages[-1].name}, −∞ where not allowed"
            stages.append(self.stage("masked", formula, self.steps.masked, may_be_masked=True, **axes))
        temperature = self.inputs.temperature
        if temperature not in (0, 1):
            formula, may_be_masked = f"{stages[-1].name} / {temperature:g}, the temperature", has_bias or has_mask
            stages.append(self.stage("tempered", formula, self.steps.tempered, may_be_masked=may_be_masked, **axes))
        stages.append(self.stage("weights", self.weights_formula(stages[-1].name), self.steps.weights, **axes))
        weights = stages[-1].name
        if self.query is not None:
            formula = f"{weights} of {queries[self.query]} · rows of {v}"
            values = self.steps.weights[self.query][:, None] * self.steps.value
            stages.append(self.stage("weighted values", formula, values, rows=keys, axis_of_keys="rows", summed=True))
        context = self.stage("context", f"{weights} {v}", self.steps.context, rows=queries, marked=self.query)
        return [*stages, context]

    def head_columns(self) -> list[Stage]:
        """Return the head's columns of Q, K and V; an empty list if there is only one head."""
        if self.head is None:
            return []
        parts = {"Q": self.steps.query, "K": self.steps.key, "V": self.steps.value}
        return [
            self.stage(
                name,
                f"{columns_text(self.head, part.shape[1])} of {name}",
                part,
                **token_rows(self.inputs, name, self.query),
            )
            for name, part in parts.items()
        ]

    def scores_formula(self) -> str:
        inputs, formula, note = self.inputs, self.name("products"), ""
        if inputs.scale is None:
            formula, note = f"{formula} / √d_k", f", d_k = {self.steps.query.shape[1]}"
        elif inputs.scale == 1:
            note = ", not scaled"
        else:
            formula = f"{formula} · {inputs.scale:.4g}"
        if inputs.softcap is not None:
            formula = f"{inputs.softcap:g} · tanh({formula} / {inputs.softcap:g})"
        if inputs.bias is not None:
            formula = f"{formula} + {'bias' if len(inputs.bias) == 1 else self.name('bias')}"
        return formula + note

    def weights_formula(self, scores: str) -> str:
        sink = " and a sink" if self.inputs.sinks is not None else ""
        if self.inputs.temperature == 0:
            return f"all on the largest of {scores}{sink}, shared by equal ones"
        return f"softmax({scores}{sink}), row by row"

    def stage(self, name: str, formula: str, matrix: Matrix, **options: Any) -> Stage:
        """Return a matrix of this head as a `Stage`; `options` are further arguments of `Stage`."""
        section = "Attention" if self.head is None else f"Head {self.head} of {self.inputs.n_heads}"
        return Stage(section=section, name=self.name(name), formula=formula, matrix=matrix, head=self.head, **options)

    def name(self, name: str) -> str:
        """Return the name of a matrix of this head, such as "scores_2"; without a number if there is only one head."""
        return name if self.head is None else f"{name}_{self.head}"


def output_stages(inputs: ExampleInputs, contexts: Sequence[Matrix], query: int | None) -> list[Stage]:
    """Return the matrices that all heads share: the contexts side by side, W_o and the output."""
    section = "Output" if inputs.n_heads == 1 else "The heads together"
    rows: dict[str, Any] = {"rows": inputs.query_texts, "marked": query}
    stages, context = [], np.concatenate(contexts, axis=1)
    if inputs.n_heads > 1:
        names = [f"context_{head}" for head in range(1, inputs.n_heads + 1)]
        formula = f"[{', '.join(names if len(names) < 4 else [names[0], '…', names[-1]])}]"
        stages.append(Stage(section=section, name="concatenated", formula=formula, matrix=context, **rows))
    if "W_o" in inputs.matrices:
        parameters = inputs.matrices["W_o"]
        formula = f"{'concatenated' if stages else 'context'} W_o"
        stages.append(Stage(section=section, name="W_o", matrix=parameters))
        stages.append(Stage(section=section, name="output", formula=formula, matrix=context @ parameters, **rows))
    return stages


def columns_text(head: int, width: int) -> str:
    """Return which columns of Q, K or V belong to a head with `width` columns; heads and columns count from 1.

    >>> columns_text(2, 4), columns_text(2, 1)
    ('columns 5–8', 'column 2')
    """
    first, last = (head - 1) * width + 1, head * width
    return f"column {first}" if first == last else f"columns {first}–{last}"


def check_finite(stage: Stage) -> None:
    """Raise InputError if a matrix has an infinite number, other than the -∞ of a mask or a bias."""
    if not (np.isfinite(stage.matrix) | (stage.may_be_masked & np.isneginf(stage.matrix))).all():
        raise InputError(
            f"{stage.name} = {stage.formula} is too large to compute with these numbers (a float64 ends at 1.8e308); "
            "make them smaller."
        )
