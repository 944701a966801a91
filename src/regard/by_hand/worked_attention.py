"""Attention by hand: every matrix of every step, with its name, its formula and its shape.

    given → queries, keys and values → products → scores → masked → weights → context → output

Computed in float64 by `attend`, as every other attention here; this file only names what there is to see. It is drawn
by `regard.views.terminal.matrices.show`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.grid.grid import Grid
from regard.attention.steps import Steps
from regard.by_hand.numbers import MATRICES, Numbers
from regard.errors import InputError, counted, nearest
from regard.tracing.head import TokenReference, token_position
from regard.tracing.tokens import Token

Matrix = Float[Tensor, "_ _"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Stage:
    """One matrix on the way, and how it came about.

    Attributes:
        section: the part of the work that it belongs to.
        name: what it is called in the formulas of later stages; in one head of several it ends in the head's number.
        formula: what it was computed from, in those names; empty if it was given.
        rows, columns: what its rows and columns are called; empty if they have no names.
        keys: the axis along which the keys lie.
        marked: the row of the token of interest.
        summed: whether its rows add up to something to be seen.
        head: the head's number, counted from 1; None where heads are together.
    """

    section: str
    name: str
    matrix: Matrix
    formula: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    keys: Literal["rows", "columns"] | None = None
    marked: int | None = None
    summed: bool = False
    head: int | None = None

    @property
    def shape(self) -> str:
        """Its shape in words: 3 tokens × 4."""
        n_rows, n_columns = self.matrix.shape
        rows = counted(n_rows, "token") if self.rows else str(n_rows)
        return f"{rows} × {counted(n_columns, 'token') if self.columns else n_columns}"

    def __repr__(self) -> str:
        formula = f" = {self.formula}" if self.formula else ""
        return f"Stage({self.name}{formula}, {self.shape})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WorkedAttention:
    """Attention worked out step by step; worked["weights"] is one stage.

    Attributes:
        stages: in the order in which they are computed.
        query: the position of the token of interest, if there is one.
    """

    numbers: Numbers
    stages: tuple[Stage, ...]
    query: int | None = None

    @property
    def title(self) -> str:
        """What it is an example of."""
        return self.numbers.title

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about the numbers, a line each."""
        before = [stage for stage, then in pairwise(self.stages) if then.name.split("_")[0] == "weights"]
        blind = torch.stack([stage.matrix for stage in before]).isneginf().all(dim=-1).all(dim=0).tolist()
        names = [text for text, is_blind in zip(token_texts(self.numbers.queries), blind, strict=True) if is_blind]
        seen = (f"{name} may look at no key: its weights and its context are 0." for name in names)
        return (*self.numbers.notes, *self.sink, *seen)

    @property
    def sink(self) -> list[str]:
        """What there is to say of a sink."""
        sinks, temperature = self.numbers.normalise.sinks, self.numbers.normalise.temperature
        if sinks is None:
            return []
        if temperature == 0:
            return [f"A sink of {float(sinks[0]):.4f} takes part: it has all weight where it is the largest."]
        tempered = "" if temperature == 1 else f" / {temperature:g} = {float(sinks[0]) / temperature:.4f}"
        return [f"A sink of {float(sinks[0]):.4f}{tempered} takes part in each softmax and gives no value."]

    @property
    def weights(self) -> Float[Tensor, "heads queries keys"]:
        """The weights of every head."""
        return torch.stack([stage.matrix for stage in self.stages if stage.name.split("_")[0] == "weights"])

    @property
    def strongest(self) -> tuple[int, ...]:
        """The keys that the token of interest looks at over all heads, strongest first; none without such a token."""
        if self.query is None:
            return ()
        return tuple(self.weights[:, self.query].sum(dim=0).argsort(descending=True).tolist())

    def __getitem__(self, name: str) -> Stage:
        stages = {stage.name: stage for stage in self.stages}
        if name not in stages:
            raise InputError(f"no stage {name!r}; nearest: {', '.join(nearest(name, list(stages)))}.")
        return stages[name]

    def __repr__(self) -> str:
        sizes = f"queries={self.numbers.n_queries}, keys={self.numbers.n_keys}, heads={self.numbers.n_heads}"
        return f"Worked({self.title!r}, {sizes}, stages={len(self.stages)})"


def work_out(numbers: Numbers, token: TokenReference | None = None) -> WorkedAttention:
    """Compute every stage.

    Args:
        token: the token of interest: its row is marked, and the values that it reads are shown weighted.

    Raises:
        InputError: there is no such token, or numbers so large that a product of them is infinite.

    >>> from regard.by_hand.numbers_file import example_numbers
    >>> work_out(example_numbers("self-attention"))["products"].matrix
    tensor([[ 2.,  4.,  4.],
            [ 4., 16., 12.],
            [ 4., 12., 10.]], dtype=torch.float64)
    """
    query = None if token is None else token_position(token, numbers.queries)
    queries, keys = token_texts(numbers.queries), token_texts(numbers.keys)
    projected = projections(numbers)
    query_key_value = [
        rearrange(projected[name], "tokens (heads d_head) -> 1 heads tokens d_head", heads=numbers.n_heads)
        for name in ("Q", "K", "V")
    ]
    attended = attend(*query_key_value, score=numbers.score, mask=numbers.mask, normalise=numbers.normalise)
    stages = [*given_stages(numbers, queries, keys, query), *projected_stages(numbers, projected, queries, keys, query)]
    contexts = []
    for head in range(numbers.n_heads):
        one = HeadStages(numbers, attended.pattern.steps(0, head), None if numbers.n_heads == 1 else head + 1, query)
        stages += one.stages(queries, keys)
        contexts.append(one.steps.context)
    stages += output_stages(numbers, contexts, queries, query)
    for stage in stages:
        check_finite(stage)
    return WorkedAttention(numbers=numbers, stages=tuple(stages), query=query)


def worked_example(name: str, token: TokenReference | None = None) -> WorkedAttention:
    """A built-in example, worked out.

    Raises:
        InputError: there is no such example; the message names the nearest.
    """
    from regard.by_hand.numbers_file import example_numbers

    return work_out(example_numbers(name), token)


# The stages, part by part


def given_stages(numbers: Numbers, queries: tuple[str, ...], keys: tuple[str, ...], query: int | None) -> list[Stage]:
    """The matrices that were given, in the order in which they are used; W_o comes when it is needed."""
    rows = {"x": queries, "Q": queries, "memory": keys, "K": keys, "V": keys}
    shown = [
        Stage(
            section="Given",
            name=name,
            matrix=numbers.matrices[name].double(),
            rows=rows.get(name, ()),
            keys="rows" if name in ("memory", "K", "V") else None,
            marked=query if name in ("x", "Q") else None,
        )
        for name in MATRICES
        if name in numbers.matrices and name != "W_o"
    ]
    axes: dict[str, Any] = {"rows": queries, "columns": keys, "keys": "columns", "marked": query}
    biases = bias_matrices(numbers)
    for head, matrix in enumerate(biases, start=1):
        shown.append(Stage(section="Given", name="bias" if len(biases) == 1 else f"bias_{head}", matrix=matrix, **axes))
    return shown


def bias_matrices(numbers: Numbers) -> Float[Tensor, "heads queries keys"]:
    """What is added to the scores: one matrix for each head, one for all of them, or none."""
    grid = Grid(1, numbers.n_heads, numbers.n_queries, numbers.n_keys)
    if numbers.score.bias is None:
        return torch.zeros(0, grid.queries, grid.keys)
    biases = numbers.score.biases(grid.whole(), torch.device("cpu"), torch.float64)[0].detach()
    return biases.double().expand(-1, grid.queries, grid.keys)


def projections(numbers: Numbers) -> dict[str, Matrix]:
    """Q, K and V."""
    matrices = {name: matrix.double() for name, matrix in numbers.matrices.items()}
    if "Q" in matrices:
        return {name: matrices[name] for name in ("Q", "K", "V")}
    sources = {"Q": matrices["x"], "K": matrices[numbers.keys_from], "V": matrices[numbers.keys_from]}
    return {
        name: source @ matrices[f"W_{name.lower()}"] + matrices.get(f"b_{name.lower()}", torch.zeros(()))
        for name, source in sources.items()
    }


def projected_stages(
    numbers: Numbers,
    projected: dict[str, Matrix],
    queries: tuple[str, ...],
    keys: tuple[str, ...],
    query: int | None,
) -> list[Stage]:
    """Q, K and V where they were computed."""
    if "Q" in numbers.matrices:
        return []
    section = "Queries, keys and values"
    if not numbers.crosses:
        section += f": {counted(len(queries), 'token')} × 3 roles = {counted(3 * len(queries), 'vector')}"
    stages = []
    for name, matrix in projected.items():
        bias = f" + b_{name.lower()}" if f"b_{name.lower()}" in numbers.matrices else ""
        stages.append(
            Stage(
                section=section,
                name=name,
                formula=f"{'x' if name == 'Q' else numbers.keys_from} W_{name.lower()}{bias}",
                matrix=matrix,
                rows=queries if name == "Q" else keys,
                keys=None if name == "Q" else "rows",
                marked=query if name == "Q" else None,
            )
        )
    return stages


@dataclass(frozen=True, slots=True, eq=False)
class HeadStages:
    """The stages of one head; `head` is its number from 1, or None if it is the only one."""

    numbers: Numbers
    steps: Steps
    head: int | None
    query: int | None

    def stages(self, queries: tuple[str, ...], keys: tuple[str, ...]) -> list[Stage]:
        """From the head's share of Q, K and V to its context."""
        axes: dict[str, Any] = {"rows": queries, "columns": keys, "keys": "columns", "marked": self.query}
        stages = self.split(queries, keys)
        q, k, v = (self.name(letter) for letter in "QKV")
        stages.append(self.stage("products", f"{q} {k}ᵀ", self.steps.products, **axes))
        stages.append(self.stage("scores", self.scaling(), self.steps.scores, **axes))
        if self.numbers.mask is not None:
            formula = f"{stages[-1].name}, −∞ where not allowed"
            stages.append(self.stage("masked", formula, self.steps.masked, **axes))
        temperature = self.numbers.normalise.temperature
        if temperature not in (0, 1):
            formula = f"{stages[-1].name} / {temperature:g}, the temperature"
            stages.append(self.stage("tempered", formula, stages[-1].matrix / temperature, **axes))
        stages.append(self.stage("weights", self.normalising(stages[-1].name), self.steps.weights, **axes))
        weights = stages[-1].name
        if self.query is not None:
            stages.append(self.weighted_values(weights, v, keys))
        context = self.stage("context", f"{weights} {v}", self.steps.context, rows=queries, marked=self.query)
        return [*stages, context]

    def split(self, queries: tuple[str, ...], keys: tuple[str, ...]) -> list[Stage]:
        """The head's own columns of Q, K and V; nothing if it has them all."""
        if self.head is None:
            return []
        parts = {"Q": self.steps.query, "K": self.steps.key, "V": self.steps.value}
        return [
            self.stage(
                name,
                f"{head_columns(self.head, part.shape[1])} of {name}",
                part,
                rows=queries if name == "Q" else keys,
                keys=None if name == "Q" else "rows",
                marked=self.query if name == "Q" else None,
            )
            for name, part in parts.items()
        ]

    def scaling(self) -> str:
        """How the scores follow from the products."""
        score, products = self.numbers.score, self.name("products")
        d_key = self.steps.query.shape[-1]
        if score.scale is None:
            formula = f"{products} / √d_k, d_k = {d_key}"
        elif score.scale == 1:
            formula = f"{products}, not scaled"
        else:
            formula = f"{products} · {score.scale:.4g}"
        if score.softcap is not None:
            formula = f"{score.softcap:g} · tanh({formula} / {score.softcap:g})"
        if score.bias is None:
            return formula
        return f"{formula} + {'bias' if len(bias_matrices(self.numbers)) == 1 else self.name('bias')}"

    def normalising(self, scores: str) -> str:
        """How the weights follow from the scores."""
        sink = " and a sink" if self.numbers.normalise.sinks is not None else ""
        if self.numbers.normalise.temperature == 0:
            return f"all on the largest of {scores}{sink}"
        return f"softmax({scores}{sink}), row by row"

    def weighted_values(self, weights: str, value: str, keys: tuple[str, ...]) -> Stage:
        """What the token of interest takes from each key; these add up to its context."""
        token = token_texts(self.numbers.queries)[self.query or 0]
        formula = f"{weights} of {token} · rows of {value}"
        matrix = self.steps.weighted_values[self.query or 0]
        return self.stage("weighted values", formula, matrix, rows=keys, keys="rows", summed=True)

    def stage(self, name: str, formula: str, matrix: Matrix, **how: Any) -> Stage:
        """A stage of this head."""
        section = "Attention" if self.head is None else f"Head {self.head} of {self.numbers.n_heads}"
        return Stage(section=section, name=self.name(name), formula=formula, matrix=matrix, head=self.head, **how)

    def name(self, name: str) -> str:
        """What a stage of this head is called."""
        return name if self.head is None else f"{name}_{self.head}"


def output_stages(
    numbers: Numbers, contexts: Sequence[Matrix], queries: tuple[str, ...], query: int | None
) -> list[Stage]:
    """The heads' contexts side by side, and what the output parameters make of them."""
    section = "Output" if numbers.n_heads == 1 else "The heads together"
    stages, context = [], torch.cat(list(contexts), dim=1)
    if numbers.n_heads > 1:
        shown = [f"context_{head}" for head in range(1, numbers.n_heads + 1)]
        formula = f"[{', '.join(shown if len(shown) < 4 else [shown[0], '…', shown[-1]])}]"
        stages.append(
            Stage(section=section, name="concatenated", formula=formula, matrix=context, rows=queries, marked=query)
        )
    if "W_o" in numbers.matrices:
        parameters = numbers.matrices["W_o"].double()
        formula = f"{'concatenated' if stages else 'context'} W_o"
        stages.append(Stage(section=section, name="W_o", matrix=parameters))
        stages.append(
            Stage(
                section=section, name="output", formula=formula, matrix=context @ parameters, rows=queries, marked=query
            )
        )
    return stages


def head_columns(head: int, width: int) -> str:
    """Which columns belong to a head, counted from 1.

    >>> head_columns(2, 4), head_columns(2, 1)
    ('columns 5–8', 'column 2')
    """
    first, last = (head - 1) * width + 1, head * width
    return f"column {first}" if first == last else f"columns {first}–{last}"


def token_texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    """What the tokens are called."""
    return tuple(token.text for token in tokens)


def check_finite(stage: Stage) -> None:
    """Only a mask or a bias may make a number infinite, and only -∞."""
    barred = stage.matrix == -torch.inf
    if stage.name.split("_")[0] not in ("bias", "masked", "tempered") and "+ bias" not in stage.formula:
        barred = torch.zeros_like(barred)
    if not bool((stage.matrix.isfinite() | barred).all()):
        raise InputError(
            f"{stage.name} = {stage.formula} is too large to compute with these numbers (a float64 ends at 1.8e308); "
            "make them smaller."
        )
